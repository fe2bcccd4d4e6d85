package local_test

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// headless hides a method's head, so that it is scored through its own Logits.
type headless struct{ m *methods.PFedRec }

func (h headless) Slots(items int) []method.Slot                         { return h.m.Slots(items) }
func (h headless) Visit(items int) method.Visit                          { return h.m.Visit(items) }
func (h headless) Logits(w *method.Work, b *method.Batch, out []float32) { h.m.Logits(w, b, out) }

// Weight decay shrinks every row of the device's own copy. The oracle knows by how
// much from the rate and the number of batches.
func TestUntouchedRowsOfATunedTableAreScoredShrunk(t *testing.T) {
	const items = 300
	for _, decay := range []float32{0, 1e-5} {
		m := &methods.PFedRec{}
		param.Defaults(m)
		m.Decay = decay
		for name, of := range map[string]method.Method{"by its head": m, "by Logits": headless{m}} {
			plan, err := local.NewPlan(of, local.Options{Items: items, Rounds: 1, Batch: 8, Negatives: 4, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			mem, err := local.NewMemory(plan, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			k, state := local.NewWorker(mem, 0), mem.NewState(nil)
			task := &local.Task{Train: []uint32{3, 7, 11, 40}}
			out := k.Visit(&state, task, 0, false)
			batches := (out.Samples + 7) / 8
			shrunk := math.Pow(1-0.1*80*items*float64(decay), float64(batches))
			touched := map[uint32]bool{}
			for _, i := range k.Touched() {
				touched[i] = true
			}
			all := make([]float32, items)
			k.ScoreAll(all)
			one := make([]float32, 1)
			for i := range uint32(items) {
				if touched[i] {
					continue
				}
				want := float64(state.Plain[32])
				for d := range 32 {
					want += shrunk * float64(mem.Value(0)[int(i)*32+d]) * float64(state.Plain[d])
				}
				k.Score([]uint32{i}, one)
				if math.Abs(float64(all[i])-want) > 1e-4 || math.Abs(float64(one[0])-want) > 1e-4 {
					t.Fatalf("decay %g, %s: item %d scores %g and %g, want %g", decay, name, i, all[i], one[0], want)
				}
			}
		}
	}
}
