package local

import (
	"encoding/binary"
	"math"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
)

// bind checks a method's parameters and returns it bound to the features. A method that reads
// no features gets none.
func bind(m method.Method, opt *Options) (method.Method, error) {
	if err := method.Check(m); err != nil {
		return nil, err
	}
	if _, reads := method.As[method.Featured](m); !reads {
		opt.Features = nil
		return m, nil
	}
	if opt.Features == nil {
		opt.Features = &rows.Features{}
	}
	return method.Bind(m, opt.Features)
}

// classes group the items that have equal features.
type classes struct {
	first []uint32 // an item of each class
	of    []uint32 // class by item
}

// classify groups the items if the method scores them by features only. It returns nil
// otherwise, or if no two items have equal features.
func (p *Plan) classify() *classes {
	if p.Features == nil {
		return nil
	}
	for i := range p.Slots {
		if p.Slots[i].PerItem {
			return nil
		}
	}
	c := &classes{of: make([]uint32, p.Items)}
	known := map[string]uint32{}
	var key []byte
	for i := range uint32(p.Items) {
		key = key[:0]
		for n := range p.Features.Item {
			col := &p.Features.Item[n]
			if col.Card == 0 {
				key = binary.LittleEndian.AppendUint32(key, math.Float32bits(col.Value[i]))
				continue
			}
			of := col.Of(i)
			key = binary.LittleEndian.AppendUint32(key, uint32(len(of)))
			for _, code := range of {
				key = binary.LittleEndian.AppendUint32(key, code)
			}
		}
		at, ok := known[string(key)]
		if !ok {
			at = uint32(len(c.first))
			known[string(key)] = at
			c.first = append(c.first, i)
		}
		c.of[i] = at
	}
	if len(c.first) == p.Items {
		return nil
	}
	return c
}

// scoreClasses scores one item of each class, and gives its score to all.
func (k *Worker) scoreClasses(dst []float32) {
	c, some := k.mem.classes, k.score.class
	for lo := 0; lo < len(some); lo += scoreChunk {
		hi := min(lo+scoreChunk, len(some))
		k.scoreChunk(c.first[lo:hi], some[lo:hi])
	}
	for i, at := range c.of {
		dst[i] = some[at]
	}
}

// Context sets the interaction, a row of Features.Row, that the next scores are for. The
// default is the device's newest. It reports whether scores depend on it.
func (k *Worker) Context(row uint32) bool {
	k.score.context = row
	return k.p.context
}

// DrawnInteractions returns the interactions of the samples that DrawSamples returned; nil if
// they have no features.
func (k *Worker) DrawnInteractions() []uint32 { return k.ctx }

// owns reports whether the device scores with its own copy of a shared table.
func (k *Worker) owns(v *method.View) bool {
	return k.trained && v.Slot.Serve == method.ServeLocal || k.prepared && v.Slot.Scope == method.Shared &&
		v.Slot.Upload == method.Delta
}
