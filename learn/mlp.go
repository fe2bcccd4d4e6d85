package learn

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Layers are the widths of hidden layers, input first. The text forms are "none"
// and a list such as "64,16".
type Layers []int

const (
	maxLayers = 8
	maxWidth  = 1024
)

func (l Layers) MarshalText() ([]byte, error) {
	if len(l) == 0 {
		return []byte("none"), nil
	}
	var s []string
	for _, n := range l {
		s = append(s, strconv.Itoa(n))
	}
	return []byte(strings.Join(s, ",")), nil
}

func (l *Layers) UnmarshalText(text []byte) error {
	*l = nil
	if s := string(text); s == "none" || s == "" {
		return nil
	}
	for _, part := range strings.Split(string(text), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > maxWidth {
			return fmt.Errorf("want none, or the widths of hidden layers, each 1 to %d, such as 64,16", maxWidth)
		}
		*l = append(*l, n)
	}
	if len(*l) > maxLayers {
		return fmt.Errorf("at most %d hidden layers", maxLayers)
	}
	return nil
}

// Slots returns a weight and a bias for each layer on an input of the given width,
// the last layer with one output. All start as PyTorch's Linear does.
func (l Layers) Slots(in int) []method.Slot {
	var out []method.Slot
	for i := range len(l) + 1 {
		width := 1
		if i < len(l) {
			width = l[i]
		}
		init := method.Init{Kind: method.Uniform, A: 1 / math.Sqrt(float64(in))}
		n := strconv.Itoa(i + 1)
		out = append(out,
			method.Slot{Name: "weight." + n, Rows: width, Dim: in, Init: init, Doc: "weights of layer " + n},
			method.Slot{Name: "bias." + n, Rows: 1, Dim: width, Init: init, Doc: "biases of layer " + n})
		in = width
	}
	return out
}

// mlp is fully connected layers with ReLU (or the logistic function) between them
// and one output. It is made
// anew for every call, on memory of others.
type mlp struct {
	n      int  // samples
	layers int  // the output's included
	curved bool // the logistic function takes the place of ReLU
	*method.Scratch
	at [maxLayers + 1]layer
}

// layer maps in places to out places; its rows of weights lie stride apart. A nil
// gradient is not wanted.
type layer struct {
	in, out, stride int
	w, b, gw, gb    []float32
	h               []float32 // what came out, after ReLU or the logistic function
}

// networkSpace is the input and the activations of a network, as forward leaves them for
// backward.
type networkSpace struct{ input, hidden method.Buffer }

// open lays out the activations of n samples.
func (m *mlp) open(s *method.Scratch, l Layers, n int) {
	m.Scratch = s
	size := 0
	for _, width := range l {
		size += n * vec.Pad(width)
	}
	h := method.Workspace[networkSpace](s).hidden.Floats(size)
	m.n, m.layers = n, len(l)+1
	for i, width := range l {
		k := n * vec.Pad(width)
		m.at[i].h, h = h[:k:k], h[k:]
	}
}

// Gemm is vec.Gemm on scratch memory: c += a b, where c is m by n and a is m by k.
func Gemm(s *method.Scratch, m, n, k int, a, b, c vec.Mat) {
	mark := s.Mark()
	vec.Gemm(m, n, k, a, b, s.Floats(vec.GemmRoom(k)), c)
	s.Release(mark)
}

// forward sets z to the output for the rows of x, whose first layer[0].in places
// count.
func (m *mlp) forward(x vec.Mat, z []float32) {
	last := m.layers - 1
	for i := range last {
		l := &m.at[i]
		wide := vec.Pad(l.out)
		for s := range m.n {
			copy(l.h[s*wide:(s+1)*wide], l.b)
		}
		Gemm(m.Scratch, m.n, l.out, l.in, x, vec.Rows(l.w, l.stride).T(), vec.Rows(l.h, wide))
		if m.curved {
			vec.Sigmoids(l.h)
		} else {
			vec.Relu(l.h)
		}
		x = vec.Rows(l.h, wide)
	}
	l := &m.at[last]
	vec.DotsAll(x.Data, x.Row, l.w, l.b[0], z)
}

// backward adds the gradients for dz, with forward just done on x. It returns the
// gradient by what the first layer adds up before ReLU, in scratch memory; if dx is not
// nil, it is set to the gradient by x.
func (m *mlp) backward(x vec.Mat, dz []float32, dx *vec.Mat) []float32 {
	last := m.layers - 1
	l := &m.at[last]
	widest := 0
	for i := range last {
		widest = max(widest, vec.Pad(m.at[i].out))
	}
	now, next := m.Floats(m.n*widest), m.Floats(m.n*widest)
	wide := vec.Pad(l.in)
	if l.gw != nil {
		Gemm(m.Scratch, 1, l.in, m.n, vec.Rows(dz, m.n), vec.Rows(m.at[last-1].h, wide), vec.Rows(l.gw, l.stride))
	}
	if l.gb != nil {
		l.gb[0] += vec.Sum(dz)
	}
	d := now[:m.n*wide]
	vec.Outer(dz, l.w[:wide], d)
	for i := last - 1; i >= 0; i-- {
		l := &m.at[i]
		wide := vec.Pad(l.out)
		d = now[:m.n*wide]
		m.bend(l.h, d)
		in := x
		if i > 0 {
			in = vec.Rows(m.at[i-1].h, vec.Pad(l.in))
		}
		if l.gw != nil {
			Gemm(m.Scratch, l.out, l.in, m.n, vec.Rows(d, wide).T(), in, vec.Rows(l.gw, l.stride))
		}
		if l.gb != nil {
			vec.Columns(d, l.gb)
		}
		var to vec.Mat
		switch {
		case i > 0:
			to = vec.Rows(next[:m.n*vec.Pad(l.in)], vec.Pad(l.in))
		case dx != nil:
			to = *dx
		default:
			return d
		}
		clear(to.Data)
		Gemm(m.Scratch, m.n, l.in, l.out, vec.Rows(d, wide), vec.Rows(l.w, l.stride), to)
		if i > 0 {
			now, next = next, now
		}
	}
	return d
}

// bend multiplies d by the slope of the activation, where it gave h.
func (m *mlp) bend(h, d []float32) {
	if !m.curved {
		vec.ReluBack(h, d)
		return
	}
	for i, y := range h {
		d[i] *= float32(y * (1 - y))
	}
}
