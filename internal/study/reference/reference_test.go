package reference

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/data"
)

// The reference rows on ML-100K are known from an independent computation in
// another language (popularity .412/.224, EASE .651/.373 sampled and .135 full
// under deployed); one seed moves HR by about .015.
func TestReferencesHaveTheKnownValuesOnML100K(t *testing.T) {
	dir := os.Getenv("TACIT_DATA")
	if dir == "" {
		t.Skip("set TACIT_DATA to the folder that holds ml-100k to run this")
	}
	set, err := data.Open(os.DirFS(dir), "ml-100k", data.Options{})
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name, protocol string
		hr, tol        float64
	}{
		{"popularity", "deployed", .412, .035},
		{"ease", "deployed", .651, .035},
		{"memoriser", "paper", 1, .005},
		{"memoriser", "isolated", .10, .005}, // chance
		{"memoriser", "deployed", .10, .06},
		{"local", "paper", .997, .01},
		{"local", "deployed", .13, .08},
	} {
		p, err := data.ProtocolNamed(c.protocol)
		if err != nil {
			t.Fatal(err)
		}
		s, err := data.NewSplit(set, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		row, err := Compute(context.Background(), c.name, Config{Split: s, Rounds: 100, Negatives: 4, Seed: 1, Jobs: 2})
		if err != nil {
			t.Fatal(err)
		}
		got := row.Test.Sampled["hr@10"]
		t.Logf("%s under %s: HR@10 %.3f, full %.3f, %.2f s", c.name, c.protocol, got, row.Test.Full["hr@10"],
			time.Since(start).Seconds())
		if got < c.hr-c.tol || got > c.hr+c.tol {
			t.Errorf("%s under %s: HR@10 is %.3f, want %.3f within %.3f", c.name, c.protocol, got, c.hr, c.tol)
		}
	}
}
