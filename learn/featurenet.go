package learn

import (
	"errors"
	"math"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// FeatureNet is a score function of features only. Each category column has an embedding table
// (a set-valued column uses the mean of its categories' embeddings); numbers are used directly.
// The concatenation is the input of a network with one output. The user's columns come first,
// then those of the interaction, then those of the item. FeatureNet uses the first slots of a
// method: the tables, then weights and bias of each layer. The item itself can be another feature:
// its table is a PerItem slot, which grows with the catalogue.
type FeatureNet struct {
	hidden Layers
	curved bool
	parts  []part
	lead   int // number of leading inputs that are the same for all items
	in     int // number of inputs
	slots  []method.Slot
	layer  int // the first layer's slot
}

// part is a column and its position in the input.
type part struct {
	*rows.Column
	of   owner
	at   int // index of its first input
	wide int
	slot int  // its embedding table
	self bool // the item itself: its table is a PerItem slot, and it reads no column
}

type owner uint8

const (
	ofUser owner = iota
	ofRow
	ofItem
)

// NewFeatureNet returns a network for the given features. start is the standard deviation of the
// initial embeddings; activation is "relu" or "sigmoid". It returns an error if the data has no
// item features or if hidden is empty.
func NewFeatureNet(f *rows.Features, dim int, hidden Layers, activation string, start float64) (*FeatureNet, error) {
	s, err := newFeatureNet(f, dim, hidden, activation, start)
	if err != nil {
		return nil, err
	}
	s.addLayers()
	return s, nil
}

// NewIdentityNet returns a network as NewFeatureNet does, with the item itself as another feature.
func NewIdentityNet(f *rows.Features, dim int, hidden Layers, activation string, start float64) (*FeatureNet, error) {
	s, err := newFeatureNet(f, dim, hidden, activation, start)
	if err != nil {
		return nil, err
	}
	s.parts = append(s.parts, part{
		Column: &rows.Column{}, of: ofItem, at: s.in, wide: dim, slot: len(s.slots), self: true,
	})
	s.slots = append(s.slots, method.Slot{
		Name: "item", Scope: method.Shared, PerItem: true, Dim: dim,
		Init: method.Init{Kind: method.Normal, A: start}, Doc: "embeddings of the items",
	})
	s.in += dim
	s.addLayers()
	return s, nil
}

// newFeatureNet returns a network without layers.
func newFeatureNet(f *rows.Features, dim int, hidden Layers, activation string, start float64) (*FeatureNet, error) {
	if len(f.Item) == 0 {
		return nil,
			errors.New("the method scores items by their features, and this data set has no item features; use " +
				"ml-100k, ml-1m, frappe or world")
	}
	if len(hidden) == 0 {
		return nil, errors.New("layers = none: must have at least one hidden layer")
	}
	s := &FeatureNet{hidden: hidden, curved: activation == "sigmoid"}
	for of, columns := range [...][]rows.Column{ofUser: f.User, ofRow: f.Row, ofItem: f.Item} {
		if owner(of) == ofItem {
			s.lead = s.in
		}
		for i := range columns {
			c := &columns[i]
			p := part{Column: c, of: owner(of), at: s.in, wide: 1, slot: len(s.slots)}
			if c.Card > 0 {
				p.wide = dim
				s.slots = append(s.slots, method.Slot{
					Name: c.Name, Scope: method.Shared, Rows: c.Card, Dim: dim,
					Init: method.Init{Kind: method.Normal, A: start}, Doc: "embeddings of the feature " + c.Name,
				})
			}
			s.in += p.wide
			s.parts = append(s.parts, p)
		}
	}
	return s, nil
}

// addLayers adds the layers, for the inputs so far.
func (s *FeatureNet) addLayers() {
	s.layer = len(s.slots)
	for _, l := range s.hidden.Slots(s.in) {
		l.Scope = method.Shared
		s.slots = append(s.slots, l)
	}
}

// ExampleFeatures returns the feature columns of ML-100K without values. The methods'
// documentation uses them to count parameters.
func ExampleFeatures() *rows.Features {
	return &rows.Features{
		User: []rows.Column{{Name: "age", Card: 7}, {Name: "gender", Card: 2}, {Name: "occupation", Card: 21}},
		Item: []rows.Column{{Name: "genre", Card: 19, Start: []uint32{0}}},
	}
}

// Slots returns the slots. The caller may modify the slice.
func (s *FeatureNet) Slots() []method.Slot { return append([]method.Slot(nil), s.slots...) }

// SGD returns a rule for every slot.
func (s *FeatureNet) SGD(rate Schedule) []Rule {
	var out []Rule
	for i := range s.slots {
		out = append(out, SGD(i, rate, 0))
	}
	return out
}

// featurePass is a FeatureNet bound to a batch and to the memory of its slots.
type featurePass struct {
	*FeatureNet
	mlp
	device    uint32
	user      []uint32 // nil if all samples belong to the device
	item, row []uint32
	// Rows of the items in the table of a PerItem slot, and of its gradient.
	read, write []uint32
	val, grad   [method.MaxSlots][]float32
	x           vec.Mat
}

// open prepares the network for n samples whose inputs from index lead on will be gathered.
func (t *featurePass) open(n, lead int) {
	t.mlp.curved = t.FeatureNet.curved
	t.mlp.open(t.Scratch, t.hidden, n)
	in := t.in - lead
	for i := range t.layers {
		w := t.layer + 2*i
		l := &t.at[i]
		l.in, l.out, l.stride = t.slots[w].Dim, t.slots[w].Rows, vec.Pad(t.slots[w].Dim)
		l.w, l.b, l.gw, l.gb = t.val[w], t.val[w+1], t.grad[w], t.grad[w+1]
	}
	t.at[0].in, t.at[0].w = in, t.at[0].w[lead:]
	wide := vec.Pad(in)
	t.x = vec.Rows(method.Workspace[networkSpace](t.Scratch).input.Floats(n*wide), wide)
}

// index returns the position of sample x in a part's column.
func (t *featurePass) index(p *part, x int) uint32 {
	switch {
	case p.self:
		return t.read[x]
	case p.of == ofItem:
		return t.item[x]
	case p.of == ofRow:
		return t.row[x]
	case t.user != nil:
		return t.user[x]
	}
	return t.device
}

// gather sets the rows of to to the inputs from index lead on, using the tables val. If tangent
// is set, it leaves out numeric columns, which have no tangent.
func (t *featurePass) gather(lead int, val *[method.MaxSlots][]float32, tangent bool, to vec.Mat) {
	clear(to.Data)
	for i := range t.parts {
		p := &t.parts[i]
		if p.at < lead {
			continue
		}
		for x := range t.n {
			t.place(p, t.index(p, x), val, tangent, to.Data[x*to.Row+p.at-lead:][:p.wide])
		}
	}
}

// place adds the input of a part for position k of its column to dst.
func (t *featurePass) place(p *part, k uint32, val *[method.MaxSlots][]float32, tangent bool, dst []float32) {
	table, stride := val[p.slot], vec.Pad(p.wide)
	if p.self {
		vec.Add(table[int(k)*stride:][:p.wide], dst)
		return
	}
	if p.Card == 0 {
		if !tangent {
			dst[0] = p.Value[k]
		}
		return
	}
	codes := p.Of(k)
	for _, c := range codes {
		vec.Axpy(1/float32(len(codes)), table[int(c)*stride:][:p.wide], dst)
	}
}

// scatter adds the gradient with respect to the input to the gradients of the tables.
func (t *featurePass) scatter(dx vec.Mat, grad *[method.MaxSlots][]float32) {
	for i := range t.parts {
		p := &t.parts[i]
		if p.Card == 0 && !p.self {
			continue
		}
		table, stride := grad[p.slot], vec.Pad(p.wide)
		for x := range t.n {
			if p.self {
				vec.Add(dx.Data[x*dx.Row+p.at:][:p.wide], table[int(t.write[x])*stride:][:p.wide])
				continue
			}
			codes := p.Of(t.index(p, x))
			for _, c := range codes {
				vec.Axpy(1/float32(len(codes)), dx.Data[x*dx.Row+p.at:][:p.wide], table[int(c)*stride:][:p.wide])
			}
		}
	}
}

// work binds the network to a device's slots.
func (s *FeatureNet) work(w *method.Work, b *method.Batch, t *featurePass) {
	t.FeatureNet, t.Scratch = s, &w.Scratch
	t.device, t.item, t.row = w.Device, b.Item, b.Row
	for i := range s.slots {
		v := &w.View[i]
		t.val[i], t.grad[i] = v.Val, v.Grad
		if v.Slot.PerItem {
			t.val[i], t.grad[i], t.read, t.write = v.Arena, v.GradRows, b.Rd[i], b.Pos
		}
	}
}

// Logits sets out to the logits of a batch. At inference, the inputs that are the same for all
// items are added to the first layer's bias once.
func (s *FeatureNet) Logits(w *method.Work, b *method.Batch, out []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	var t featurePass
	s.work(w, b, &t)
	lead := 0
	if b.Inference {
		lead = s.lead
	}
	t.open(b.N, lead)
	if lead > 0 {
		t.fold()
	}
	t.gather(lead, &t.val, false, t.x)
	t.forward(t.x, out[:b.N])
}

// fold adds the contribution of the inputs before the item's features to the first layer's bias.
func (t *featurePass) fold() {
	first, whole := &t.at[0], t.val[t.layer]
	input := t.Floats(t.lead)
	clear(input)
	for i := range t.parts {
		if p := &t.parts[i]; p.at < t.lead {
			t.place(p, t.index(p, 0), &t.val, false, input[p.at:][:p.wide])
		}
	}
	offset := t.Floats(vec.Pad(first.out))
	copy(offset, first.b)
	for o := range first.out {
		offset[o] += vec.Dot(whole[o*first.stride:][:t.lead], input)
	}
	first.b = offset
}

// Back adds the gradients of all slots for dz.
func (s *FeatureNet) Back(w *method.Work, b *method.Batch, dz []float32) {
	mark := w.Mark()
	defer w.Release(mark)
	var t featurePass
	s.work(w, b, &t)
	t.open(b.N, 0)
	t.back(dz[:b.N])
}

// back adds the gradients for dz. It must follow forward on the same batch.
func (t *featurePass) back(dz []float32) {
	dx := vec.Rows(t.Floats(len(t.x.Data)), t.x.Row)
	t.backward(t.x, dz, &dx)
	t.scatter(dx, &t.grad)
}

// Proximal returns the proximal term mu/2*|theta-theta0|^2, which keeps a device near the
// downloaded model. If squared is false, the term is mu/2*|theta-theta0|: its gradient has
// length mu/2 at every distance above 0, and 0 at 0. The term covers the slots with an index
// below slots, which must be plain.
func Proximal(slots int, mu Schedule, squared bool) method.Term {
	return method.Term{Name: "proximal", Weight: mu.At, Grad: func(w *method.Work, b *method.Batch) float64 {
		m, sum := mu.At(w), 0.0
		if w.WantLoss || !squared {
			for i := range slots {
				v := &w.View[i]
				for k, x := range v.Val {
					d := float64(x - v.Base[k])
					sum += float64(d * d)
				}
			}
		}
		pull, value := m, float64(m/2)*sum
		if !squared {
			length := math.Sqrt(sum)
			value = float64(m/2) * length
			if pull = 0; length > 0 {
				pull = float32(float64(m/2) / length)
			}
		}
		for i := range slots {
			v := &w.View[i]
			for k, x := range v.Val {
				v.Grad[k] += float32(pull * (x - v.Base[k]))
			}
		}
		return value * float64(b.N)
	}}
}
