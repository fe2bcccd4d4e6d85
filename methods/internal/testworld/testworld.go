// Package testworld runs methods on small synthetic worlds, for tests of methods.
package testworld

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// Set sets parameters of m, each as key=value.
func Set(t *testing.T, m method.Method, settings ...string) method.Method {
	t.Helper()
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		if err := param.Set(m, key, value); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// Trained runs a method on a small world. It returns the run, the test ranks of the best
// round and the item rows.
func Trained(t *testing.T, m method.Method, plain bool) (*sim.Run, []metrics.Rank, []float32) {
	t.Helper()
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.Batch, o.Plain = 4, 64, plain
	r := Small(t, m, data.WorldConfig{Users: 60, Items: 300, MeanRows: 20, Seed: 1, Drift: 0.5}, o)
	for !r.Done() {
		if _, err := r.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return r, append(slices.Clone(r.Best.Test), r.Best.TestFull...), r.Value(learn.ItemSlot)
}

// Small prepares a run on a world.
func Small(t *testing.T, m method.Method, c data.WorldConfig, o sim.Options) *sim.Run {
	t.Helper()
	r, err := sim.New(m, World(t, c), o, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// World returns the split of a world under the protocol deployed.
func World(t testing.TB, c data.WorldConfig) *data.Split {
	t.Helper()
	w, err := data.NewWorld(c)
	if err != nil {
		t.Fatal(err)
	}
	return Deployed(t, w.Generate())
}

// Deployed returns the split of a set under the protocol deployed, with seed 1.
func Deployed(t testing.TB, set data.Source) *data.Split {
	t.Helper()
	p, err := data.ProtocolNamed("deployed")
	if err != nil {
		t.Fatal(err)
	}
	s, err := data.NewSplit(set, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Slope returns the central difference of value with respect to x.
func Slope(x *float64, value func() float64) float64 {
	const h = 1e-6
	old := *x
	*x = old + h
	up := value()
	*x = old - h
	down := value()
	*x = old
	return (up - down) / (2 * h)
}
