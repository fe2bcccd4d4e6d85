package sim

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/vec"
)

// twoHeads scores by two tables that nobody trains: rows of 5 numbers, and a bias of each item.
// The levels of the rows are few, so that scores tie.
type twoHeads struct{ logits int }

const (
	twoRows = iota
	twoBias
	twoVector
	twoOne
	twoCount
)

var (
	_ method.Linear  = (*twoHeads)(nil)
	_ method.Ready   = (*twoHeads)(nil)
	_ method.Updater = (*twoHeads)(nil)
)

func (m *twoHeads) Slots(int) []method.Slot {
	table := func(name string, dim int, kind method.InitKind) method.Slot {
		return method.Slot{
			Name: name, Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: dim,
			Init: method.Init{Kind: kind, A: 1},
		}
	}
	return []method.Slot{
		twoRows: table("rows", 5, method.Constant), twoBias: table("bias", 1, method.Normal),
		twoVector: {Name: "vector", Scope: method.Ephemeral, Rows: 1, Dim: 5},
		twoOne: {
			Name: "one", Scope: method.Ephemeral, Rows: 1, Dim: 1,
			Init: method.Init{Kind: method.Constant, A: 1},
		},
		twoCount: {Name: "count", Scope: method.Shared, Upload: method.Sum, Rows: 1, Dim: 1},
	}
}

func (m *twoHeads) Heads() []method.Head {
	return []method.Head{
		{Item: twoRows, Vector: twoVector, Bias: method.NoBias},
		{Item: twoBias, Vector: twoOne, Bias: method.NoBias},
	}
}

func (m *twoHeads) Logits(w *method.Work, b *method.Batch, out []float32) {
	m.logits++
	more := w.Floats(b.N)
	for n, h := range m.Heads() {
		v := &w.View[h.Item]
		dst := out[:b.N]
		if n > 0 {
			dst = more
		}
		vec.Dots(v.Arena, v.Stride, b.Rd[h.Item], w.View[h.Vector].Val, 0, dst)
	}
	vec.Add(more, out[:b.N])
}

func (m *twoHeads) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		for _, i := range w.Samples.Item {
			w.View[twoVector].Val[i%5]++
		}
	}}
}

func (m *twoHeads) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) { w.View[twoCount].Val[0]++ }}
}

// Update rounds the biases to few levels, and gives each item its own row.
func (m *twoHeads) Update(g *method.Global) {
	for i := range g.Items {
		bias := &g.Value[twoBias][i*g.Stride[twoBias]]
		*bias = float32(math.Round(float64(*bias)*4)) / 4
		for k := range 5 {
			g.Value[twoRows][i*g.Stride[twoRows]+k] = float32((i * (k + 3)) % 7)
		}
	}
}

// Users that are ranked in blocks have the ranks and the lists that they have alone, for several
// pieces of the catalogue and any number of workers.
func TestBlocksRankAsUsersAlone(t *testing.T) {
	build := map[string]func() method.Method{
		"ials":      func() method.Method { m := &methods.IALS{}; configure(t, m, "dim", "12"); return m },
		"fedmf":     func() method.Method { m := &methods.FedMF{}; configure(t, m); return m },
		"mf":        func() method.Method { m := &methods.MF{}; configure(t, m); return m },
		"two heads": func() method.Method { return &twoHeads{} },
	}
	for name, m := range build {
		for _, protocol := range []string{"deployed", "temporal"} {
			s := split(t, world(t, "users=70,items=700,mean-rows=12").Generate(), protocol)
			o := defaults()
			o.Rounds, o.Name = 2, name
			var got [3]*Ranks
			for i, jobs := range []int{1, 3, 2} {
				r := start(t, m(), s, o, jobs)
				r.eval.oneByOne = i == 2
				finish(t, r)
				used := func(l *lane) bool { return l.block.users != nil }
				if slices.ContainsFunc(r.fleet.lanes, used) != (i < 2) {
					t.Fatalf("%s: users are ranked in blocks: %t", name, i == 2)
				}
				got[i] = r.eval.now
			}
			for i := range 2 {
				if !reflect.DeepEqual(got[i], got[2]) {
					t.Fatalf("%s, %s: the ranks of blocks differ from those of users alone", name, protocol)
				}
			}
		}
	}
}

// A Linear method has the scores of its Logits, to the bit, and Logits is not called for them.
func TestHeadsScoreAsLogits(t *testing.T) {
	s := small(t, "deployed")
	o := defaults()
	o.Rounds = 1
	var scores [2][]float32
	for i := range scores {
		m := &twoHeads{}
		o.Plain = i == 1
		r := start(t, m, s, o, 1)
		finish(t, r)
		l := r.fleet.lanes[0]
		r.fleet.open(l, 7, 1)
		l.Prepare(&r.fleet.state[7], &l.task)
		scores[i] = make([]float32, s.Items())
		l.ScoreAll(scores[i])
		if (m.logits > 0) != o.Plain {
			t.Fatalf("plain %t: Logits is called %d times", o.Plain, m.logits)
		}
	}
	if !reflect.DeepEqual(scores[0], scores[1]) {
		t.Fatal("the sum of the heads differs from Logits")
	}
}
