package local

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
)

// addDelta adds the change that local training made to a shard's sums.
func (k *Worker) addDelta(shard int) Outcome {
	out := Outcome{Samples: len(k.raw), Touched: k.touched(), Loss: k.w.Loss, LossN: k.w.LossN}
	rows := out.Touched
	if k.p.Cover.Partial() {
		rows = k.coveredRows()
	}
	for i := range k.w.View {
		v := &k.w.View[i]
		if !isSent(&v.Slot) || !k.p.IsSent(k.w.Phase, i) {
			continue
		}
		switch {
		case v.Slot.Sparse:
			k.addSparse(i, shard)
		case v.Slot.PerItem && v.Slot.Upload == method.Delta:
			v.RescaleAll(len(k.items))
			vec.Fold(v.Arena, v.Stride, k.items, float32(v.Scale), v.Local, k.mem.accRow(shard))
			k.mem.shrunk[i][shard] += v.Scale - 1
		case v.Slot.PerItem: // training has added to the sums
		default:
			addPlain(v, k.mem.acc[i][shard*len(v.Val):][:len(v.Val)])
		}
		out.Bytes += k.bytesUp(v, rows)
	}
	k.markTouched(shard)
	if k.count != nil && shard < k.mem.Shards {
		k.countTouched(k.count[shard*k.p.Items:][:k.p.Items])
	}
	return out
}

func addPlain(v *method.View, acc []float32) {
	switch v.Slot.Upload {
	case method.Delta:
		vec.AddDiff(v.Val, v.Base, acc)
	case method.Sum:
		vec.Add(v.Val, acc)
	case method.Gradient:
		vec.Add(v.Sent, acc)
	}
}

// addSparse adds the numbers that training has listed. Encoding reads them from the list.
func (k *Worker) addSparse(slot, shard int) {
	if k.p.Integers || shard >= k.mem.Shards {
		return
	}
	v := &k.w.View[slot]
	acc := k.mem.acc[slot][shard*k.p.width[slot]:][:k.p.width[slot]]
	for x, place := range v.Indices {
		acc[place] += v.Values[x]
	}
}

// touched is the number of distinct items in the last training.
func (k *Worker) touched() int {
	n := len(k.items)
	if k.p.InPlace() {
		n += k.score.once
	}
	return n
}

func (k *Worker) countTouched(n []uint32) {
	for _, item := range k.items {
		n[item]++
	}
	for _, item := range k.w.Samples.Item {
		if k.tab[item] < 0 {
			n[item]++
		}
	}
}

// coveredRows is the number of rows that a device sends to hide the touched ones among
// others. The others are zeros, so the sums do without them.
func (k *Worker) coveredRows() int {
	var key [32]byte
	for i := 0; i < len(key); i += 8 {
		binary.LittleEndian.PutUint64(key[i:], k.w.Rand.Uint64())
	}
	return len(k.p.Cover.Rows(k.Touched(), k.p.Items, privacy.NewSource(rand.NewChaCha8(key))))
}

// Touched lists the items of the last training, ascending.
func (k *Worker) Touched() []uint32 {
	ids := slices.Clone(k.items)
	for _, item := range k.w.Samples.Item {
		if k.tab[item] == -1 {
			ids = append(ids, item)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// eachTouched calls do for each item of the last training, once.
func (k *Worker) eachTouched(do func(id uint32)) {
	for _, id := range k.items {
		do(id)
	}
	if k.p.InPlace() {
		for _, id := range k.w.Samples.Item {
			if k.tab[id] == -1 {
				do(id)
			}
		}
	}
}

// Delta is the change that one device's local training made: a part per slot that it sends.
type Delta struct{ Parts []Part }

// Part is the change of one slot, or a sum of statistics.
type Part struct {
	Slot   int
	Dim    int
	Shrunk float64   // all rows were first multiplied by 1+Shrunk
	IDs    []uint32  // touched rows, ascending; nil for every row
	Data   []float32 // the rows, without padding
}

// Delta takes what the last Visit added to a shard's sums out of them. The shard must hold
// nothing else.
func (k *Worker) Delta(shard int) *Delta {
	d := &Delta{}
	ids := k.Touched()
	for i := range k.w.View {
		v := &k.w.View[i]
		if !isSent(&v.Slot) {
			continue
		}
		p := Part{Slot: i, Dim: v.Slot.Dim, Shrunk: k.mem.shrunk[i][shard]}
		k.mem.shrunk[i][shard] = 0
		if v.Slot.PerItem {
			p.IDs = ids
			for _, id := range ids {
				p.Data = takeRow(v.Row(k.mem.accRow(shard)+id), v.Slot.Dim, p.Data)
			}
		} else {
			acc := k.mem.acc[i][shard*k.p.width[i]:][:k.p.width[i]]
			for r := range v.Slot.Rows {
				p.Data = takeRow(acc[r*v.Stride:(r+1)*v.Stride], v.Slot.Dim, p.Data)
			}
		}
		d.Parts = append(d.Parts, p)
	}
	return d
}

// takeRow appends the first dim numbers of a row to dst and clears the row.
func takeRow(row []float32, dim int, dst []float32) []float32 {
	dst = append(dst, row[:dim]...)
	clear(row)
	return dst
}
