package bench

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/methods"
)

func tiny(t *testing.T) Set {
	t.Helper()
	w, err := data.NewWorld(data.WorldConfig{Users: 30, Items: 200, MeanRows: 12, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return Set{"world", w.Generate()}
}

func TestEveryFigureIsMeasuredAndShown(t *testing.T) {
	r, err := Measure(context.Background(), Config{
		Sets: []Set{tiny(t)}, Jobs: 2, Quick: true, CPU: "a test",
		OnEvent: func(Measuring) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Peak.FlopsCore <= 0 || r.Peak.BytesAll <= 0 {
		t.Errorf("the roof is %+v", r.Peak)
	}
	for _, k := range r.Kernels {
		if k.NS <= 0 {
			t.Errorf("kernel %s on %s takes %g ns", k.Name, k.Shape, k.NS)
		}
	}
	for _, x := range r.Rounds {
		if x.MS <= 0 || x.Best > x.MS || x.Samples == 0 || x.Method == "pfedrec" && x.Naive <= 0 {
			t.Errorf("round %+v", x)
		}
	}
	if len(r.Rankings) != 1 || len(r.Runs) != 1 || r.Runs[0].HR10 <= 0 {
		t.Errorf("rankings %v, runs %v", r.Rankings, r.Runs)
	}
	var page, text bytes.Buffer
	if err := errors.Join(Markdown(&page, r), Text(&text, r)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a test", "Dots", "Gemm", "naive loop", "H200", "full ranking of 30 users"} {
		if !strings.Contains(page.String(), want) || !strings.Contains(text.String(), want) {
			t.Errorf("page or text does not say %q", want)
		}
	}
}

// An interrupt returns at once what was measured, although a measurement is in progress.
func TestAnInterruptReturnsWhatWasMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	rounds := 0
	r, err := Measure(ctx, Config{
		Sets: []Set{tiny(t)}, Jobs: 1, Quick: true,
		OnEvent: func(e Measuring) {
			if strings.Contains(e.What, "a round of") {
				if rounds++; rounds == 2 {
					cancel()
				}
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	if len(r.Kernels) == 0 || len(r.Rounds) != 1 || r.Rounds[0].Method != "pfedrec" {
		t.Errorf("%d kernels and rounds %+v; want those before the interrupt", len(r.Kernels), r.Rounds)
	}
	var text bytes.Buffer
	if err := Text(&text, r); err != nil || !strings.Contains(text.String(), "pfedrec") ||
		strings.Contains(text.String(), "Ranking and whole runs") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// A quick measurement times a round of each of these methods, and of no others.
func TestQuickMethodsExist(t *testing.T) {
	var names []string
	for _, e := range methods.Default().Entries() {
		names = append(names, e.Name)
	}
	for _, name := range quickMethods {
		if !slices.Contains(names, name) {
			t.Errorf("unknown method %s", name)
		}
	}
}
