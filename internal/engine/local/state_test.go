package local_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// kept is a device with private slots of both kinds after two visits.
func kept(t testing.TB, keep rows.Precision) (*local.Plan, *local.Memory, local.State) {
	t.Helper()
	m := &methods.FedRAP{}
	param.Defaults(m)
	plan, err := local.NewPlan(m, local.Options{Items: 40, Rounds: 2, Batch: 8, Negatives: 2, Seed: 3, Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := local.NewMemory(plan, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	k, st := local.NewWorker(mem, 0), mem.NewState(nil)
	for round := range 2 {
		k.Visit(&st, &local.Task{Round: round, Train: []uint32{3, 9, 27, 31}}, 0, false)
	}
	return plan, mem, st
}

func TestAStateComesBackAsItWas(t *testing.T) {
	for _, keep := range []rows.Precision{rows.F32, rows.Int16, rows.Int8} {
		plan, mem, st := kept(t, keep)
		b := plan.AppendState(nil, &st)
		again := mem.NewState(nil)
		if err := plan.ReadState(bytes.NewReader(b), &again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(plan.AppendState(nil, &again), b) || again.Visits != 2 || len(again.Tables) != 1 ||
			len(again.Tables[0].IDs) < 4 {
			t.Errorf("form %d: the state that is read is not the one that was written", keep)
		}
		for cut := range len(b) {
			short := mem.NewState(nil)
			if plan.ReadState(bytes.NewReader(b[:cut]), &short) == nil {
				t.Fatalf("form %d: the first %d of %d bytes are taken for a state", keep, cut, len(b))
			}
		}
	}
}

func TestAStateWithARowTwiceIsRefused(t *testing.T) {
	plan, mem, st := kept(t, rows.F32)
	st.Tables[0].IDs[1] = st.Tables[0].IDs[0]
	again := mem.NewState(nil)
	if err := plan.ReadState(bytes.NewReader(plan.AppendState(nil, &st)), &again); err == nil {
		t.Error("it is read")
	}
}

func FuzzState(f *testing.F) {
	plan, mem, st := kept(f, rows.F32)
	b := plan.AppendState(nil, &st)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		got := mem.NewState(nil)
		if plan.ReadState(bytes.NewReader(b), &got) != nil {
			return
		}
		if again := plan.AppendState(nil, &got); !bytes.HasPrefix(b, again) {
			t.Error("a state is accepted that is not what a device would write")
		}
		local.NewWorker(mem, 0).Visit(&got, &local.Task{Train: []uint32{1, 2}}, 0, false)
	})
}

// What a plan says it needs is compared with what the runtime says was allocated.
func TestMemoryBytesMatchesAllocation(t *testing.T) {
	for _, name := range []string{"pfedrec", "fedrap", "fedncf", "fcf", "ials-next"} {
		e, err := methods.Default().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		var m method.Method = e.Build()
		plan, err := local.NewPlan(m, local.Options{Items: 20000, Rounds: 2, Batch: 256, Negatives: 4, Integers: true})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mem, err := local.NewMemory(plan, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		k, st := local.NewWorker(mem, 0), mem.NewState(nil)
		runtime.ReadMemStats(&after)
		took, said := float64(after.TotalAlloc-before.TotalAlloc), plan.MemoryBytes(1, 1)
		if took > 1.15*said || said > 2*took {
			t.Errorf("%s: it says %.0f bytes, and takes %.0f", name, said, took)
		}
		runtime.KeepAlive(k)
		runtime.KeepAlive(st)
	}
}
