package vec

// TopK fills dst with the indices of the largest scores, best first; of equal
// scores the lower index comes first. Scores of -Inf and NaN are left out. It
// returns how many there are.
func TopK(score []float32, dst []uint32) int {
	n := 0
	for i, s := range score {
		if !(s > negInf) || n == len(dst) && (n == 0 || !(s > score[dst[n-1]])) {
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

const negInf = -0x1.fffffep127 // below every finite score but the lowest; masked scores are -Inf
