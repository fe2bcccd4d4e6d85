package learn_test

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// idle returns a device with n samples in batches of two.
func idle(n int, reorders *int) *method.Work {
	w := &method.Work{BatchSize: 2}
	w.Samples.Item, w.Samples.Y = make([]uint32, n), make([]float32, n)
	w.Samples.Shuffle = func() { *reorders++ }
	return w
}

func TestEpochsPassesOverAllSamplesInBatches(t *testing.T) {
	reorders, got := 0, []int{}
	w := idle(5, &reorders)
	steps := []int{}
	learn.Epochs(2, 0, method.Step{Do: func(w *method.Work, b *method.Batch) float64 {
		got = append(got, b.Lo, b.N)
		steps = append(steps, w.Step)
		return 0
	}}).Run(w)
	if want := []int{0, 2, 2, 2, 4, 1, 0, 2, 2, 2, 4, 1}; !slices.Equal(got, want) {
		t.Errorf("batches start and last %v, want %v", got, want)
	}
	if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(steps, want) {
		t.Errorf("batches are counted %v, want %v: over all passes", steps, want)
	}
	if reorders != 1 {
		t.Errorf("the samples are reordered %d times, want once: before the second pass", reorders)
	}
}

// Each case lists the loss per pass and the expected number of passes.
func TestEpochsStopsWhenMeanLossConverges(t *testing.T) {
	for _, c := range []struct {
		name string
		tol  float64
		loss []float64 // per sample, by pass
		want int       // passes
	}{
		{"no tolerance", 0, []float64{1, 1, 1, 1, 1}, 5},
		{"never settles", 0.01, []float64{1, 2, 3, 4, 5}, 5},
		{"constant", 0.01, []float64{1, 1, 1, 1, 1}, 2},
		// Running means 1, 1.5, 1.5: the loss itself is still falling by a quarter.
		{"the mean and not the loss", 0.01, []float64{1, 2, 1.5, 9, 9}, 3},
		// Losses 2, 1, 1, 1: means 2, 1.5, 1.333, 1.25; the last change is a sixteenth.
		{"a constant loss is not a constant mean", 0.07, []float64{2, 1, 1, 1, 1}, 4},
		{"a change of exactly tol continues", 0.25, []float64{1, 1.5, 9, 9, 9}, 5},
		{"a change below tol", 0.2500001, []float64{1, 1.5, 9, 9, 9}, 2},
		{"a negative loss", 0.01, []float64{-1, -1, 5, 5, 5}, 2},
	} {
		for _, asked := range []bool{false, true} {
			epochsStops(t, c.name, asked, c.tol, c.loss, c.want)
		}
	}
}

// epochsStops checks the number of passes. Epochs skips the loss of the fifth and last pass
// unless the caller requests it.
func epochsStops(t *testing.T, name string, asked bool, tol float64, loss []float64, want int) {
	t.Helper()
	reorders, batches := 0, 0
	w := idle(5, &reorders)
	w.WantLoss = asked
	visit := learn.Epochs(5, tol, method.Step{Do: func(_ *method.Work, b *method.Batch) float64 {
		l := loss[batches/3] * float64(b.N)
		batches++
		return l
	}})
	visit.Run(w)
	if batches != 3*want {
		t.Errorf("%s: %d passes, want %d", name, batches/3, want)
	}
	counted := want
	switch {
	case asked:
	case tol == 0:
		counted = 0
	case want == 5:
		counted = 4
	}
	if w.LossN != 5*counted || w.WantLoss != asked {
		t.Errorf("%s: the loss is of %d samples, want %d; asked for is %v, want %v", name, w.LossN, 5*counted,
			w.WantLoss, asked)
	}
}

func TestThenRunsInOrderWithNewSampleOrders(t *testing.T) {
	reorders, order := 0, ""
	w := idle(2, &reorders)
	say := func(s string) method.Visit {
		return method.Visit{Run: func(*method.Work) { order += s }}
	}
	v := learn.Then(say("a"), say("b"), say("c"))
	v.Run(w)
	if order != "abc" || reorders != 2 || v.InPlace {
		t.Errorf("order %q, %d reorders, direct %v; want abc, 2, false", order, reorders, v.InPlace)
	}
}

