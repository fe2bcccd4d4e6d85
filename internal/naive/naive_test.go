package naive

import (
	"math"
	"testing"

	"github.com/tacit-rec/tacit/data"
)

// error is the mean of |sigmoid - y| over all devices' samples of a round.
func (p *Program) error() float64 {
	s, n := 0.0, 0
	for u, w := range p.w {
		for _, x := range p.draw(u) {
			z := float64(w[p.dim])
			for k := range p.dim {
				z += float64(w[k]) * float64(p.table[int(x.item)*p.dim+k])
			}
			s += math.Abs(1/(1+math.Exp(-z)) - float64(x.y))
			n++
		}
	}
	return s / float64(n)
}

func TestTheNaiveLoopLearnsAndHardlyDependsOnGoroutines(t *testing.T) {
	w, err := data.NewWorld(data.WorldConfig{Users: 60, Items: 200, MeanRows: 15, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	proto, err := data.ProtocolNamed("paper")
	if err != nil {
		t.Fatal(err)
	}
	split, err := data.NewSplit(w.Generate(), proto, 1)
	if err != nil {
		t.Fatal(err)
	}
	one, two := New(split, 16, 1), New(split, 16, 1)
	before := one.error()
	for range 15 {
		one.Round(1)
		two.Round(2)
	}
	if after := one.error(); !(after < 0.9*before) {
		t.Errorf("the mean error goes from %.3f to %.3f, want at least a tenth less", before, after)
	}
	if a, b := one.error(), two.error(); math.Abs(a-b) > 0.02 {
		t.Errorf("the mean error is %.3f with one goroutine, %.3f with two", a, b)
	}
}
