package neural

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/testworld"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// metaOnPaper scores one item for one user in float64, with the full table.
func metaOnPaper(v [][]float64, dim, mem, hid int, user, item int) float64 {
	at := func(slot, i int) float64 { return v[slot][i] }
	c := make([]float64, mem)
	for i := range dim {
		for k := range mem {
			c[k] += at(metaUser, user*dim+i) * at(metaMemory, i*mem+k)
		}
	}
	h := make([]float64, 3*hid)
	for o := range h {
		h[o] = at(metaHiddenBias, o)
		for k := range mem {
			h[o] += at(metaHidden, o*mem+k) * c[k]
		}
		h[o] = math.Max(h[o], 0)
	}
	out := func(weight, bias, head, o int) float64 {
		z := at(bias, o)
		for k := range hid {
			z += at(weight, o*hid+k) * h[head*hid+k]
		}
		return z
	}
	row := make([]float64, dim) // of the item table: s F
	for r := range metaWide {
		s := at(metaRowsBias, item*metaWide+r)
		for k := range hid {
			s += at(metaRows, (item*metaWide+r)*hid+k) * h[2*hid+k]
		}
		for k := range row {
			row[k] += s * out(metaFactor, metaFactorBias, 2, r*dim+k)
		}
	}
	z := out(metaSecond, metaSecondBias, 1, metaWide)
	for r := range metaWide {
		x := out(metaFirst, metaFirstBias, 0, metaWide*dim+r)
		for k := range row {
			x += out(metaFirst, metaFirstBias, 0, r*dim+k) * row[k]
		}
		z += out(metaSecond, metaSecondBias, 1, r) * math.Max(x, 0)
	}
	return z
}

// After one step with a rate of 0, Adam's first moment is a tenth of the gradient.
func TestMetaMFsGradientIsTheFiniteDifference(t *testing.T) {
	const dim, mem, hid = 8, 8, 16
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.Batch = 1, 100000
	spy := &metaSpy{MetaMF: *testworld.Set(t, method.Entry{New: func() method.Method { return &MetaMF{} }}.Build(),
		"dim=8", "memory=8", "hidden=16", "lr=0").(*MetaMF)}
	r := testworld.Small(t, spy, data.WorldConfig{Users: 6, Items: 350, MeanRows: 8, Seed: 1, Drift: 0.5}, o)
	rand := rng.New(rng.Test)
	for i := range metaSlots { // including biases, and large enough to matter
		for k := range r.Value(i) {
			r.Value(i)[k] = float32(0.4 * rand.Norm())
		}
	}
	if _, err := r.Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	v := make([][]float64, metaSlots)
	for i := range v {
		for _, x := range r.Value(i) {
			v[i] = append(v[i], float64(x))
		}
	}
	loss := func() float64 {
		sum := 0.0
		for x, item := range spy.item {
			z := metaOnPaper(v, dim, mem, hid, int(spy.user[x]), int(item))
			sum += math.Log1p(math.Exp(z)) - z*float64(spy.y[x])
		}
		return sum / float64(len(spy.item))
	}
	checked := 0
	for slot := range metaSlots {
		for range 6 {
			k := int(rand.Uint32n(uint32(len(v[slot]))))
			if slot == metaSecondBias || slot == metaFirstBias {
				k = int(rand.Uint32n(metaWide + 1)) // the rest is padding
			}
			want, got := testworld.Slope(&v[slot][k], loss), 10*float64(r.Value(metaSlots + 2*slot)[k])
			if checked++; math.Abs(got-want) > 1e-3*math.Max(0.01, math.Abs(want)) {
				t.Errorf("slot %d place %d: the gradient is %g, the finite difference %g", slot, k, got, want)
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d places were checked", checked)
	}
}

// metaSpy keeps the samples of a pass.
type metaSpy struct {
	MetaMF
	user, item []uint32
	y          []float32
}

func (m *metaSpy) Pass(p *method.Pool) {
	m.user, m.item, m.y = slices.Clone(p.User), slices.Clone(p.Item), slices.Clone(p.Y)
	m.MetaMF.Pass(p)
}
