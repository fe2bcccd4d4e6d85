package learn

import (
	"github.com/tacit-rec/tacit/method"
)

// CentralSlots returns the slots for central training: the parameters, their Adam moments and
// Adam's step counter.
func (s *FeatureNet) CentralSlots() []method.Slot {
	slots := s.Slots()
	for _, slot := range s.slots {
		for _, moment := range [...]struct{ name, doc string }{{".m", "first"}, {".v", "second"}} {
			m := slot
			m.Name, m.Doc, m.Init = slot.Name+moment.name, "Adam's "+moment.doc+" moment of "+slot.Name, method.Init{}
			slots = append(slots, m)
		}
	}
	slots = append(slots, method.Slot{Name: "steps", Rows: 1, Dim: 1, Doc: "Adam's count of steps"})
	for i := range slots {
		slots[i].Scope = method.Server
	}
	return slots
}

// Pass trains centrally with Adam on the pool's samples once, in mini-batches that mix all
// users.
func (s *FeatureNet) Pass(p *method.Pool, loss string, rate float32) {
	l, n := LossNamed(loss), len(s.slots)
	size := 0
	for i := range n {
		size += len(p.Value[i])
	}
	for lo, all := 0, len(p.Item); lo < all; lo += p.BatchSize {
		mark := p.Mark()
		b := p.Batch(lo, min(lo+p.BatchSize, all))
		var t featurePass
		t.FeatureNet, t.Scratch = s, &p.Scratch
		t.user, t.item, t.row = b.User, b.Item, b.Row
		t.read, t.write = b.Item, b.Item
		grads := p.Floats(size)
		clear(grads)
		for i := range n {
			t.val[i] = p.Value[i]
			t.grad[i], grads = grads[:len(p.Value[i])], grads[len(p.Value[i]):]
		}
		t.open(b.N, 0)
		t.gather(0, &t.val, false, t.x)
		z := p.Floats(b.N)
		t.forward(t.x, z)
		if p.WantLoss {
			p.Loss += l.Sum(&b.Batch, z)
			p.LossN += b.N
		}
		l.Grad(&p.Scratch, &b.Batch, 1/float32(b.N), z)
		t.back(z)
		step := NextAdam(rate, &p.Value[3*n][0])
		for i := range n {
			step.Move(t.grad[i], p.Value[n+2*i], p.Value[n+2*i+1], p.Value[i])
		}
		p.Release(mark)
	}
}

// Tune returns a local training that fits all slots to the device's samples with the given
// number of SGD passes. With 0 passes it does nothing.
func (s *FeatureNet) Tune(m method.Learner, passes int, rate Schedule) method.Visit {
	return Epochs(passes, 0, Descend(BCE(m), s.SGD(rate)...))
}
