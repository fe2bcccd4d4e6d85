package local

import (
	"encoding/binary"
	"math"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/method"
)

// bind checks a method's parameters, and returns it for the features that there are.
// Methods that read no features get none.
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

// classes are the items that a method of features alone cannot tell apart.
type classes struct {
	first []uint32 // an item of each class
	of    []uint32 // by item
}

// classify returns nil where no features are read, or a row per item is read as
// well, or no two items are alike.
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

// Context says in which interaction the next scores are asked for: its row of
// Features.Row. Until it is called, that is the newest the device has. It reports
// whether that changes the scores.
func (k *Worker) Context(row uint32) bool {
	k.score.context = row
	return k.p.context
}

// startContext gives every negative the interaction of its positive; the positives
// come after.
func (k *Worker) startContext(t *Task, negatives int) {
	if k.ctx == nil {
		return
	}
	for x := range negatives {
		k.ctx[x] = t.Rows[x/k.p.Negatives]
	}
}

// DrawnInteractions returns the interactions of the samples that Draw returned; nil where
// those have no features.
func (k *Worker) DrawnInteractions() []uint32 { return k.ctx }

// owns reports whether the device scores with its own copy of a shared table.
func (k *Worker) owns(v *method.View) bool {
	return k.visited && v.Slot.Serve == method.ServeLocal || k.readied && v.Slot.Scope == method.Shared &&
		v.Slot.Upload == method.Delta
}
