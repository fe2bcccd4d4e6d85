package sequence

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Markov is a first-order Markov chain over items, the usual baseline of sequence
// recommenders (Rendle et al. 2010 factorise it; here transitions are counted). A device
// sends how often each of its items was followed by another one, and its items; one round
// is enough. It scores items by the transition frequencies from its newest items,
// smoothed towards popularity and decayed with the age of the item. With a window above
// 1, items further ahead count as followers too, decayed per step.
type Markov struct {
	Window int     `default:"1" min:"1" range:"1|3|5|10|20|40" doc:"how many following items count as followers; 1: the next one only"`
	Last   int     `default:"1" min:"1" range:"1|5|10|20|40" doc:"number of newest items that scores are based on"`
	Decay  float64 `default:"0.7" min:">0" max:"1" range:"0.5..0.95" doc:"decay per step back in the history and per step ahead"`
	Smooth float64 `default:"10" min:">0" range:"0.1..1000,log" doc:"weight of popularity, in followers"`
}

var (
	_ method.Ready   = (*Markov)(nil)
	_ method.Updater = (*Markov)(nil)

	_ method.PopularityRanker = (*Markov)(nil)
)

const (
	markNext   = iota // broadcast: transition counts
	markLike          // broadcast: number of devices that have an item
	markFollow        // sum
	markCount         // sum
	markScore         // ephemeral: of each item
)

func (m *Markov) Slots(items int) []method.Slot {
	return []method.Slot{
		markNext: {
			Name: "next", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: items,
			Doc: "how often each item followed this one",
		},
		markLike: {
			Name: "popularity", Scope: method.Shared, Upload: method.Broadcast, PerItem: true, Dim: 1,
			Doc: "number of devices that have an item",
		},
		markFollow: {
			Name: "follow", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: items,
			Doc: "transitions in the device's history",
		},
		markCount: {
			Name: "count", Scope: method.Shared, Upload: method.Sum, PerItem: true, Dim: 1,
			Doc: "1 for each item that the device has",
		},
		markScore: {
			Name: "score", Scope: method.Ephemeral, Rows: 1, Dim: items,
			Doc: "score of each item as the next one",
		},
	}
}

func (m *Markov) Logits(w *method.Work, b *method.Batch, out []float32) {
	score := w.View[markScore].Val
	for x, i := range b.Item[:b.N] {
		out[x] = score[i]
	}
}

func (m *Markov) Visit(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		s, follow, count := &w.Samples, &w.View[markFollow], &w.View[markCount]
		if len(s.Item) == 0 {
			return
		}
		for _, r := range s.Wr[markCount] {
			count.Row(r)[0]++
		}
		base := s.Wr[markFollow][0] - s.Item[0]
		for t, i := range w.History {
			row, weight := follow.Row(base+i), float32(1)
			for _, j := range w.History[t+1 : min(t+1+m.Window, len(w.History))] {
				row[j] += weight
				weight *= float32(m.Decay)
			}
		}
	}}
}

// Ready scores all items by the newest ones of the history.
func (m *Markov) Ready(int) method.Visit {
	return method.Visit{HistoryOnly: true, Run: func(w *method.Work) {
		next, like, score := &w.View[markNext], &w.View[markLike], w.View[markScore].Val
		clear(score)
		all, popular := float32(0), float32(0)
		weight := float32(1)
		for k := range min(m.Last, len(w.History)) {
			row := next.Row(w.History[len(w.History)-1-k])
			n := vec.Sum(row) + float32(m.Smooth)
			vec.Axpy(weight/n, row, score)
			popular += float32(weight / n * float32(m.Smooth))
			weight *= float32(m.Decay)
		}
		for i := range uint32(w.Items) {
			all += like.Row(i)[0]
		}
		if len(w.History) == 0 || all == 0 {
			popular, all = 1, max(all, 1)
		}
		for i := range uint32(w.Items) {
			score[i] += float32(popular / all * like.Row(i)[0])
		}
	}}
}

// Popular orders the items by the number of devices that have them.
func (m *Markov) Popular(g *method.Global) []uint32 {
	return learn.MostFrequent(g.Value[markLike], g.Items, g.Stride[markLike])
}

// Update averages the counts over rounds, scaled up to all devices: with small cohorts
// each round is another sample of the same sums.
func (m *Markov) Update(g *method.Global) {
	all := float32(g.Users) / float32(max(g.Devices, 1))
	part := 1 / float32(g.Round+1)
	for _, pair := range [][2]int{{markNext, markFollow}, {markLike, markCount}} {
		vec.Scale(1-part, g.Value[pair[0]])
		vec.Axpy(part*all, g.Aggregate[pair[1]], g.Value[pair[0]])
	}
}
