package sim

import (
	"math"
	"slices"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/vec"
)

const (
	blockUsers = 16  // ranked together, so that a piece of the item table is read once for all
	blockItems = 256 // of a piece: their rows fit in a core's cache
)

// block ranks the held-out items of several users among the catalogue, a piece of it at a time.
// It stores no scores of whole users.
type block struct {
	local.Block
	users []blockUser // the first n are in use
	n     int
	piece [blockItems]float32
}

// blockUser is a user of a block.
type blockUser struct {
	user         int
	held         [2]int64 // validation and test item, or data.None
	kept         [2]float32
	train, later items
	below, equal [2]int // items that score below the held-out item, and that tie with it
	top          int
	best         [topK]float32
}

// items is an ascending list of items that is read in pieces of the catalogue.
type items struct {
	list []uint32
	next int
}

func (x *items) set(list []uint32) {
	x.list, x.next = append(x.list[:0], list...), 0
	slices.Sort(x.list)
}

// mask sets the scores of the listed items of a piece to -Inf.
func (x *items) mask(first int, piece []float32) {
	for ; x.next < len(x.list); x.next++ {
		i := int(x.list[x.next]) - first
		if i >= len(piece) {
			return
		}
		piece[i] = excluded
	}
}

// excluded is the score of an item that is not ranked.
var excluded = float32(math.Inf(-1))

// add ranks the held-out items of the lane's user among sampled candidates, and notes the user for
// rank.
func (e *eval) add(l *lane, u int) {
	b, p := &l.block, &l.part
	l.haveAll = false
	if b.users == nil {
		b.users = make([]blockUser, blockUsers)
	}
	x := &b.users[b.n]
	b.n++
	x.user, x.held = u, [2]int64{p.Valid, p.Test}
	for i, places := range [2][]metrics.Rank{e.now.Valid, e.now.Test} {
		if x.held[i] == data.None {
			continue
		}
		held := [1]uint32{uint32(x.held[i])}
		l.Score(held[:], x.kept[i:i+1])
		places[u] = e.sampled(l.Worker, &l.scores, held[0], p.Candidates[i])
	}
	x.train.set(p.Train)
	x.later.set(p.Later)
	x.below, x.equal, x.top = [2]int{}, [2]int{}, 0
	l.Append(&b.Block)
}

// rank ranks the held-out items of the block's users among the catalogue, as full does, and
// empties the block.
func (e *eval) rank(b *block) {
	catalogue := e.split.Items()
	for first := 0; first < catalogue && b.n > 0; first += blockItems {
		piece := b.piece[:min(blockItems, catalogue-first)]
		for d := range b.users[:b.n] {
			b.Score(d, first, piece)
			x := &b.users[d]
			x.count(first, piece, e.now.Top[x.user*topK:(x.user+1)*topK])
		}
	}
	for d := range b.users[:b.n] {
		x := &b.users[d]
		for i, places := range [2][]metrics.Rank{e.now.ValidFull, e.now.TestFull} {
			if x.held[i] != data.None {
				places[x.user] = metrics.Rank{
					Above: int32(catalogue - x.below[i] - x.equal[i]), Ties: int32(x.equal[i]),
				}
			}
		}
		for k := x.top; k < topK; k++ {
			e.now.Top[x.user*topK+k] = metrics.None
		}
	}
	b.n = 0
	b.Clear()
}

// count counts the scores of a piece of the catalogue.
func (x *blockUser) count(first int, piece []float32, top []uint32) {
	in := func(i int) bool {
		at := x.held[i] - int64(first)
		return x.held[i] != data.None && at >= 0 && at < int64(len(piece))
	}
	count := func(i int) {
		if in(i) {
			piece[x.held[i]-int64(first)] = excluded
		}
		if x.held[i] != data.None {
			below, equal := vec.Count(piece, x.kept[i])
			x.below[i] += below
			x.equal[i] += equal
		}
	}
	x.train.mask(first, piece)
	count(0)
	x.later.mask(first, piece)
	count(1)
	if in(1) {
		piece[x.held[1]-int64(first)] = x.kept[1]
	}
	x.top = vec.TopKNext(piece, uint32(first), x.top, x.best[:], top)
}
