package vec

// TopK fills dst with the indices of the largest scores, best first; ties are ordered by index.
// It leaves out scores of -Inf and NaN, and returns the number of indices.
func TopK(score []float32, dst []uint32) int {
	n := 0
	for i := 0; i < len(score); i++ {
		if n == len(dst) {
			if n == 0 {
				return 0
			}
			// The list is full: skip scores that cannot enter it.
			if i += skipSIMD(score[i:], score[dst[n-1]]); i >= len(score) {
				break
			}
		}
		s := score[i]
		if !(s >= lowest) || n == len(dst) && !(s > score[dst[n-1]]) {
			continue
		}
		if n < len(dst) {
			n++
		}
		k := n - 1
		for ; k > 0 && s > score[dst[k-1]]; k-- {
			dst[k] = dst[k-1]
		}
		dst[k] = uint32(i)
	}
	return n
}

// TopKNext continues a list of the largest scores with a piece of a longer slice of scores:
// score[i] is that of index first+i. best and dst hold the n scores and indices so far; the
// first piece has n 0. The result is the new n. After all pieces, in order, dst is what TopK
// of the whole slice returns.
func TopKNext(score []float32, first uint32, n int, best []float32, dst []uint32) int {
	if len(best) != len(dst) || n > len(dst) {
		panic(badLength)
	}
	for i := 0; i < len(score) && len(dst) > 0; i++ {
		if n == len(dst) { // skip scores that cannot enter the list
			if i += skipSIMD(score[i:], best[n-1]); i >= len(score) {
				break
			}
		}
		s := score[i]
		if !(s >= lowest) || n == len(dst) && !(s > best[n-1]) {
			continue
		}
		if n < len(dst) {
			n++
		}
		k := n - 1
		for ; k > 0 && s > best[k-1]; k-- {
			best[k], dst[k] = best[k-1], dst[k-1]
		}
		best[k], dst[k] = s, first+uint32(i)
	}
	return n
}

// Count returns how many elements of x are below s and how many equal it. NaN is neither.
func Count(x []float32, s float32) (below, equal int) {
	below, equal, n := countSIMD(x, s)
	for _, v := range x[n:] {
		if v < s {
			below++
		}
		if v == s {
			equal++
		}
	}
	return below, equal
}

const lowest = -0x1.fffffep127 // the smallest finite score; masked scores are -Inf
