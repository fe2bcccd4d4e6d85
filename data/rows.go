package data

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// finish filters, numbers, groups and sorts the rows.
func (l *loader) finish() (*Set, error) {
	s := &Set{Meta: Info{Name: l.name}}
	if l.days != nil {
		times, bad := l.days.choose(l.time)
		if bad != nil {
			bad.File = l.name
			return nil, bad
		}
		l.time = times
	}
	// Times are made and classified before the filters, which leave gaps in an order.
	if l.time == nil && l.how.order != "" {
		l.time, s.Meta.TimeKind = l.how.order.times(l.item), OrderOnly
	} else if s.Meta.TimeKind = l.timeKind(); s.Meta.TimeKind == NoTime {
		l.time = nil
	}
	unit, per := l.timeUnit(s.Meta.TimeKind)
	s.Meta.Columns = l.describe(unit, l.how.order)
	s.Meta.Notes = append(s.Meta.Notes, l.notes...)
	read := len(l.user)
	left := l.filter(l.how.Options)
	if len(l.user) == 0 {
		return nil, &InputError{
			File: l.name, Found: fmt.Sprintf("0 of %d rows", read),
			Expected: "at least one row after the filters", Hint: "dropped: " + strings.Join(left, ", "),
		}
	}
	if s.Meta.FilteredOut = strings.Join(left, ", "); len(left) > 0 {
		l.users.renumber(l.user)
		l.shown.renumber(l.items.renumber(l.item), len(l.items.names))
		for k := range l.context {
			l.inContext[k].renumber(l.context[k])
		}
	}
	s.Meta.UserID, s.Meta.ItemID = l.users.names, l.items.names
	s.NumItems = len(l.items.names)
	l.group(s)
	l.shown.fill(s, l.how.Columns != "")
	if l.fractions {
		for i, k := range s.Time {
			s.Time[i] = int64(math.Floor(fromKey(k)))
		}
	}
	if per > 1 {
		for i := range s.Time {
			s.Time[i] = floor(s.Time[i], per)
		}
	}
	s.Meta.Hash = hashOf(s)
	if l.how.notes { // the user's own file; the features of known sets come with them
		s.Meta.Hash = hashFeatures(s.Meta.Hash, &s.Meta.Features)
	}
	if l.how.split {
		s.Meta.Hash = hashWith(s.Meta.Hash, "split", s.ValidFrom, s.TestFrom)
	}
	return s, nil
}

// floor is a/b rounded down; b is positive.
func floor(a, b int64) int64 {
	if q := a / b; q*b > a {
		return q - 1
	}
	return a / b
}

// timeUnits are the units of real times that all exceed a limit: as seconds they would be after the year 5000.
var timeUnits = []struct {
	beyond, per int64
	name        string
}{
	{1e17, 1e9, "nanoseconds"},
	{1e14, 1e6, "microseconds"},
	{1e11, 1e3, "milliseconds"},
}

// timeUnit says how times are written, and returns their number per second; an empty text and 1 for seconds.
func (l *loader) timeUnit(kind TimeKind) (text string, per int64) {
	if l.days != nil {
		return l.days.describe(l.format), perSecond
	}
	if kind != RealTime {
		return "", 1
	}
	for _, u := range timeUnits {
		if l.how.per == u.per {
			return "in " + u.name, u.per
		}
	}
	least := slices.Min(l.time)
	for _, u := range timeUnits {
		beyond := u.beyond
		if l.fractions {
			beyond = sortKey(float64(beyond))
		}
		if least > beyond {
			return "in " + u.name, u.per
		}
	}
	return "", 1
}

// timeKind is NoTime if all times are the same, and OrderOnly if each user's
// are 0..n-1 or 1..n in some order.
func (l *loader) timeKind() TimeKind {
	if l.time == nil || slices.Max(l.time) == slices.Min(l.time) {
		return NoTime
	}
	if l.days != nil {
		return RealTime
	}
	start, _ := l.byUser()
	// User u has n+1 slots for the times 0..n, of which the first or the last must stay free.
	seen := make([]bool, len(l.user)+len(start))
	for i, u := range l.user {
		n := int64(start[u+1] - start[u])
		t := l.time[i]
		if l.fractions || t < 0 || t > n {
			return RealTime
		}
		at := seen[start[u]+int(u):]
		if at[t] || t == 0 && at[n] || t == n && at[0] {
			return RealTime
		}
		at[t] = true
	}
	return OrderOnly
}

// byUser sorts the rows by user, in the file's order for each (counting sort).
func (l *loader) byUser() (start []int, rows []int32) {
	start = make([]int, len(l.users.names)+1)
	for _, u := range l.user {
		start[u+1]++
	}
	for u := range start[1:] {
		start[u+1] += start[u]
	}
	next := slices.Clone(start)
	rows = make([]int32, len(l.user))
	for i, u := range l.user {
		rows[next[u]] = int32(i)
		next[u]++
	}
	return start, rows
}

