package vec

// Stream holds eight interleaved xoshiro128+ generators (Blackman and Vigna 2021), word by word.
// Every lane must have a non-zero word.
type Stream [4][Lanes]uint32

// Draw fills dst[:n] with uniform numbers below items whose bit in taken is not set: lane by
// lane, without modulo bias (Lemire 2019). At least one number must be free, items must be below
// 2^31, and dst must have room for seven more elements, which Draw may overwrite.
func Draw(s *Stream, items uint32, taken []uint64, n int, dst []uint32) {
	if len(dst) < n+Lanes-1 || len(taken)*64 < int(items) || items == 0 || items >= 1<<31 {
		panic(badLength)
	}
	floor := -items % items
	if drawSIMD(s, items, floor, taken, n, dst) {
		return
	}
	for i := 0; i < n; {
		for l := range Lanes {
			x := s[0][l] + s[3][l]
			t := s[1][l] << 9
			s[2][l] ^= s[0][l]
			s[3][l] ^= s[1][l]
			s[1][l] ^= s[2][l]
			s[0][l] ^= s[3][l]
			s[2][l] ^= t
			s[3][l] = s[3][l]<<11 | s[3][l]>>21
			p := uint64(x) * uint64(items)
			item := uint32(p >> 32)
			if uint32(p) >= floor && taken[item>>6]>>(item&63)&1 == 0 {
				dst[i] = item
				i++
			}
		}
	}
}

// Positive is the bit of a raw sample that marks a positive; the other bits hold its item.
const Positive = 1 << 31

// Repeats sets tab, by item, to -1 for each item that occurs once in raw. It appends the items
// that occur more often to dst, in the order of their second occurrence, and sets their tab to
// row for the first, row+1 for the second, and so on. It returns dst and the number of distinct
// items. Every item must be below len(tab), tab must be 0 for all of them, and row above 0.
func Repeats(raw []uint32, tab []int32, row uint32, dst []uint32) ([]uint32, int) {
	first := len(dst)
	if cap(dst) < first+len(raw)+1 {
		dst = append(make([]uint32, 0, first+len(raw)+1), dst...)
	}
	all := dst[:cap(dst)]
	n, end := repeatsSIMD(raw, tab, all, first)
	for _, r := range raw[n:] {
		item := r &^ Positive
		seen := tab[item]
		tab[item] = -1
		all[end] = item
		if next := end + 1; seen != 0 {
			end = next
		}
	}
	m := first
	for _, item := range all[first:end] {
		if tab[item] < 0 {
			tab[item] = int32(row) + int32(m-first)
			all[m] = item
			m++
		}
	}
	return all[:m], len(raw) - (end - first)
}

// EqualInFours returns the index of the first number of the first group of four with equal
// members, or len(xs) if every group has distinct members. Groups begin at multiples of four; a short last one counts
// as distinct.
func EqualInFours(xs []uint32) int {
	lo := equalInFoursSIMD(xs)
	for ; lo+4 <= len(xs); lo += 4 {
		g := (*[4]uint32)(xs[lo:])
		if g[0] == g[1] || g[0] == g[2] || g[0] == g[3] || g[1] == g[2] || g[1] == g[3] || g[2] == g[3] {
			return lo
		}
	}
	return len(xs)
}

// Resolve splits raw samples into items and labels and sets their row numbers. If tab of an item
// is positive, it is the row for reading and writing. Otherwise the item's own row is read, and
// the row acc further is written.
func Resolve(raw []uint32, tab []int32, acc uint32, item []uint32, y []float32, rd, wr []uint32) {
	if len(item) != len(raw) || len(y) != len(raw) || len(rd) != len(raw) || len(wr) != len(raw) {
		panic(badLength)
	}
	n := resolveSIMD(raw, tab, acc, item, y, rd, wr)
	for x := n; x < len(raw); x++ {
		it := raw[x] &^ Positive
		t := tab[it]
		item[x], y[x] = it, float32(raw[x]>>31)
		rd[x], wr[x] = uint32(max(int32(it), t)), uint32(max(int32(it+acc), t))
	}
}
