package method

// RowCounts is what a batch holds of each of its distinct rows: samples that differ only
// in their labels have one logit.
type RowCounts struct {
	Samples, Labels []float32 // by row: its samples, and the sum of their labels
	// Each has one entry for each sample, row by row: twice the place of the row, and 1
	// more unless it is one of the row's first Y.
	Each []uint32
	of   uint64
	by   []float32
}

// CountRows tallies a batch that Batch has made. It is valid until the next call of either.
func (w *Work) CountRows(b *Batch) *RowCounts {
	t := &w.tally
	if t.of != 0 && t.of == b.order {
		return t
	}
	t.of = b.order
	top := uint32(0)
	for _, p := range b.Rows {
		top = max(top, p)
	}
	if need := 2 * (int(top) + 1); cap(t.by) < need {
		t.by = make([]float32, need+need/4)
	}
	by := t.by[:2*(top+1)]
	for _, p := range b.Rows {
		by[2*p], by[2*p+1] = 0, 0
	}
	for x, p := range b.Pos {
		by[2*p]++
		by[2*p+1] += b.Y[x]
	}
	t.Samples, t.Labels, t.Each = t.Samples[:0], t.Labels[:0], t.Each[:0]
	for i, p := range b.Rows {
		n, y := by[2*p], by[2*p+1]
		t.Samples, t.Labels = append(t.Samples, n), append(t.Labels, y)
		for k := float32(0); k < y; k++ {
			t.Each = append(t.Each, uint32(2*i))
		}
		for k := y; k < n; k++ {
			t.Each = append(t.Each, uint32(2*i+1))
		}
	}
	return t
}
