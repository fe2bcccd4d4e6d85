package result

import (
	"maps"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// Metric is one number of a run, in the long form that experiment trackers read.
type Metric struct {
	Seed  uint64
	Round int
	Name  string // train_loss, or valid.sampled.hr@10
	Value float64
}

// Metrics lists the numbers of every seed of a run: those of its rounds in their order, then the test metrics at the
// reported round.
func (r *Run) Metrics() (out []Metric) {
	for _, s := range EachSeed([]*Run{r}) {
		add := func(round int, name string, value float64) {
			out = append(out, Metric{s.Result.Seed, round, name, value})
		}
		summary := func(round int, part string, m *metrics.Summary) {
			if m == nil {
				return
			}
			for _, of := range []struct {
				name   string
				values map[string]float64
			}{{"sampled", m.Sampled}, {"full", m.Full}} {
				for _, name := range slices.Sorted(maps.Keys(of.values)) {
					add(round, part+"."+of.name+"."+name, of.values[name])
				}
			}
		}
		for _, p := range s.Points {
			if p.Loss != nil {
				add(p.Round, "train_loss", *p.Loss)
			}
			add(p.Round, "train_ms", p.TrainMS)
			add(p.Round, "eval_ms", p.EvalMS)
			add(p.Round, "bytes_up", float64(p.BytesUp))
			if p.Epsilon != nil {
				add(p.Round, "epsilon", *p.Epsilon)
			}
			if p.Clip > 0 {
				add(p.Round, "clip", p.Clip)
			}
			summary(p.Round, "valid", p.Valid)
		}
		summary(s.Result.SelectedRound, "test", &s.Result.Test)
	}
	return out
}
