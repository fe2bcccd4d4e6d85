package fleet_test

import (
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/data"
)

// A round of 300 devices over sockets, with everything on disk: what a report costs.
func BenchmarkRound(b *testing.B) {
	split := splitOf(b, "users=300,items=1700,mean-rows=100,seed=3")
	s := settings(split, "fedmf", "dim", "32")
	s.Rounds = max(b.N, 2)
	r := open(b, filepath.Join(b.TempDir(), "state"), split, &s)
	b.ResetTimer()
	f := r.run(nil, uint32(s.Rounds))
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(f.Stats().Counted), "us/report")
}

func splitOf(t testing.TB, text string) *data.Split {
	t.Helper()
	cfg, err := data.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := data.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, err := data.ProtocolNamed("deployed")
	if err != nil {
		t.Fatal(err)
	}
	s, err := data.NewSplit(w, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
