package learn

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Layers lists the widths of hidden layers, input first. Its text form is "none" or a list such
// as "64,16".
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
			return fmt.Errorf("must be none or the widths of hidden layers, each 1 to %d, such as 64,16", maxWidth)
		}
		*l = append(*l, n)
	}
	if len(*l) > maxLayers {
		return fmt.Errorf("must have at most %d hidden layers", maxLayers)
	}
	return nil
}

// Slots returns a weight slot and a bias slot per layer, for an input of the given width; the
// last layer has one output. The initial values follow PyTorch's Linear.
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

// mlp is a network of fully connected layers with one output and ReLU or the logistic function
// between layers. It is created for each call and owns no memory.
type mlp struct {
	n      int  // samples
	layers int  // number of layers, including the output
	curved bool // use the logistic function instead of ReLU
	*method.Scratch
	at [maxLayers + 1]layer
}

// layer maps in inputs to out outputs; the rows of its weights are stride floats apart. A nil
// gradient is not computed.
type layer struct {
	in, out, stride int
	w, b, gw, gb    []float32
	h               []float32 // output, after ReLU or the logistic function
}

// networkSpace holds the input and the activations of a network, which forward writes and
// backward reads.
type networkSpace struct{ input, hidden method.Buffer }

// open allocates the activations of n samples.
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

// Gemm is vec.Gemm with scratch memory: c += a b, where c is m by n and a is m by k.
func Gemm(s *method.Scratch, m, n, k int, a, b, c vec.Mat) {
	mark := s.Mark()
	vec.Gemm(m, n, k, a, b, s.Floats(vec.GemmRoom(k)), c)
	s.Release(mark)
}

// forward sets z to the output for the rows of x. It reads the first at[0].in elements of a row.
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

// backward adds the gradients for dz. It must follow forward on x. It returns the gradient with
// respect to the first layer's sums before activation, in scratch memory. If dx is not nil,
// backward also sets it to the gradient with respect to x.
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
		m.activationGrad(l.h, d)
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

// activationGrad multiplies d by the derivative of the activation whose output is h.
func (m *mlp) activationGrad(h, d []float32) {
	if !m.curved {
		vec.ReluBack(h, d)
		return
	}
	for i, y := range h {
		d[i] *= float32(y * (1 - y))
	}
}
