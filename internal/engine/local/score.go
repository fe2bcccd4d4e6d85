package local

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// scorer is a worker's memory for scoring.
type scorer struct {
	once    int       // items that in-place training touched once
	moved   bool      // move is of the last training
	move    []float32 // by item touched once: the change of its logit
	scaled  []float32 // a head's vector, shrunk as the untouched rows are
	batch   method.Batch
	items   []uint32
	rd      [][]uint32
	row     []uint32 // context, repeated for each item of a chunk
	context uint32   // the interaction to score for
	class   []float32
}

func (s *scorer) init(k *Worker) {
	n := len(k.p.Slots)
	s.move = make([]float32, k.p.Items)
	s.items = make([]uint32, scoreChunk)
	s.rd = make([][]uint32, n)
	s.batch.Inference = true
	s.batch.Rd, s.batch.Wr = make([][]uint32, n), make([][]uint32, n)
	for i := range s.rd {
		s.rd[i] = make([]uint32, scoreChunk)
	}
	if k.p.context {
		s.row = make([]uint32, scoreChunk)
	}
	if k.mem.classes != nil {
		s.class = make([]float32, len(k.mem.classes.first))
	}
}

// Prepare loads a device to score with the newest Shared slots, without training.
func (k *Worker) Prepare(st *State, t *Task) {
	k.prepare(st, t, false)
	switch {
	case k.p.ready == nil:
	case k.p.ready.HistoryOnly:
		k.resolveHistory(t.Train, NotCounted)
		k.p.ready.Run(&k.w)
	case k.draw(t):
		k.resolveLocal(k.mem.Shards + k.id)
		k.p.ready.Run(&k.w)
		k.prepared = true
	}
	k.finish(t)
}

// Score sets dst[x] to the logit of items[x] for the device of the last Visit or Prepare. The
// items must be distinct.
func (k *Worker) Score(items []uint32, dst []float32) {
	if k.p.head == nil {
		for lo := 0; lo < len(items); lo += scoreChunk {
			hi := min(lo+scoreChunk, len(items))
			k.scoreSome(items[lo:hi], dst[lo:hi])
		}
		return
	}
	v, vector, bias := k.headView(*k.p.head)
	vec.Dots(v.Arena, v.Stride, items, k.shrunk(v, vector), bias, dst)
	if !k.owns(v) {
		return
	}
	move := k.moves(vector)
	for x, item := range items {
		switch t := k.tab[item]; {
		case t > 0:
			dst[x] = vec.Dot(v.Row(k.localRow(v, t)), vector) + bias
		case t < 0:
			dst[x] -= move[item]
		}
	}
}

// shrunk returns the vector that scores rows which the last training did not touch. Weight
// decay has shrunk those of the device's own copy too, and a row that is s times as long
// scores as a vector that is s times as long.
func (k *Worker) shrunk(v *method.View, vector []float32) []float32 {
	if !k.owns(v) || v.Scale == 1 {
		return vector
	}
	return k.scaled(float32(v.Scale), vector)
}

func (k *Worker) scaled(s float32, vector []float32) []float32 {
	k.score.scaled = append(k.score.scaled[:0], vector...)
	vec.Scale(s, k.score.scaled)
	return k.score.scaled
}

// localRow returns the row of a copied item, by its entry in tab.
func (k *Worker) localRow(v *method.View, t int32) uint32 {
	if k.w.RankOne.On {
		return uint32(t)
	}
	return v.Local + uint32(t) - 1
}

// ScoreAll sets dst[i] to the logit of item i, for every item.
func (k *Worker) ScoreAll(dst []float32) {
	if k.mem.classes != nil {
		k.scoreClasses(dst)
		return
	}
	if k.p.head == nil {
		buf := k.score.items
		for lo := 0; lo < len(dst); lo += scoreChunk {
			hi := min(lo+scoreChunk, len(dst))
			for x := range hi - lo {
				buf[x] = uint32(lo + x)
			}
			k.scoreSome(buf[:hi-lo], dst[lo:hi])
		}
		return
	}
	v, vector, bias := k.headView(*k.p.head)
	vec.DotsAll(v.Arena, v.Stride, k.shrunk(v, vector), bias, dst)
	if !k.owns(v) {
		return
	}
	for p, item := range k.items {
		dst[item] = vec.Dot(v.Row(v.Local+uint32(p)), vector) + bias
	}
	if k.score.once == 0 || !k.w.RankOne.On {
		return
	}
	move := k.moves(vector)
	for _, item := range k.w.Samples.Item {
		if k.tab[item] < 0 {
			dst[item] -= move[item]
		}
	}
}

