package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Central is a Score trained centrally with Adam, on mini-batches that mix the samples of all
// users. A row that a batch does not touch keeps its value and moments, and all rows share one
// step counter (PyTorch's SparseAdam).
type Central struct {
	Score
	Loss  string
	LR    float32
	Decay float32 // weight decay of the parameters that a batch touches
	Start float64 // standard deviation of the initial rows
}

// Slots returns the slots of the score function, their Adam moments and Adam's step counter.
func (c Central) Slots() []method.Slot {
	slots := c.Score.Slots(func(int) bool { return false })
	slots[ItemSlot].Init.A = c.Start
	user := &slots[UserSlot]
	user.Name, user.Doc, user.PerUser, user.Init = "user", "user embeddings", true, slots[ItemSlot].Init
	return ServerAdam(slots)
}

// ServerAdam gives the slots scope Server and appends Adam's moments and step counter.
func ServerAdam(slots []method.Slot) []method.Slot {
	for _, s := range slots {
		s.Init = method.Init{}
		m, v := s, s
		m.Name, m.Doc = s.Name+".m", "Adam's first moment of "+s.Name
		v.Name, v.Doc = s.Name+".v", "Adam's second moment of "+s.Name
		slots = append(slots, m, v)
	}
	slots = append(slots, method.Slot{Name: "steps", Rows: 1, Dim: 1, Doc: "Adam's count of steps"})
	for i := range slots {
		slots[i].Scope = method.Server
	}
	return slots
}

// poolAdam is one Adam step on slots that ServerAdam returned.
type poolAdam struct {
	p     *method.Pool
	own   int
	decay float32
	step  adamStep
}

// NextServerAdam increments the step counter and returns the next step.
func NextServerAdam(p *method.Pool, rate, decay float32) poolAdam {
	n := own(p)
	return poolAdam{p, n, decay, NextAdam(rate, &p.Value[3*n][0])}
}

// Move updates the values of a slot from index lo on with the gradient g, after it adds weight
// decay to g.
func (a poolAdam) Move(slot, lo int, g []float32) {
	p, n := a.p, a.own
	val, m, v := p.Value[slot][lo:][:len(g)], p.Value[n+2*slot][lo:][:len(g)], p.Value[n+2*slot+1][lo:][:len(g)]
	if a.decay != 0 {
		vec.Axpy(a.decay, val, g)
	}
	a.step.Move(g, m, v, val)
}

// own returns the number of slots that are parameters; with moments and counter there are
// 3*own+1.
func own(p *method.Pool) int { return (len(p.Value) - 1) / 3 }

// Pass trains on the pool's samples once.
func (c Central) Pass(p *method.Pool) {
	loss := LossNamed(c.Loss)
	for lo, n := 0, len(p.Item); lo < n; lo += p.BatchSize {
		mark := p.Mark()
		b := p.Batch(lo, min(lo+p.BatchSize, n))
		t := c.open(p, b)
		z := p.Floats(b.N)
		t.forward(z)
		if p.WantLoss {
			p.Loss += loss.Sum(&b.Batch, z)
			p.LossN += b.N
		}
		loss.Grad(&p.Scratch, &b.Batch, 1/float32(b.N), z)
		t.backward(z)
		c.move(&t)
		p.Release(mark)
	}
}

// batch is the working memory of one Central step.
type batch struct {
	p          *method.Pool
	b          *method.PoolBatch
	dim        int
	stride     int       // of a user's and of an item's row
	user, item []float32 // gradients, by position in the batch
	plain      []float32 // gradients of the slots from LayerSlot on, one after the other
	m          mlp       // has no layers if the score function has no hidden ones
	x          vec.Mat   // the user's row and the item's row, concatenated
}

func (c Central) open(p *method.Pool, b *method.PoolBatch) batch {
	t := batch{p: p, b: b, dim: c.Dim, stride: p.Stride[ItemSlot]}
	t.user, t.item = p.Floats(len(b.Users)*t.stride), p.Floats(len(b.Items)*t.stride)
	size := 0
	for i := LayerSlot; i < own(p); i++ {
		size += len(p.Value[i])
	}
	t.plain = p.Floats(size)
	clear(t.user)
	clear(t.item)
	clear(t.plain)
	if len(c.Hidden) == 0 {
		return t
	}
	t.m.open(&p.Scratch, c.Hidden, b.N)
	grads, in := t.plain, 2*c.Dim
	for i := range t.m.layers {
		weight, bias := LayerSlot+2*i, LayerSlot+2*i+1
		l := &t.m.at[i]
		l.in, l.out, l.stride = in, 1, p.Stride[weight]
		if i < len(c.Hidden) {
			l.out = c.Hidden[i]
		}
		l.w, l.b = p.Value[weight], p.Value[bias]
		l.gw, grads = grads[:len(l.w)], grads[len(l.w):]
		l.gb, grads = grads[:len(l.b)], grads[len(l.b):]
		in = l.out
	}
	wide := vec.Pad(2 * c.Dim)
	t.x = vec.Rows(p.Floats(b.N*wide), wide)
	return t
}

// rows returns the user's row and the item's row of a sample.
func (t *batch) rows(x int) (user, item []float32) {
	u, i := int(t.b.User[x])*t.stride, int(t.b.Item[x])*t.stride
	return t.p.Value[UserSlot][u : u+t.stride], t.p.Value[ItemSlot][i : i+t.stride]
}

// grads returns the gradients of a sample's rows.
func (t *batch) grads(x int) (user, item []float32) {
	u, i := int(t.b.UserPos[x])*t.stride, int(t.b.ItemPos[x])*t.stride
	return t.user[u : u+t.stride], t.item[i : i+t.stride]
}

func (t *batch) forward(z []float32) {
	for x := range z {
		user, item := t.rows(x)
		if t.m.layers == 0 {
			z[x] = vec.Dot(user, item) + t.p.Value[LayerSlot][0]
			continue
		}
		row := t.x.Data[x*t.x.Row : (x+1)*t.x.Row]
		copy(row, user[:t.dim])
		copy(row[t.dim:], item[:t.dim])
		clear(row[2*t.dim:])
	}
	if t.m.layers > 0 {
		t.m.forward(t.x, z)
	}
}

func (t *batch) backward(dz []float32) {
	if t.m.layers == 0 {
		for x, d := range dz {
			user, item := t.rows(x)
			gu, gi := t.grads(x)
			vec.Axpy(d, item, gu)
			vec.Axpy(d, user, gi)
		}
		t.plain[0] = vec.Sum(dz)
		return
	}
	dx := vec.Rows(t.p.Floats(t.b.N*t.x.Row), t.x.Row)
	t.m.backward(t.x, dz, &dx)
	for x := range dz {
		row := dx.Data[x*t.x.Row:]
		gu, gi := t.grads(x)
		vec.Add(row[:t.dim], gu[:t.dim])
		vec.Add(row[t.dim:2*t.dim], gi[:t.dim])
	}
}

// move applies Adam's step to every parameter that the batch touched.
func (c Central) move(t *batch) {
	a := NextServerAdam(t.p, c.LR, c.Decay)
	for k, u := range t.b.Users {
		a.Move(UserSlot, int(u)*t.stride, t.user[k*t.stride:][:t.stride])
	}
	for k, i := range t.b.Items {
		a.Move(ItemSlot, int(i)*t.stride, t.item[k*t.stride:][:t.stride])
	}
	g := t.plain
	for slot := LayerSlot; slot < own(t.p); slot++ {
		size := len(t.p.Value[slot])
		a.Move(slot, 0, g[:size])
		g = g[size:]
	}
}
