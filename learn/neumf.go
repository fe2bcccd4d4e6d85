package learn

import (
	"math"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// NeuMF is neural matrix factorisation (He et al. 2017): the elementwise product of a user
// vector and an item vector (GMF), a network on another pair of vectors (MLP), and a head on
// both:
//
//	x0 = [user.mlp ; item.mlp], xl = relu(Wl xl-1 + bl)
//	logit = head.gmf . (user.gmf * item.gmf) + head.mlp . xL + head.bias
//
// The vectors of the network are as wide as its first layer. There must be at least one hidden
// layer. NeuMF uses the first slots of a method.
type NeuMF struct {
	Dim    int // width of the GMF vectors
	Hidden Layers
}

// The slots of NeuMF: these, then weights and bias of each hidden layer, the head on the last of
// them, its bias, and the head on GMF.
const (
	neuGMF = iota
	neuMLP
	neuP // the user's vector for GMF
	neuQ // the user's vector for the network
	neuLayer
)

// Slots returns the slots: the user's two vectors are private, all others are shared. The
// initial values are those of He et al.'s PyTorch code: vectors from a normal distribution with
// deviation 0.01, layers by Glorot's uniform rule, the head by He's with a gain of 1, biases 0.
func (n NeuMF) Slots() []method.Slot {
	near := method.Init{Kind: method.Normal, A: 0.01}
	uniform := func(a float64) method.Init { return method.Init{Kind: method.Uniform, A: math.Sqrt(a)} }
	wide := n.Hidden[0]
	out := []method.Slot{
		neuGMF: {Name: "item.gmf", PerItem: true, Dim: n.Dim, Init: near, Doc: "item rows of GMF"},
		neuMLP: {Name: "item.mlp", PerItem: true, Dim: wide, Init: near, Doc: "item rows of the network"},
		neuP: {
			Name: "user.gmf", Scope: method.Private, Rows: 1, Dim: n.Dim, Init: near,
			Doc: "the user's vector for GMF",
		},
		neuQ: {
			Name: "user.mlp", Scope: method.Private, Rows: 1, Dim: wide, Init: near,
			Doc: "the user's vector for the network",
		},
	}
	layers := n.Hidden.Slots(2 * wide)
	for i := range layers {
		if layers[i].Init = (method.Init{}); i%2 == 0 {
			layers[i].Init = uniform(6 / float64(layers[i].Rows+layers[i].Dim))
		}
	}
	head, bias := &layers[len(layers)-2], &layers[len(layers)-1]
	start := uniform(3 / float64(n.Dim+head.Dim))
	head.Name, head.Doc, head.Init = "head.mlp", "the head's weights on the network", start
	bias.Name, bias.Doc = "head.bias", "the head's bias"
	out = append(out, layers...)
	return append(out, method.Slot{
		Name: "head.gmf", Rows: 1, Dim: n.Dim, Init: start,
		Doc: "the head's weights on GMF",
	})
}

// Groups returns the shared slots and the user's slots.
func (n NeuMF) Groups() (shared, user []int) {
	for i, s := range n.Slots() {
		if s.Scope == method.Private {
			user = append(user, i)
		} else {
			shared = append(shared, i)
		}
	}
	return shared, user
}

func (n NeuMF) tower() tower { return tower{neuMLP, neuQ, neuLayer, n.Hidden[0], n.Hidden} }

func (n NeuMF) head() int { return neuLayer + 2*len(n.Hidden) + 2 }

// Logits sets out to the logits of a batch.
func (n NeuMF) Logits(w *method.Work, b *method.Batch, out []float32) {
	n.tower().logits(w, b, out)
	mark := w.Mark()
	defer w.Release(mark)
	g := &w.View[neuGMF]
	mix, z := w.Floats(g.Stride), w.Floats(b.N)
	n.mix(w, mix)
	vec.Dots(g.Arena, g.Stride, b.Rd[neuGMF], mix, 0, z)
	vec.Add(z, out[:b.N])
}

// mix sets dst to the vector that GMF multiplies an item's row by: the user's vector times the
// head's, elementwise.
func (n NeuMF) mix(w *method.Work, dst []float32) {
	p := w.View[neuP].Val
	for k, h := range w.View[n.head()].Val {
		dst[k] = float32(h * p[k])
	}
}

// Back adds the gradients of all slots for dz.
func (n NeuMF) Back(w *method.Work, b *method.Batch, dz []float32) {
	n.tower().back(w, b, dz)
	g, p, h := &w.View[neuGMF], &w.View[neuP], &w.View[n.head()]
	mark := w.Mark()
	defer w.Release(mark)
	mix, sum := w.Floats(g.Stride), w.Floats(g.Stride)
	if !w.SkipsGrad(neuGMF) {
		n.mix(w, mix)
		vec.Spread(g.GradRows, g.Stride, b.Pos, dz[:b.N], mix)
	}
	clear(sum)
	vec.WSum(g.Arena, g.Stride, b.Rd[neuGMF], dz[:b.N], sum)
	for k, s := range sum {
		p.Grad[k] += float32(s * h.Val[k])
		h.Grad[k] += float32(s * p.Val[k])
	}
}
