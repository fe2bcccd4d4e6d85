package data

import "fmt"

// kCore drops users and items with fewer than k rows, and users with fewer than minRows, again and again until all that
// remain have as many. It takes time proportional to the rows.
func (l *loader) kCore(k, minRows int) (left []string) {
	if k < 2 {
		return nil
	}
	least := [2]int{max(k, minRows), k} // of users and items
	sides := [2]*side{newSide(l.user, len(l.users.names)), newSide(l.item, len(l.items.names))}
	keep := make([]bool, len(l.user))
	for i := range keep {
		keep[i] = true
	}
	var dropped [2]int
	var gone [2][]uint32 // users and items whose rows are to be dropped
	for s := range sides {
		for x, n := range sides[s].rows {
			if n > 0 && n < least[s] {
				gone[s] = append(gone[s], uint32(x))
			}
		}
	}
	for len(gone[0])+len(gone[1]) > 0 {
		s := 0
		if len(gone[0]) == 0 {
			s = 1
		}
		x := gone[s][len(gone[s])-1]
		gone[s] = gone[s][:len(gone[s])-1]
		dropped[s]++
		for _, i := range sides[s].of(x) {
			if !keep[i] {
				continue
			}
			keep[i] = false
			other := sides[1-s]
			y := other.column[i]
			if other.rows[y]--; other.rows[y] == least[1-s]-1 {
				gone[1-s] = append(gone[1-s], y)
			}
		}
	}
	if n := l.keep(keep); n > 0 {
		left = append(left, fmt.Sprintf("%d users and %d items outside the %d-core (%d rows)", dropped[0], dropped[1],
			k, n))
	}
	return left
}

// side is the rows by user or by item.
type side struct {
	column []uint32
	rows   []int // the number of rows that are left
	start  []int
	order  []int32
}

func newSide(column []uint32, n int) *side {
	s := &side{column: column, rows: make([]int, n), start: make([]int, n+1), order: make([]int32, len(column))}
	for _, x := range column {
		s.rows[x]++
	}
	for x, n := range s.rows {
		s.start[x+1] = s.start[x] + n
	}
	next := append([]int(nil), s.start...)
	for i, x := range column {
		s.order[next[x]] = int32(i)
		next[x]++
	}
	return s
}

func (s *side) of(x uint32) []int32 { return s.order[s.start[x]:s.start[x+1]] }
