package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Meta returns a local training by model-agnostic meta-learning (Finn, Abbeel and Levine 2017)
// on a FeatureNet, in its second-order form. It splits a device's samples into a support half
// and a query half. With theta_0 = theta and theta_j+1 = theta_j - inner*grad
// L_support(theta_j), the gradient of L_query(theta_steps) with respect to theta is
//
//	(I - inner*H(theta_0)) ... (I - inner*H(theta_steps-1)) grad L_query(theta_steps)
//
// where H is the Hessian of L_support. A product of H with a vector is exact and costs two
// gradients (Pearlmutter 1994). The training takes visits steps against that gradient, each with
// a new split. Losses are mean binary cross entropies.
func Meta(s *FeatureNet, steps int, inner, outer Schedule, visits int) method.Visit {
	loss := Alone(method.Term{Name: "query loss", Grad: func(w *method.Work, b *method.Batch) float64 {
		n := float64(b.N) // the meta-gradient draws other batches into b
		m := meta{FeatureNet: s, w: w, steps: steps, rate: inner.At(w)}
		return m.addGradient() * n
	}})
	return method.Visit{Oracles: []method.Oracle{loss}, Run: func(w *method.Work) {
		for v := range visits {
			if v > 0 {
				w.Samples.Shuffle()
			}
			if w.WantLoss {
				m := meta{FeatureNet: s, w: w}
				w.Loss += m.gradient(0, len(w.Samples.Item), nil)
				w.LossN += len(w.Samples.Item)
			}
			m := meta{FeatureNet: s, w: w, steps: steps, rate: inner.At(w)}
			m.move(outer.At(w))
			w.Step++
		}
	}}
}

// meta computes one meta-gradient on one device.
type meta struct {
	*FeatureNet
	w     *method.Work
	steps int
	rate  float32
	t     featurePass
}

// size returns the number of floats of all slots, padding included.
func (m *meta) size() int {
	n := 0
	for i := range m.slots {
		n += len(m.w.View[i].Val)
	}
	return n
}

// lay splits a flat vector into slots.
func (m *meta) lay(flat []float32) (out [method.MaxSlots][]float32) {
	for i := range m.slots {
		n := len(m.w.View[i].Val)
		out[i], flat = flat[:n:n], flat[n:]
	}
	return out
}

// move takes one step against the meta-gradient.
func (m *meta) move(rate float32) {
	mark := m.w.Mark()
	defer m.w.Release(mark)
	g := m.w.Floats(m.size())
	m.metaGradient(g, false)
	gs := m.lay(g)
	m.shift(-rate, &gs)
}

// addGradient adds the meta-gradient to the gradients of the device, and returns the mean loss of
// the query half after the inner steps.
func (m *meta) addGradient() float64 {
	mark := m.w.Mark()
	defer m.w.Release(mark)
	g := m.w.Floats(m.size())
	loss := m.metaGradient(g, true)
	gs := m.lay(g)
	for i := range m.slots {
		vec.Add(gs[i], m.w.View[i].Grad)
	}
	return loss
}

// metaGradient sets g to the meta-gradient and leaves the values as they are. If wantLoss is set,
// it returns the mean loss of the query half after the inner steps.
func (m *meta) metaGradient(g []float32, wantLoss bool) (loss float64) {
	w, size, all := m.w, len(g), len(m.w.Samples.Item)
	half := max(all/2, 1)
	query := half % all
	mark := w.Mark()
	defer w.Release(mark)
	points := w.Floats(m.steps * size)
	hv := w.Floats(size)
	gs := m.lay(g)
	for j := range m.steps {
		m.save(points[j*size:][:size])
		clear(g)
		m.gradient(0, half, &gs)
		m.shift(-m.rate, &gs)
	}
	clear(g)
	m.gradient(query, all, &gs)
	if wantLoss {
		loss = m.gradient(query, all, nil) / float64(all-query)
	}
	for j := m.steps - 1; j >= 0; j-- {
		m.load(points[j*size:][:size])
		clear(hv)
		hs := m.lay(hv)
		m.hessian(half, &gs, &hs)
		vec.Axpy(-m.rate, hv, g)
	}
	return loss
}

func (m *meta) save(to []float32) {
	flat := m.lay(to)
	for i := range m.slots {
		copy(flat[i], m.w.View[i].Val)
	}
}

func (m *meta) load(from []float32) {
	flat := m.lay(from)
	for i := range m.slots {
		copy(m.w.View[i].Val, flat[i])
	}
}

func (m *meta) shift(by float32, along *[method.MaxSlots][]float32) {
	for i := range m.slots {
		vec.Axpy(by, along[i], m.w.View[i].Val)
	}
}

// on runs the network on samples lo to hi, or on the first batch of them, and returns that batch
// and its logits.
func (m *meta) on(lo, hi int, grad *[method.MaxSlots][]float32) (*method.Batch, []float32) {
	b := m.w.Batch(lo, min(lo+m.w.BatchSize, hi))
	m.t = featurePass{}
	m.work(m.w, b, &m.t)
	if grad != nil {
		m.t.grad = *grad
	}
	m.t.open(b.N, 0)
	m.t.gather(0, &m.t.val, false, m.t.x)
	z := m.w.Z[:b.N]
	m.t.forward(m.t.x, z)
	return b, z
}

// gradient adds the gradient of the mean loss of samples lo to hi to grad. If grad is nil, it
// returns the sum of the losses instead.
func (m *meta) gradient(lo, hi int, grad *[method.MaxSlots][]float32) float64 {
	sum := 0.0
	for at := lo; at < hi; at += m.w.BatchSize {
		mark := m.w.Mark()
		b, z := m.on(at, hi, grad)
		if grad == nil {
			sum += bceLoss(b, z)
		} else {
			vec.BCEGrad(b.Y, 1/float32(hi-lo), z)
			m.t.back(z)
		}
		m.w.Release(mark)
	}
	return sum
}

// hessian adds to out the product of v and the Hessian of the mean loss of the first n samples.
func (m *meta) hessian(n int, v, out *[method.MaxSlots][]float32) {
	for at := 0; at < n; at += m.w.BatchSize {
		mark := m.w.Mark()
		b, z := m.on(at, n, out)
		m.t.hessian(b.Y, z, 1/float32(n), v)
		m.w.Release(mark)
	}
}
