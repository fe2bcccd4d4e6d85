package neural

import "github.com/tacit-rec/tacit/vec"

// generated holds the parameters that MetaMF's meta network (Lin et al. 2020) generates
// for one user, and their gradients. Its memory is reused for one user after the other.
//
//	c = memory' user,  h = relu(hidden c + bias), three heads side by side
//	first layer W, b from head 0;  second layer v, e from head 1
//	item table = S F: the factor F (8 x dim) and an item's s (8) from head 2
//	logit = v . relu(W F' s + b) + e
//
// The table itself is never computed: W F' is an 8 x 8 matrix.
type generated struct {
	dim, mem, hid int
	val           *[metaSlots][]float32
	user          []float32
	c, h          []float32 // collaborative vector, hidden layers
	a, b, f       []float32 // first layer (rows, then bias), second layer (row, bias), factor
	k             []float32 // W F'
	dc, dh        []float32 // gradients of the above
	da, db, df    []float32
	dk            []float32
}

const metaWide = 8 // width of the generated hidden layer, and rank of the item table

func newGenerated(m *MetaMF, val *[metaSlots][]float32, room []float32) *generated {
	g := &generated{dim: m.Dim, mem: m.Memory, hid: m.Hidden, val: val}
	cut := func(n int) (out []float32) { out, room = room[:n:n], room[n:]; return out }
	outA, outB, outF := g.outputs()
	g.c, g.dc = cut(g.mem), cut(g.mem)
	g.h, g.dh = cut(3*g.hid), cut(3*g.hid)
	g.a, g.da = cut(outA), cut(outA)
	g.b, g.db = cut(outB), cut(outB)
	g.f, g.df = cut(outF), cut(outF)
	g.k, g.dk = cut(metaWide*metaWide), cut(metaWide*metaWide)
	return g
}

func (g *generated) outputs() (a, b, f int) {
	return metaWide * (g.dim + 1), metaWide + 1, metaWide * g.dim
}

// metaRoom returns the number of floats that a generated needs.
func (m *MetaMF) metaRoom() int {
	return 2 * (m.Memory + 3*m.Hidden + 2*metaWide*m.Dim + 2*metaWide + 1 + metaWide*metaWide)
}

// head returns the part of the hidden layers that belongs to head i.
func (g *generated) head(h []float32, i int) []float32 { return h[i*g.hid : (i+1)*g.hid] }

// make generates the user's parameters, except the item rows.
func (g *generated) make(user []float32) {
	g.user = user
	clear(g.c)
	for i := range g.dim {
		vec.Axpy(user[i], g.val[metaMemory][i*g.mem:(i+1)*g.mem], g.c)
	}
	layer := func(weight, bias int, x, out []float32) {
		vec.DotsAll(g.val[weight], len(x), x, 0, out)
		vec.Add(g.val[bias][:len(out)], out)
	}
	layer(metaHidden, metaHiddenBias, g.c, g.h)
	vec.Relu(g.h)
	layer(metaFirst, metaFirstBias, g.head(g.h, 0), g.a)
	layer(metaSecond, metaSecondBias, g.head(g.h, 1), g.b)
	layer(metaFactor, metaFactorBias, g.head(g.h, 2), g.f)
	for r := range metaWide {
		for s := range metaWide {
			g.k[r*metaWide+s] = vec.Dot(g.a[r*g.dim:(r+1)*g.dim], g.f[s*g.dim:(s+1)*g.dim])
		}
	}
}

// score computes an item's row s from its weights and biases, and the hidden layer of the
// generated network, and returns the logit.
func (g *generated) score(weights, bias, s, hidden []float32) float32 {
	vec.DotsAll(weights, g.hid, g.head(g.h, 2), 0, s)
	vec.Add(bias, s)
	vec.DotsAll(g.k, metaWide, s, 0, hidden)
	vec.Add(g.a[metaWide*g.dim:], hidden)
	vec.Relu(hidden)
	return vec.Dot(g.b[:metaWide], hidden) + g.b[metaWide]
}

// open clears the gradients of the generated parameters.
func (g *generated) open() {
	for _, x := range [][]float32{g.dh, g.da, g.db, g.df, g.dk, g.dc} {
		clear(x)
	}
}

// back adds the gradients of the generated network for dz, the gradient of an item's
// logit, and sets ds to the gradient of the item's row.
func (g *generated) back(dz float32, weights, s, hidden, ds []float32) {
	vec.Axpy(dz, hidden, g.db[:metaWide])
	g.db[metaWide] += dz
	clear(ds)
	for r, x := range hidden {
		if x > 0 {
			d := float32(dz * g.b[r])
			g.da[metaWide*g.dim+r] += d
			vec.Axpy(d, s, g.dk[r*metaWide:(r+1)*metaWide])
			vec.Axpy(d, g.k[r*metaWide:(r+1)*metaWide], ds)
		}
	}
	dh := g.head(g.dh, 2)
	for r, d := range ds {
		vec.Axpy(d, weights[r*g.hid:(r+1)*g.hid], dh)
	}
}

// end propagates the gradients through the meta network into grads, by slot, and sets du
// to the gradient of the user's embedding.
func (g *generated) end(grads *[metaSlots][]float32, du []float32) {
	for r := range metaWide {
		for s := range metaWide {
			d := g.dk[r*metaWide+s]
			vec.Axpy(d, g.f[s*g.dim:(s+1)*g.dim], g.da[r*g.dim:(r+1)*g.dim])
			vec.Axpy(d, g.a[r*g.dim:(r+1)*g.dim], g.df[s*g.dim:(s+1)*g.dim])
		}
	}
	layer := func(weight, bias int, x, dout, dx []float32) {
		for o, d := range dout {
			vec.Axpy(d, x, grads[weight][o*len(x):(o+1)*len(x)])
			vec.Axpy(d, g.val[weight][o*len(x):(o+1)*len(x)], dx)
		}
		vec.Add(dout, grads[bias][:len(dout)])
	}
	layer(metaFirst, metaFirstBias, g.head(g.h, 0), g.da, g.head(g.dh, 0))
	layer(metaSecond, metaSecondBias, g.head(g.h, 1), g.db, g.head(g.dh, 1))
	layer(metaFactor, metaFactorBias, g.head(g.h, 2), g.df, g.head(g.dh, 2))
	vec.ReluBack(g.h, g.dh)
	layer(metaHidden, metaHiddenBias, g.c, g.dh, g.dc)
	for i := range g.dim {
		row := i * g.mem
		vec.Axpy(g.user[i], g.dc, grads[metaMemory][row:row+g.mem])
		du[i] = vec.Dot(g.val[metaMemory][row:row+g.mem], g.dc)
	}
}
