// Package private holds Tacit's own methods for differential privacy.
package private

import (
	"math"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// OneShot learns which items occur together from one noisy sum (Tacit's own; the noise is
// that of Dwork et al. 2014, Analyze Gauss). In the first round each device sends
// 1/sqrt(n) for each of its n items. The coordinator selects the items with the largest
// sums as the head. In the second round a device sends y y', where y is the indicator of
// its head items at unit norm: one device changes the sum by at most 1 in the Frobenius
// norm. The coordinator keeps the eigenvectors whose eigenvalues exceed the noise level,
// and shrinks the eigenvalues to their noise-free estimates. A device scores head items
// with its history through these eigenvectors, the newest items weighted most; other
// items rank below the head, by their sums of the first round. Further rounds repeat the
// second one, for cohorts, and their sums are added up.
type OneShot struct {
	HeadItems  int     `default:"1500" min:"2" max:"20000" range:"400|600|800|1000|1500" doc:"number of head items"`
	Rank       int     `default:"96" min:"1" max:"512" range:"16|32|64|96" doc:"largest number of eigenvectors; with noise only those above the noise level"`
	Damp       float64 `default:"0.003" min:"0" range:"3e-4..0.03,log" doc:"damping: an eigenvalue x per user counts as x / (x + damp)"`
	Flat       float64 `default:"0" min:"0" max:"1" range:"0|0.3|0.5" doc:"items are weighted by count^-flat"`
	Fade       float64 `default:"0.9" min:"0" max:"1" range:"0.7..0.98" doc:"decay of the weight per item back"`
	Old        float64 `default:"0.05" min:"0" max:"1" range:"0..0.3" doc:"smallest weight of an old item, relative to the newest"`
	CountShare float64 `default:"0.1" min:">0" max:"<1" range:"0.03..0.3,log" doc:"fraction of the privacy budget for the first round"`
}

var (
	_ method.Headed         = (*OneShot)(nil)
	_ method.Ready          = (*OneShot)(nil)
	_ method.Updater        = (*OneShot)(nil)
	_ method.PhasedSlots    = (*OneShot)(nil)
	_ method.BudgetWeighter = (*OneShot)(nil)
	_ method.FinalRound     = (*OneShot)(nil)
)

const (
	oneItem  = iota // broadcast: eigenvectors, and two columns for items outside the head
	onePlace        // broadcast: position in the head from 1, or 0; and weight
	oneCount        // sum, in the first round
	oneGram         // sum, in the others
	oneUser         // ephemeral
	oneTotal        // server: the sum of all rounds' y y'
	oneNoise        // server: the number of rounds in it, and the variance of their noise
	oneSlots
)

func (m *OneShot) head(items int) Packed { return Packed{N: min(m.HeadItems, items)} }

func (m *OneShot) table(items int) Spectral {
	return Spectral{N: m.head(items).N, Rank: m.Rank, Damp: m.Damp, Flat: m.Flat}
}

func (m *OneShot) Slots(items int) []method.Slot {
	shared, server, wide := method.Shared, method.Server, m.head(items).Len()
	return []method.Slot{
		oneItem: {
			Name: "item", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: m.Rank + 2,
			Doc: "eigenvector entries of the item, 1 if it is outside the head, and its order there",
		},
		onePlace: {
			Name: "place", Scope: shared, Upload: method.Broadcast, PerItem: true, Dim: 2,
			Doc: "the item's position in the head, from 1, or 0; and its weight",
		},
		oneCount: {
			Name: "count", Scope: shared, Upload: method.Sum, PerItem: true, Dim: 1,
			Doc: "1/sqrt(n) for each of the device's n items, in the first round",
		},
		oneGram: {
			Name: "gram", Scope: shared, Upload: method.Sum, Sparse: true, Rows: 1, Dim: wide,
			Doc: "outer product of the device's head items, in later rounds",
		},
		oneUser:  {Name: "user", Scope: method.Ephemeral, Rows: 1, Dim: m.Rank + 2, Doc: "the user's vector"},
		oneTotal: {Name: "total", Scope: server, Rows: 1, Dim: wide, Doc: "the sums of later rounds"},
		oneNoise: {Name: "told", Scope: server, Rows: 1, Dim: 2, Doc: "number of later rounds, and the variance " +
			"of their noise"},
	}
}

func (m *OneShot) Head() *method.Head {
	return &method.Head{Item: oneItem, Vector: oneUser, Bias: method.NoBias}
}

func (m *OneShot) Logits(w *method.Work, b *method.Batch, out []float32) {
	learn.Dot(method.Head{Item: oneItem, Vector: oneUser, Bias: method.NoBias}).Logits(w, b, out)
}

func (m *OneShot) Phase(round, _ int) (int, string) {
	if round == 0 {
		return 0, "count"
	}
	return 1, "gram"
}

// Transfers sends only counts in the first round. The item rows are used for recommending
// only.
func (m *OneShot) Transfers(phase, slot int) bool {
	return phase == 0 && slot == oneCount || phase == 1 && (slot == onePlace || slot == oneGram)
}

func (m *OneShot) BudgetWeight(round, rounds int) float64 {
	if round == 0 {
		return m.CountShare
	}
	return (1 - m.CountShare) / float64(rounds-1)
}

// ReportsFinalRound is true: after the counts alone the method cannot personalise.
func (m *OneShot) ReportsFinalRound() bool { return true }

func (m *OneShot) Visit(int) method.Visit { return method.Visit{HistoryOnly: true, Run: m.visit} }

func (m *OneShot) visit(w *method.Work) {
	mark := w.Mark()
	defer w.Release(mark)
	head := m.head(w.Items)
	items, _, _ := learn.Recency{Base: 1}.Weights(w, w.History) // distinct items
	if w.Phase == 0 {
		for _, i := range items {
			first := w.Samples.Wr[oneCount][0] - w.Samples.Item[0]
			w.View[oneCount].Row(first + i)[0] += float32(1 / math.Sqrt(float64(len(items))))
		}
		return
	}
	y, square := w.Floats(head.N), 0.0
	clear(y)
	for _, i := range items {
		if at := w.View[onePlace].Row(i); at[0] > 0 {
			y[int(at[0])-1] = at[1]
			square += float64(float64(at[1]) * float64(at[1]))
		}
	}
	if square > 0 {
		vec.Scale(float32(1/math.Sqrt(square)), y)
		head.Outer(y, w.Uint32s(head.N), &w.View[oneGram])
	}
}

func (m *OneShot) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		// no score is more than sqrt(n) standard deviations below the mean
		m.serve(w, math.Sqrt(float64(m.head(w.Items).N))+1)
	}}
}