// filter drops rows according to the options, and says in words what it dropped.
func (l *loader) filter(opt Options) (left []string) {
	if opt.HasThreshold {
		keep := make([]bool, len(l.user))
		for i, v := range l.value {
			keep[i] = v >= opt.Threshold
		}
		if n := l.keep(keep); n > 0 {
			left = append(left, fmt.Sprintf("%d rows with a value below %v", n, opt.Threshold))
		}
	}
	if opt.Dedup != "" {
		if n := l.keep(l.unique(opt.Dedup == "last")); n > 0 {
			left = append(left, fmt.Sprintf("%d repeated rows (%s kept)", n, opt.Dedup))
		}
	}
	if opt.MinRows > 1 {
		start, rows := l.byUser()
		keep := make([]bool, len(l.user))
		users := 0
		for u := range start[1:] {
			own := rows[start[u]:start[u+1]]
			if len(own) > 0 && len(own) < opt.MinRows {
				users++
				continue
			}
			for _, i := range own {
				keep[i] = true
			}
		}
		if n := l.keep(keep); n > 0 {
			left = append(left, fmt.Sprintf("%d users with fewer than %d rows (%d rows)", users, opt.MinRows, n))
		}
	}
	return append(left, l.kCore(opt.KCore, opt.MinRows)...)
}

// unique marks the first or the last row of each user and item, in each part of a split.
func (l *loader) unique(last bool) []bool {
	start, rows := l.byUser()
	keep := make([]bool, len(l.user))
	by := make([]int, len(l.items.names)) // the last user and part seen with the item, plus one
	for u := range start[1:] {
		own := rows[start[u]:start[u+1]]
		if last {
			slices.Reverse(own)
		}
		for _, i := range own {
			mark := u*int(parts) + 1
			if l.partOf != nil {
				mark += int(l.partOf[i])
			}
			if item := l.item[i]; by[item] != mark {
				by[item] = mark
				keep[i] = true
			}
		}
	}
	return keep
}

// keep drops the unmarked rows and returns their number.
func (t *table) keep(marked []bool) int {
	n := 0
	for i, m := range marked {
		if !m {
			continue
		}
		t.user[n], t.item[n] = t.user[i], t.item[i]
		if t.value != nil {
			t.value[n] = t.value[i]
		}
		if t.time != nil {
			t.time[n] = t.time[i]
		}
		for _, codes := range t.context {
			codes[n] = codes[i]
		}
		if t.partOf != nil {
			t.partOf[n] = t.partOf[i]
		}
		n++
	}
	t.user, t.item = t.user[:n], t.item[:n]
	if t.value != nil {
		t.value = t.value[:n]
	}
	if t.time != nil {
		t.time = t.time[:n]
	}
	for k := range t.context {
		t.context[k] = t.context[k][:n]
	}
	if t.partOf != nil {
		t.partOf = t.partOf[:n]
	}
	return len(marked) - n
}

// renumber numbers the remaining identifiers in col by first appearance. It returns the new number plus one of each
// old one; 0 if it is gone.
func (x *index) renumber(col []uint32) []uint32 {
	to := make([]uint32, len(x.names)) // the new number plus one
	var names []string
	for i, old := range col {
		if to[old] == 0 {
			names = append(names, x.names[old])
			to[old] = uint32(len(names))
		}
		col[i] = to[old] - 1
	}
	x.names = names
	return to
}

// group fills s with the rows by user, oldest first. Among rows with the same time, the later one in the file counts
// as older (see History).
func (l *loader) group(s *Set) {
	start, rows := l.byUser()
	for u := range start[1:] {
		own := rows[start[u]:start[u+1]]
		slices.Reverse(own)
		if l.time != nil {
			slices.SortFunc(own, func(a, b int32) int {
				return cmp.Or(cmp.Compare(l.time[a], l.time[b]), cmp.Compare(b, a))
			})
		}
		if l.partOf != nil {
			slices.SortStableFunc(own, func(a, b int32) int { return cmp.Compare(l.partOf[a], l.partOf[b]) })
		}
	}
	s.Start = start
	s.Item = make([]uint32, len(rows))
	for k, i := range rows {
		s.Item[k] = l.item[i]
	}
	if l.value != nil {
		s.Value = make([]float32, len(rows))
		for k, i := range rows {
			s.Value[k] = l.value[i]
		}
	}
	if l.time != nil {
		s.Time = make([]int64, len(rows))
		for k, i := range rows {
			s.Time[k] = l.time[i]
		}
	}
	l.groupContext(s, rows)
	l.bound(s, rows)
}
