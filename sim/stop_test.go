package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// soon is a context that is done after that many calls of Err.
type soon struct {
	context.Context
	left atomic.Int64
}

func doneAfter(asked int) *soon {
	s := &soon{Context: context.Background()}
	s.left.Store(int64(asked))
	return s
}

func (s *soon) Err() error {
	if s.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A run is stopped in the midst of an evaluation: the round stays, its evaluation is done
// again on resume, and the events equal those of an uninterrupted run.
func TestInterruptedEvaluationIsRepeated(t *testing.T) {
	o := defaults()
	o.Rounds = 3
	fresh := func() *Run { return start(t, pfedrec(t, "dim", "3", "infer", "global"), small(t, "deployed"), o, 2) }
	whole := fresh()
	want, _ := json.Marshal(told(finish(t, whole)))
	for asked := range 3 {
		r := fresh()
		_, err := r.Step(doneAfter(asked))
		if !errors.Is(err, context.Canceled) || r.Unevaluated == nil || r.EvaluatedRounds() != 0 || r.engine.Next != 1 {
			t.Fatalf("error %v, %d rounds run and %d measured, want Canceled, 1 and 0", err, r.engine.Next,
				r.EvaluatedRounds())
		}
		if !slices.ContainsFunc(r.eval.now.Test, func(p metrics.Rank) bool { return p.Above == metrics.NotRanked }) {
			t.Errorf("asked %d times, the evaluation ran to its end", asked)
		}
		if _, err := r.Step(doneAfter(0)); !errors.Is(err, context.Canceled) || r.Unevaluated == nil {
			t.Errorf("stopped again: %v", err)
		}
		again := fresh()
		if err := again.Load(bytes.NewReader(save(t, r, "x")), "x"); err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]*Run{"the run": r, "one that was saved and loaded": again} {
			got, _ := json.Marshal(told(finish(t, r)))
			if !bytes.Equal(got, want) || r.Digest() != whole.Digest() {
				t.Errorf("%s tells\n%s\nwant\n%s", name, got, want)
			}
		}
	}
}