// ScoreTable scores all items with another device's tuned table: the shared one shrunk by s,
// with the given rows in place of those that ids name. The method must have a Head.
func (k *Worker) ScoreTable(s float32, ids []uint32, rows, dst []float32) {
	v, vector, bias := k.headView(*k.p.head)
	vec.DotsAll(v.Arena, v.Stride, k.scaled(s, vector), bias, dst)
	for x, id := range ids {
		dst[id] = vec.Dot(rows[x*v.Stride:(x+1)*v.Stride], vector) + bias
	}
}

func (k *Worker) headView(h method.Head) (v *method.View, vector []float32, bias float32) {
	if h.Bias != method.NoBias {
		bias = k.w.View[h.Bias].Val[0]
	}
	return &k.w.View[h.Item], k.w.View[h.Vector].Val, bias
}

// moves returns how far in-place training has moved the logit of each item that it touched
// once: a row that moved by -g*u scores g*(u.vector) less.
func (k *Worker) moves(vector []float32) []float32 {
	if k.score.moved {
		return k.score.move
	}
	k.score.moved = true
	r, item, move := &k.w.RankOne, k.w.Samples.Item, k.score.move
	for b, lo := range r.Lo {
		hi := len(item)
		if b+1 < len(r.Lo) {
			hi = r.Lo[b+1]
		}
		c := vec.Dot(r.V[b*r.Width:(b+1)*r.Width], vector)
		for x := lo; x < hi; x++ {
			move[item[x]] = float32(r.G[x] * c)
		}
	}
	return move
}

// scoreSome scores at most scoreChunk items, with the method's heads or its Logits.
func (k *Worker) scoreSome(items []uint32, dst []float32) {
	if len(k.p.linear()) > 0 {
		k.scoreHeads(items, dst)
		return
	}
	k.scoreChunk(items, dst)
}

// scoreChunk scores with the method's Logits.
func (k *Worker) scoreChunk(items []uint32, dst []float32) {
	b := &k.score.batch
	b.N, b.Item = len(items), items
	if s := &k.score; s.row != nil {
		b.Row = s.row[:len(items)]
		for x := range b.Row {
			b.Row[x] = s.context
		}
	}
	table := 0
	for i := range k.w.View {
		v := &k.w.View[i]
		if !v.Slot.PerItem || v.Slot.Scope == method.Server && !k.p.central || v.Slot.Upload == method.Sum {
			continue
		}
		rd := k.score.rd[i][:len(items)]
		b.Rd[i] = rd
		switch {
		case v.Slot.Scope == method.Private:
			k.materialise(v, table, items, rd)
			table++
		case k.owns(v):
			k.tunedRows(v, items, rd)
		default:
			copy(rd, items)
		}
	}
	mark := k.w.Mark()
	k.p.Method.Logits(&k.w, b, dst)
	k.w.Release(mark)
}

// tunedRows names the rows of the device's own copy of a shared table. If weight decay has
// shrunk the untouched ones, it copies them to the spare end of the local block.
func (k *Worker) tunedRows(v *method.View, items, rd []uint32) {
	for x, item := range items {
		switch {
		case k.tab[item] > 0:
			rd[x] = k.localRow(v, k.tab[item])
		case v.Scale == 1:
			rd[x] = item
		default:
			rd[x] = v.Local + uint32(k.p.Items+x)
			row := v.Row(rd[x])
			copy(row, v.Row(item))
			vec.Scale(float32(v.Scale), row)
		}
	}
}

// materialise copies rows of a Private table to the spare end of the local block.
func (k *Worker) materialise(v *method.View, table int, items, rd []uint32) {
	first := v.Local + uint32(k.p.Items)
	for x := range items {
		rd[x] = first + uint32(x)
	}
	k.copyOwn(v, table, items, first)
	k.clearOwn(table)
}

// TunedRows appends the ids and values of the rows of a tuned table that the last training
// changed to ids and data. All other rows are multiplied by the last result.
func (k *Worker) TunedRows(slot int, ids []uint32, data []float32) ([]uint32, []float32, float32) {
	v := &k.w.View[slot]
	for p, item := range k.items {
		ids, data = append(ids, item), append(data, v.Row(v.Local+uint32(p))...)
	}
	if !k.w.RankOne.On {
		return ids, data, float32(v.Scale)
	}
	r := &k.w.RankOne
	for b, lo := range r.Lo {
		hi := len(k.w.Samples.Item)
		if b+1 < len(r.Lo) {
			hi = r.Lo[b+1]
		}
		u := r.V[b*r.Width : (b+1)*r.Width]
		for x := lo; x < hi; x++ {
			item := k.w.Samples.Item[x]
			if k.tab[item] >= 0 {
				continue
			}
			ids = append(ids, item)
			for i, base := range v.Row(item) {
				data = append(data, base-float32(r.G[x]*u[i]))
			}
		}
	}
	return ids, data, 1
}
