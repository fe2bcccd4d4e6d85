package account

import (
	"fmt"
	"math"
	"math/bits"
	"sort"
)

// TreeRestarts is the Nodes of an event of trees that restart after the given numbers of
// steps, if a user contributes at most once to each tree: Σ (⌊log₂ steps⌋ + 1), the depth
// of the user's leaf in each (Kairouz et al. 2021, DP-FTRL-TreeRestart).
func TreeRestarts(steps ...int64) (float64, error) {
	sum := 0.0
	for _, n := range steps {
		if n < 0 {
			return 0, fmt.Errorf("a tree of %d steps: must be 0 or more", n)
		}
		sum += float64(bits.Len64(uint64(n)))
	}
	return sum, nil
}

// maxTreeWork bounds what TreeOnce may compute.
const maxTreeWork = 1e7

// TreeOnce is the Nodes of an event of one tree over the given number of steps without
// restart, if a user contributes at most participations times with at least separation
// steps between two of them: the largest sum, over the nodes, of the squared number of
// contributions below (Kairouz et al. 2021, appendix D.2, DP-FTRL-NoTreeRestart).
// Attempted contributions count.
func TreeOnce(steps, participations, separation int64) (float64, error) {
	switch {
	case steps < 0:
		return 0, fmt.Errorf("a tree of %d steps: must be 0 or more", steps)
	case participations < 0:
		return 0, fmt.Errorf("%d participations: must be 0 or more", participations)
	case separation < 0:
		return 0, fmt.Errorf("separation of %d steps: must be 0 or more", separation)
	}
	separation = min(separation, steps)
	most := participations
	if steps == 0 {
		most = 0
	} else if room := (steps - 1) / (1 + separation); room < most-1 {
		most = room + 1
	}
	if most <= 1 {
		return float64(most) * float64(bits.Len64(uint64(steps))), nil
	}
	t := &tree{gap: separation, memo: map[branch]float64{}}
	best := 0.0
	for n := most; n > 0 && t.limit(steps, n) > best; n-- { // fewer contributions may be in worse places
		best = max(best, t.worst(branch{size: steps, count: n}))
	}
	if t.work > maxTreeWork {
		return 0, fmt.Errorf("the worst case of %d steps, %d participations and separation %d takes too "+
			"long to find; restart the tree (TreeRestarts), or use fewer participations", steps, participations,
			separation)
	}
	return best, nil
}

// tree finds the worst places for contributions.
type tree struct {
	gap  int64
	memo map[branch]float64
	work float64
}

// branch is the first size leaves of a tree, as its complete subtrees hold them,
// with count contributions of which none is in the first head or the last tail leaves.
type branch struct{ size, count, head, tail int64 }

// limit is a bound on the sum of squares of n contributions: a node over 2^k leaves has
// room for ⌈2^k/(gap+1)⌉ of them.
func (t *tree) limit(steps, n int64) float64 {
	sum := 0.0
	for size := int64(1); size > 0 && size <= steps; size *= 2 {
		sum += float64(n) * float64(min(n, (size-1)/(t.gap+1)+1))
	}
	return sum
}

// worst is the largest sum of squares, -Inf where the contributions do not fit.
func (t *tree) worst(b branch) float64 {
	t.work++
	b.head, b.tail = max(0, b.head), max(0, b.tail)
	if b.count == 0 {
		return 0
	}
	if b.head+(b.count-1)*(t.gap+1) > b.size-1-b.tail || t.work > maxTreeWork {
		return math.Inf(-1)
	}
	if b.count == 1 && b.size&(b.size-1) == 0 { // every leaf of a complete tree is as deep
		return float64(bits.Len64(uint64(b.size)))
	}
	if x, ok := t.memo[b]; ok {
		return x
	}
	left := int64(1) << (bits.Len64(uint64(b.size)) - 1)
	own := 0.0
	if left == b.size { // complete: its root is a node too
		own = float64(b.count) * float64(b.count)
		left /= 2
	}
	right := b.size - left
	best := max(
		t.worst(branch{left, b.count, b.head, b.tail - right}),
		t.worst(branch{right, b.count, b.head - left, b.tail}))
	for n := int64(1); n < b.count && t.work <= maxTreeWork; n++ { // on the left
		last := min(t.gap, left-1)
		// The left falls, in steps, with the leaves that are free at its end, and the
		// right rises: only the end of each step can be the best.
		for free := int64(0); free <= last; free++ {
			x := t.worst(branch{left, n, b.head, free})
			if math.IsInf(x, -1) {
				break
			}
			wider := func(i int) bool { return t.worst(branch{left, n, b.head, free + 1 + int64(i)}) < x }
			free += int64(sort.Search(int(last-free), wider))
			best = max(best, x+t.worst(branch{right, b.count - n, t.gap - free, b.tail}))
		}
	}
	t.memo[b] = own + best
	return own + best
}
