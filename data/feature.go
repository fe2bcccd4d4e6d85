package data

import (
	"slices"
	"strconv"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
)

// findContext looks up the columns of categories in the part's header. If any is missing, the set has none.
func (l *loader) findContext() {
	l.at = l.at[:0]
	if len(l.contextCols) > 0 { // set by the user
		l.how.context = nil
		for _, c := range l.contextCols {
			l.at, l.how.context = append(l.at, c), append(l.how.context, l.shortName(c))
		}
	}
	for _, name := range l.how.context[len(l.at):] {
		c := slices.Index(l.names, name)
		if c < 0 || l.header && len(l.names) == 0 {
			l.at, l.context, l.inContext, l.how.context = nil, nil, nil, nil
			return
		}
		l.at = append(l.at, c)
	}
	if l.context == nil && len(l.at) > 0 {
		l.context = make([][]uint32, len(l.at))
		for range l.at {
			l.inContext = append(l.inContext, newIndex())
		}
	}
}

// groupContext fills Features.Row, in the order of the grouped rows.
func (l *loader) groupContext(s *Set, order []int32) {
	for k, codes := range l.context {
		c := rows.Column{
			Name: l.how.context[k], Card: len(l.inContext[k].names), Code: make([]uint32, len(order)),
			Names: l.inContext[k].names,
		}
		for x, i := range order {
			c.Code[x] = codes[i]
		}
		s.Meta.Features.Row = append(s.Meta.Features.Row, c)
	}
}

// frappe makes the cost of an app an item feature. (Every app of the published file has one cost; of several, the
// oldest row's would count.) The number of uses, the paper's other item feature, is per row in the file and would
// reveal the answer, so a split counts uses in the train rows.
func frappe(_ *folder, s *Set) error {
	f := &s.Meta.Features
	at := slices.IndexFunc(f.Row, func(c rows.Column) bool { return c.Name == "cost" })
	if at < 0 {
		return nil
	}
	cost := f.Row[at]
	f.Row = slices.Delete(f.Row, at, at+1)
	codes := make([]uint32, s.NumItems)
	for x := len(s.Item) - 1; x >= 0; x-- {
		codes[s.Item[x]] = cost.Code[x]
	}
	f.Item = []rows.Column{{Name: cost.Name, Card: cost.Card, Code: codes, Names: cost.Names}}
	s.Meta.CountsUsage = true
	return nil
}

// films makes features of MovieLens's attributes: gender, age in the seven bands of ML-1M, occupation, and genres.
func (s *Set) films() {
	f := &s.Meta.Features
	for _, a := range s.Meta.Attrs {
		values := a.Values
		switch a.Name {
		case "age":
			values = make([]string, len(a.Values))
			for u, v := range a.Values {
				values[u] = ageBand(v)
			}
		case "gender", "occupation":
		default:
			continue // a zip code is nearly an identifier
		}
		x := newIndex()
		c := rows.Column{Name: a.Name, Code: make([]uint32, len(values))}
		for u, v := range values {
			c.Code[u] = x.of([]byte(v))
		}
		c.Card, c.Names = len(x.names), x.names
		f.User = append(f.User, c)
	}
	f.Item = genreColumns(s.Meta.Genres)
}

// ageBands are the lowest ages of ML-1M's bands, which its file uses as values.
var ageBands = []int{1, 18, 25, 35, 45, 50, 56}

func ageBand(v string) string {
	n, err := strconv.Atoi(v)
	if err != nil {
		return ""
	}
	at, exact := slices.BinarySearch(ageBands, n)
	if !exact && at > 0 {
		at--
	}
	return strconv.Itoa(ageBands[min(at, len(ageBands)-1)])
}

// genreColumns is one column with the set of genres of each item; empty if no item has genres.
func genreColumns(genres [][]string) []rows.Column {
	x := newIndex()
	c := rows.Column{Name: "genre", Start: []uint32{0}}
	for _, list := range genres {
		for _, g := range list {
			c.Code = append(c.Code, x.of([]byte(g)))
		}
		c.Start = append(c.Start, uint32(len(c.Code)))
	}
	if c.Card, c.Names = len(x.names), x.names; c.Card == 0 {
		return nil
	}
	return []rows.Column{c}
}

// Features returns the features that methods may learn from under the split: those of the data and, if
// Info.CountsUsage is set, the usage of each item in the train rows of users that are not held out, as
// log(1+n)/log(1+most).
func (s *Split) Features() (*Features, error) {
	in := s.Info()
	f := in.Features
	if in.CountsUsage {
		f.Item = append(slices.Clone(f.Item), s.usage())
	}
	n := 0
	if set, ok := s.Source.(*Set); ok {
		n = len(set.Item)
	}
	return &f, f.Check(s.Users(), s.Items(), n)
}

func (s *Split) usage() rows.Column {
	sum := make([]float64, s.Items())
	var p Part
	for u := range s.Users() {
		if s.User(u, &p); p.HeldOut {
			continue
		}
		for x, i := range p.Train {
			if p.Rating != nil {
				sum[i] += float64(max(p.Rating[x], 0))
			} else {
				sum[i]++
			}
		}
	}
	most := rng.Log(1 + slices.Max(sum))
	c := rows.Column{Name: "count", Value: make([]float32, s.Items())}
	for i, n := range sum {
		if most > 0 {
			c.Value[i] = float32(rng.Log(1+n) / most)
		}
	}
	return c
}
