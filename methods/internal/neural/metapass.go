package neural

import (
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// metaPass is one pass of MetaMF (Lin et al. 2020) over the samples of all users, user by
// user, in the order in which users first occur in the pool.
type metaPass struct {
	*MetaMF
	p     *method.Pool
	b     *method.PoolBatch
	first []int    // by user: where its samples begin in order, and one more
	order []uint32 // samples, by user

	val, grads [metaSlots][]float32
	gen        *generated
	loss       method.Loss

	item, which  []uint32  // of one user: its distinct items, and which of them a sample has
	place        []int32   // by item: its place in item + 1; all zero between users
	s, hidden, z []float32 // by distinct item
	one          method.Batch
	zs           []float32 // by sample
	users        []uint32  // of one step
	du           []float32 // gradients of their embeddings
	heads        []float32 // their hidden layers of head 2
	entries      []metaEntry
	last         []int32  // by item: its newest entry + 1
	touched      []uint32 // items with an entry
	row, biasRow []float32
	samples      int // of one step
}

// metaEntry is the gradient of an item's row of one user.
type metaEntry struct {
	user, next int32
	ds         [metaWide]float32
}

func newMetaPass(m *MetaMF, p *method.Pool) *metaPass {
	n := len(p.Item)
	t := &metaPass{MetaMF: m, p: p, b: p.Batch(0, n), loss: learn.LossNamed("bce"), order: make([]uint32, n)}
	t.first = make([]int, len(t.b.Users)+1)
	for _, k := range t.b.UserPos {
		t.first[k+1]++
	}
	for k := range t.b.Users {
		t.first[k+1] += t.first[k]
	}
	at := append([]int(nil), t.first...)
	for x, k := range t.b.UserPos {
		t.order[at[k]] = uint32(x)
		at[k]++
	}
	for i := range t.val {
		if t.val[i] = p.Value[i]; i > metaUser && i < metaRows {
			t.grads[i] = make([]float32, len(p.Value[i]))
		}
	}
	t.gen = newGenerated(m, &t.val, make([]float32, m.metaRoom()))
	items := len(p.Value[metaRowsBias]) / metaWide
	t.place, t.last = make([]int32, items), make([]int32, items)
	t.row, t.biasRow = make([]float32, metaWide*m.Hidden), make([]float32, metaWide)
	return t
}

func (t *metaPass) run() {
	for lo, users := 0, len(t.b.Users); lo < users; {
		hi := lo
		for t.samples = 0; hi < users && (hi == lo || t.samples+t.first[hi+1]-t.first[hi] <= t.p.BatchSize); hi++ {
			t.samples += t.first[hi+1] - t.first[hi]
		}
		t.users, t.entries, t.touched = t.b.Users[lo:hi], t.entries[:0], t.touched[:0]
		t.du, t.heads = grown(t.du, (hi-lo)*t.Dim), grown(t.heads, (hi-lo)*t.Hidden)
		for i := range t.grads {
			clear(t.grads[i])
		}
		for k := lo; k < hi; k++ {
			t.user(k-lo, t.order[t.first[k]:t.first[k+1]])
		}
		t.move()
		lo = hi
	}
}

func grown(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}

// weights returns the weights and biases that generate an item's row.
func (t *metaPass) weights(item uint32) (w, bias []float32) {
	n, o := metaWide*t.Hidden, int(item)
	return t.val[metaRows][o*n : (o+1)*n], t.val[metaRowsBias][o*metaWide : (o+1)*metaWide]
}

// user adds the gradients of the k-th user of the step.
func (t *metaPass) user(k int, samples []uint32) {
	t.item, t.which, t.one.Y, t.zs = t.item[:0], t.which[:0], t.one.Y[:0], t.zs[:0]
	g := t.gen
	g.make(t.val[metaUser][int(t.users[k])*t.Dim:][:t.Dim])
	g.open()
	t.s, t.hidden, t.z = grown(t.s, len(samples)*metaWide), grown(t.hidden, len(samples)*metaWide),
		grown(t.z, len(samples))
	for _, x := range samples {
		item := t.b.Item[x]
		if t.place[item] == 0 {
			i := len(t.item)
			t.item = append(t.item, item)
			t.place[item] = int32(i + 1)
			w, bias := t.weights(item)
			t.z[i] = g.score(w, bias, t.s[i*metaWide:(i+1)*metaWide], t.hidden[i*metaWide:(i+1)*metaWide])
		}
		i := t.place[item] - 1
		t.which, t.one.Y, t.zs = append(t.which, uint32(i)), append(t.one.Y, t.b.Y[x]), append(t.zs, t.z[i])
	}
	t.one.N = len(samples)
	if t.p.WantLoss {
		t.p.Loss += t.loss.Sum(&t.one, t.zs)
		t.p.LossN += t.one.N
	}
	t.loss.Grad(&t.p.Scratch, &t.one, 1/float32(t.samples), t.zs)
	clear(t.z)
	for x, i := range t.which {
		t.z[i] += t.zs[x]
	}
	copy(t.heads[k*t.Hidden:], g.head(g.h, 2))
	for i, item := range t.item {
		e := metaEntry{user: int32(k), next: t.last[item]}
		w, _ := t.weights(item)
		g.back(t.z[i], w, t.s[i*metaWide:(i+1)*metaWide], t.hidden[i*metaWide:(i+1)*metaWide], e.ds[:])
		if e.next == 0 {
			t.touched = append(t.touched, item)
		}
		t.entries = append(t.entries, e)
		t.last[item], t.place[item] = int32(len(t.entries)), 0
	}
	g.end(&t.grads, t.du[k*t.Dim:(k+1)*t.Dim])
}
