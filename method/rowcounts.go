package method

// RowCounts counts the samples of a batch by distinct row. Samples of the same row have
// the same logit and differ in their labels only.
type RowCounts struct {
	Samples, Labels []float32 // by row: its samples, and the sum of their labels
	// Each has one entry per sample, row by row: 2*i for a positive sample of the i-th
	// row, and 2*i+1 for a negative one.
	Each []uint32
	of   uint64
	by   []float32
}

// CountRows counts a batch that Batch returned. The result is valid until the next call
// of Batch or CountRows.
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