func (m *OneShot) serve(w *method.Work, below float64) {
	m.table(w.Items).Serve(w, learn.Recency{Rho: m.Fade, Boost: 1 - m.Old, Base: m.Old}, &w.View[oneItem],
		&w.View[onePlace], below, w.View[oneUser].Val)
}

func (m *OneShot) Update(g *method.Global) {
	place, item, noise := g.Value[onePlace], g.Value[oneItem], g.Value[oneNoise]
	if g.Phase == 0 { // post-processing of the released counts costs no privacy budget
		n, _ := learn.Column(g.Aggregate[oneCount], g.Items, g.Stride[oneCount])
		m.table(g.Items).Choose(n, math.Max(1, g.Noise), place, g.Stride[onePlace], item, g.Stride[oneItem])
		return
	}
	vec.Add(g.Aggregate[oneGram], g.Value[oneTotal])
	noise[0], noise[1] = noise[0]+1, noise[1]+float32(float64(g.Noise*g.Noise))
	scale := float64(g.Users) / float64(g.Devices) / float64(noise[0])
	sum := m.head(g.Items).Matrix(g.Value[oneTotal], scale)
	m.table(g.Items).Embed(sum, scale*math.Sqrt(float64(noise[1])), g.Users, place, g.Stride[onePlace], item,
		g.Stride[oneItem])
}
