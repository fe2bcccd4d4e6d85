package sequence

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Visit adds what a device sends in a feature pass. It needs a Visit with HistoryOnly.
func (f *Features) Visit(w *method.Work, history []uint32, pass int) {
	if len(history) == 0 || len(w.Samples.Item) == 0 {
		return
	}
	mark := w.Mark()
	defer w.Release(mark)
	items, _, _ := learn.Recency{Base: 1}.Weights(w, history)
	own := part{items: items, at: w.Uint32s(w.Items), width: vec.Pad(sumColumns)}
	for x, i := range items {
		own.at[i] = uint32(x)
	}
	slot, most := f.First+featureSums, float32(sumRange)
	if pass > 0 {
		slot, most, own.width = f.First+featureRows, rowRange, 2*f.columns(w.Items)
	}
	own.rows = w.Floats(len(items) * own.width)
	clear(own.rows)
	if pass == 0 {
		own.addSums(w, history)
	} else {
		probe := &w.View[f.First+featureProbe]
		own.addFollows(w, probe, history, pass == 2)
		own.addTogether(w, probe)
	}
	first := w.Samples.Wr[slot][0] - w.Samples.Item[0]
	for _, i := range items {
		row := own.row(i)
		limitRow(row, most)
		vec.Add(row, w.View[slot].Row(first+i))
	}
}

// part is what one device adds to the rows of its items.
type part struct {
	items []uint32 // distinct
	at    []uint32 // by item: its row
	rows  []float32
	width int
}

func (p *part) row(item uint32) []float32 {
	from := int(p.at[item]) * p.width
	return p.rows[from : from+p.width]
}

// addSums adds row and column sums of the device's part of both matrices.
func (p *part) addSums(w *method.Work, history []uint32) {
	reach := w.Floats(gaps + 1) // sum of the weights of that many neighbours
	reach[0] = 0
	for g, power := 0, float32(1); g < gaps; g++ {
		reach[g+1] = reach[g] + power
		power *= gapDecay
	}
	for t, i := range history {
		row := p.row(i)
		row[sumBefore] += reach[min(gaps, len(history)-1-t)]
		row[sumAfter] += reach[min(gaps, t)]
	}
	n := float64(len(p.items))
	for _, i := range p.items {
		row := p.row(i)
		row[sumDevices], row[sumTogether] = sumRange, float32((n-1)/math.Sqrt(n))
	}
}

// addFollows adds the product of the device's part of follows with the probe or, if it is transposed, of its
// transpose: for each position the decayed sum of the probe's rows of the next, or previous, 20 items. A running
// sum needs the same time for any number of gaps.
func (p *part) addFollows(w *method.Work, probe *method.View, history []uint32, transposed bool) {
	k, n := p.width/2, len(history)
	window := w.Floats(k)
	clear(window)
	last := float32(1) // weight of the item that leaves the window
	for range gaps {
		last *= gapDecay
	}
	for t := range n {
		at, gone := t, t-gaps
		if !transposed { // the window moves from the newest item to the oldest
			at, gone = n-1-t, n-1-t+gaps
		}
		vec.Add(window, p.row(history[at])[:k])
		vec.Scale(gapDecay, window)
		vec.Add(probe.Row(history[at])[:k], window)
		if t >= gaps {
			vec.Axpy(-last, probe.Row(history[gone])[:k], window)
		}
	}
}

// addTogether adds the product of the device's part of together with the probe.
func (p *part) addTogether(w *method.Work, probe *method.View) {
	k := p.width / 2
	sum := w.Floats(k)
	clear(sum)
	for _, i := range p.items {
		vec.Add(probe.Row(i)[k:2*k], sum)
	}
	weight := float32(1 / math.Sqrt(float64(len(p.items))))
	for _, i := range p.items {
		others := p.row(i)[k:]
		vec.AddDiff(sum, probe.Row(i)[k:2*k], others)
		vec.Scale(weight, others)
	}
}

// limitRow limits the magnitude of numbers.
func limitRow(row []float32, most float32) {
	for i, x := range row {
		row[i] = min(max(x, -most), most)
	}
}
