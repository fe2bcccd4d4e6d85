package method

// Pool is what a Central method trains on: the samples of all users in one round, in
// random order.
type Pool struct {
	Round, Rounds int
	BatchSize     int
	User, Item    []uint32
	Y             []float32
	Rating        []float32 // as in Samples
	Row           []uint32  // as in Samples
	Features      *Features
	Value         [][]float32 // by slot; rows are padded to Stride
	Stride        []int
	WantLoss      bool
	Loss          float64
	LossN         int
	Scratch

	batch       PoolBatch
	users, item ids
}

// PoolBatch is a range of a pool's samples. The k-th distinct user of the batch is
// Users[k], and its samples have k in UserPos. Items and ItemPos are the same for items.
type PoolBatch struct {
	Batch
	User, UserPos, Users []uint32
	ItemPos, Items       []uint32
}

// Batch returns samples lo to hi. The result is valid until the next call.
func (p *Pool) Batch(lo, hi int) *PoolBatch {
	b := &p.batch
	b.Lo, b.N = lo, hi-lo
	b.Item, b.Y, b.Rating, b.Row = p.Item[lo:hi], p.Y[lo:hi], part(p.Rating, lo, hi), part(p.Row, lo, hi)
	b.User = p.User[lo:hi]
	b.UserPos, b.Users = p.users.number(b.User)
	b.ItemPos, b.Items = p.item.number(b.Item)
	return b
}

// ids numbers the distinct ids of a list in the order of their first use.
type ids struct {
	place    []uint32 // by id: its number + 1; all zero between uses
	pos, all []uint32
}

func (n *ids) number(list []uint32) (pos, distinct []uint32) {
	n.pos, n.all = n.pos[:0], n.all[:0]
	for _, id := range list {
		if int(id) >= len(n.place) {
			n.place = append(n.place, make([]uint32, int(id)+1-len(n.place))...)
		}
		if n.place[id] == 0 {
			n.all = append(n.all, id)
			n.place[id] = uint32(len(n.all))
		}
		n.pos = append(n.pos, n.place[id]-1)
	}
	for _, id := range n.all {
		n.place[id] = 0
	}
	return n.pos, n.all
}
