package local

import (
	"errors"
	"slices"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// findHeads finds the heads that the method's scores are the sum of, if they are.
func (p *Plan) findHeads() error {
	if h, ok := method.As[method.Headed](p.Method); ok {
		if head := h.Head(); head != nil && p.Slots[head.Item].Scope != method.Private {
			p.head = head
		}
	}
	if m, ok := method.As[method.Linear](p.Method); ok && p.head == nil {
		for _, h := range m.Heads() {
			if err := p.checkHead(h); err != nil {
				return err
			}
			p.heads = append(p.heads, h)
		}
	}
	return nil
}

var errHead = errors.New("a head of a Linear method must read a broadcast PerItem slot, with a vector of one row " +
	"and the same width, and a bias of one number")

func (p *Plan) checkHead(h method.Head) error {
	known := func(i int) bool { return i >= 0 && i < len(p.Slots) }
	if !known(h.Item) || !known(h.Vector) || h.Bias != method.NoBias && !known(h.Bias) {
		return errHead
	}
	item, v := &p.Slots[h.Item], &p.Slots[h.Vector]
	switch {
	case !item.PerItem || item.Scope != method.Shared || item.Upload != method.Broadcast:
		return errHead
	case v.PerItem || v.Scope == method.Server || v.Rows != 1 || v.Dim != item.Dim:
		return errHead
	case h.Bias != method.NoBias && (p.Slots[h.Bias].PerItem || p.Slots[h.Bias].Scope == method.Server):
		return errHead
	}
	return nil
}

// linear returns the heads of a Linear method; nil for other methods, and for a plain plan,
// which scores with Logits.
func (p *Plan) linear() []method.Head {
	if p.Plain {
		return nil
	}
	return p.heads
}

// Heads returns the heads that the method's scores are the sum of; nil if they are not.
func (p *Plan) Heads() []method.Head {
	if p.head != nil {
		return []method.Head{*p.head}
	}
	return p.heads
}

// AppendVector appends the vectors of the heads, one after the other and without padding, of the device
// of the last Visit or Prepare, and returns the sum of their biases.
func (k *Worker) AppendVector(dst []float32) ([]float32, float32) {
	sum := float32(0)
	for _, h := range k.p.Heads() {
		v, vector, bias := k.headView(h)
		dst = append(dst, vector[:v.Slot.Dim]...)
		sum += bias
	}
	return dst, sum
}

// scoreHeads sets dst[x] to the sum of the heads for items[x].
func (k *Worker) scoreHeads(items []uint32, dst []float32) {
	for n, h := range k.p.heads {
		v, vector, bias := k.headView(h)
		if n == 0 {
			vec.Dots(v.Arena, v.Stride, items, vector, bias, dst)
			continue
		}
		mark := k.w.Mark()
		more := k.w.Floats(len(items))
		vec.Dots(v.Arena, v.Stride, items, vector, bias, more)
		vec.Add(more, dst)
		k.w.Release(mark)
	}
}

// Block scores several devices together: their scores are sums of heads on shared rows. A
// device's scores have the same bits as those of Worker.Score.
type Block struct {
	heads []method.Head
	table []*method.View // by head
	// By head and device.
	vector [][]float32
	bias   [][]float32
	more   []float32
}

// Linear reports whether the scores of the device of the last Visit or Prepare are sums of
// heads on shared rows, so that a Block can hold the device.
func (k *Worker) Linear() bool {
	if k.mem.classes != nil || k.p.Plain {
		return false
	}
	if k.p.head != nil {
		return !k.owns(&k.w.View[k.p.head.Item])
	}
	return len(k.p.heads) > 0
}

// Clear removes all devices.
func (b *Block) Clear() {
	for n := range b.heads {
		b.vector[n], b.bias[n] = b.vector[n][:0], b.bias[n][:0]
	}
}

// Append adds the device of the last Visit or Prepare, which must be Linear, to a block. All
// devices of a block have the same memory.
func (k *Worker) Append(b *Block) {
	if b.heads == nil {
		b.heads = k.p.Heads()
		b.vector, b.bias = make([][]float32, len(b.heads)), make([][]float32, len(b.heads))
		for _, h := range b.heads {
			b.table = append(b.table, &k.w.View[h.Item])
		}
	}
	for n, h := range b.heads {
		_, vector, bias := k.headView(h)
		b.vector[n], b.bias[n] = append(b.vector[n], vector...), append(b.bias[n], bias)
	}
}

// Score sets dst to the scores of consecutive items from first on, for a device by its
// position in the block.
func (b *Block) Score(device, first int, dst []float32) {
	for n, v := range b.table {
		rows := v.Arena[first*v.Stride : (first+len(dst))*v.Stride]
		vector := b.vector[n][device*v.Stride : (device+1)*v.Stride]
		if n == 0 {
			vec.DotsAll(rows, v.Stride, vector, b.bias[n][device], dst)
			continue
		}
		b.more = slices.Grow(b.more[:0], len(dst))[:len(dst)]
		vec.DotsAll(rows, v.Stride, vector, b.bias[n][device], b.more)
		vec.Add(b.more, dst)
	}
}
