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
	own := part{
		items: items, at: w.Uint32s(w.Items), once: w.Floats(len(items)), width: vec.Pad(sumColumns),
	}
	for x, i := range items {
		own.at[i] = uint32(x)
	}
	own.weigh(w, history)
	slot, most := f.First+featureSums, float32(1)
	if pass > 0 {
		slot, most, own.width = f.First+featureRows, followsRange, 2*f.columns(w.Items)
	}
	own.rows = w.Floats(len(items) * own.width)
	clear(own.rows)
	if pass == 0 {
		own.addSums(history)
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
	items []uint32  // distinct
	at    []uint32  // by item: its row
	once  []float32 // by row: the weight of each occurrence of the item
	rows  []float32
	width int
}

// weigh sets the weights of occurrences: 1 divided by the square root of their number and, if a row or column sum of
// follows then exceeds its range, all are shrunk until none does. Without repeated items none does.
func (p *part) weigh(w *method.Work, history []uint32) {
	clear(p.once)
	for _, i := range history {
		p.once[p.at[i]]++
	}
	if len(history) == len(p.items) {
		return
	}
	for x, n := range p.once {
		p.once[x] = float32(1 / math.Sqrt(float64(n)))
	}
	mark := w.Mark()
	defer w.Release(mark)
	p.rows = w.Floats(len(p.items) * p.width)
	clear(p.rows)
	p.addFollowSums(history)
	most := float32(followsRange)
	for _, i := range p.items {
		most = max(most, p.row(i)[sumBefore], p.row(i)[sumAfter])
	}
	vec.Scale(float32(math.Sqrt(float64(followsRange/most))), p.once)
}

// weight is the weight of an occurrence of an item.
func (p *part) weight(item uint32) float32 { return p.once[p.at[item]] }

func (p *part) row(item uint32) []float32 {
	from := int(p.at[item]) * p.width
	return p.rows[from : from+p.width]
}

// addFollowSums adds row and column sums of the device's part of follows.
func (p *part) addFollowSums(history []uint32) {
	for t, i := range history {
		row, before, after, decay := p.row(i), float32(0), float32(0), float32(1)
		for g := 1; g <= gaps; g++ {
			if t+g < len(history) {
				before += float32(decay * p.weight(history[t+g]))
			}
			if t >= g {
				after += float32(decay * p.weight(history[t-g]))
			}
			decay *= gapDecay
		}
		row[sumBefore] += float32(p.weight(i) * before)
		row[sumAfter] += float32(p.weight(i) * after)
	}
}

// addSums adds row and column sums of the device's part of both matrices, divided by their ranges.
func (p *part) addSums(history []uint32) {
	p.addFollowSums(history)
	n := float64(len(p.items))
	for _, i := range p.items {
		row := p.row(i)
		row[sumDevices], row[sumTogether] = 1, float32((n-1)/math.Sqrt(n))
		for c, most := range sumRanges {
			row[c] /= most
		}
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
		item, weight := history[at], p.weight(history[at])
		vec.Axpy(weight, window, p.row(item)[:k])
		vec.Scale(gapDecay, window)
		vec.Axpy(weight, probe.Row(item)[:k], window)
		if t >= gaps {
			item = history[gone]
			vec.Axpy(-last*p.weight(item), probe.Row(item)[:k], window)
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
