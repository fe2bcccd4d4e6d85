package methods_test

import (
	"context"
	"math"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// walks returns a small set of histories with repeated items; one user has a single item.
func walks() *data.Set {
	s := &data.Set{NumItems: 11, Start: []int{0}, Meta: data.Info{Name: "walks", TimeKind: data.OrderOnly}}
	for u := range 14 {
		r := rng.New(rng.Test, uint64(u))
		for k := range 3 + u {
			s.Item = append(s.Item, r.Uint32n(11))
			s.Time = append(s.Time, int64(k))
		}
		s.Start = append(s.Start, len(s.Item))
	}
	return s
}

// chain scores an item after a history by the definition.
func chain(m *methods.Markov, all [][]uint32, history []uint32, item uint32) float64 {
	followers := func(i, j uint32) float64 {
		n := 0.0
		for _, h := range all {
			for t := range h {
				for k := 1; k <= m.Window && t+k < len(h); k++ {
					if h[t] == i && (h[t+k] == j || j == math.MaxUint32) {
						n += math.Pow(m.Decay, float64(k-1))
					}
				}
			}
		}
		return n
	}
	has, have := 0.0, 0.0
	for _, h := range all {
		distinct := map[uint32]bool{}
		for _, i := range h {
			distinct[i] = true
		}
		have += float64(len(distinct))
		if distinct[item] {
			has++
		}
	}
	score := 0.0
	for k := range min(m.Last, len(history)) {
		i := history[len(history)-1-k]
		score += math.Pow(m.Decay, float64(k)) * (followers(i, item) + m.Smooth*has/have) / (followers(i,
			math.MaxUint32) + m.Smooth)
	}
	return score
}

func TestMarkovMatchesItsDefinition(t *testing.T) {
	split, err := data.NewSplit(walks(), data.Protocol{Name: "walks", Sampled: 2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]uint32
	var part data.Part
	for u := range split.Users() {
		split.User(u, &part)
		all = append(all, append([]uint32(nil), part.Train...))
	}
	for _, m := range []*methods.Markov{
		{Window: 1, Last: 1, Decay: 0.7, Smooth: 10},
		{Window: 3, Last: 4, Decay: 0.6, Smooth: 0.5},
		{Window: 20, Last: 20, Decay: 1, Smooth: 2},
	} {
		var o sim.Options
		param.Defaults(&o)
		o.Rounds = 2
		r, err := sim.New(m, split, o, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		for range o.Rounds {
			if _, err := r.Step(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		k, scores := local.NewWorker(r.Memory(), 0), make([]float32, split.Items())
		for u, history := range all {
			state := r.Memory().NewState(nil)
			k.Prepare(&state, &local.Task{Device: uint32(u), Round: 1, Train: history})
			k.ScoreAll(scores)
			for i, got := range scores {
				if want := chain(m, all, history, uint32(i)); math.Abs(float64(got)-want) > 1e-5 {
					t.Fatalf("%+v: after %v item %d scores %g, want %g", *m, history, i, got, want)
				}
			}
		}
	}
}