func TestAlternateReportsTheFirstLoss(t *testing.T) {
	n := 0.0
	step := method.Step{Do: func(*method.Work, *method.Batch) float64 { n++; return n }}
	if got := learn.Alternate(step, step, step).Do(nil, nil); got != 1 || n != 3 {
		t.Errorf("the loss is %g after %g steps, want that of the first of 3", got, n)
	}
}

// An in-place step reads rows in place and writes them elsewhere, so nothing may read them
// afterwards: a step that moves rows must be the last, and there may be only one pass.
func TestOnlyOnePassOfFusedStepsThatMoveRowsLastIsInPlace(t *testing.T) {
	m := headed{newTiny(method.Shared, nil)}
	bce, c := learn.BCE(m), learn.Const(0.1)
	rows := learn.Descend(bce, learn.SGD(tinyItem, c, 0))
	score := learn.Descend(bce, learn.SGD(tinyVector, c, 0.1), learn.SGD(tinyBias, c, 0))
	for name, k := range map[string]struct {
		step          method.Step
		direct, moves bool
	}{
		"rows":  {rows, true, true},
		"score": {score, true, false},
		"everything at once": {
			learn.Descend(bce, learn.SGD(tinyItem, c, 0), learn.SGD(tinyVector, c, 0)),
			true, true,
		},
		"nothing":         {learn.Descend(bce), true, false},
		"rows with decay": {learn.Descend(bce, learn.SGD(tinyItem, c, 0.1)), false, true},
		"Adam":            {learn.Descend(bce, learn.Adam(tinyVector, c, true)), false, true},
		"another slot":    {learn.Descend(bce, learn.SGD(tinyOther, c, 0)), false, true},
		"a wrapped loss":  {learn.Descend(learn.WithTerms(bce), learn.SGD(tinyItem, c, 0)), false, true},
		"a method without a head": {learn.Descend(learn.BCE(newTiny(method.Shared, nil)),
			learn.SGD(tinyItem, c, 0)), false, true},
		"score, rows":  {learn.Alternate(score, rows), true, true},
		"score, score": {learn.Alternate(score, score), true, false},
		"rows, score":  {learn.Alternate(rows, score), false, true},
		"rows, rows":   {learn.Alternate(rows, rows), false, true},
		"score, rows with decay": {
			learn.Alternate(score, learn.Descend(bce, learn.SGD(tinyItem, c, 0.1))),
			false, true,
		},
		"alternations inside, at last": {learn.Alternate(score, learn.Alternate(score, rows)), true, true},
		"alternations inside":          {learn.Alternate(learn.Alternate(score, rows), score), false, true},
	} {
		if k.step.InPlace != k.direct || k.step.MovesRows != k.moves {
			t.Errorf("%s: direct %v, moves %v; want %v and %v", name, k.step.InPlace, k.step.MovesRows, k.direct,
				k.moves)
		}
		if one := learn.Epochs(1, 0, k.step); one.InPlace != k.direct {
			t.Errorf("one pass of %s: direct %v, want %v", name, one.InPlace, k.direct)
		}
		if two := learn.Epochs(2, 0, k.step); two.InPlace {
			t.Errorf("two passes of %s are direct", name)
		}
	}
}

func TestPartsArePropagated(t *testing.T) {
	m := newTiny(method.Shared, nil)
	step := learn.Descend(learn.BCE(m), learn.Adam(tinyItem, learn.Const(1), true), learn.SGD(tinyBias, learn.Const(1),
		0))
	other := learn.Descend(learn.BCE(m), learn.Adam(tinyVector, learn.Const(1), true))
	for name, parts := range map[string][]method.Stateful{
		"Descend":   append(slices.Clone(step.Parts), other.Parts...),
		"Alternate": learn.Alternate(step, other).Parts,
		"Then":      learn.Then(learn.Epochs(1, 0, step), learn.Epochs(1, 0, other)).Parts,
	} {
		if len(parts) != 2 {
			t.Errorf("%s propagates %d parts, want the two Adam rules", name, len(parts))
		}
	}
}
