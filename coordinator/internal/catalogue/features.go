package catalogue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
)

// mergeFeatures returns features with those of items added and changed, as Merge does for the
// catalogue. A new item without a value has an empty set, the number 0, or the most frequent
// category.
func mergeFeatures(f *rows.Features, c *pb.Catalogue, items []*pb.Item) (*rows.Features, error) {
	at := map[string]int{}
	for i, it := range c.Items {
		at[it.Id] = i
	}
	given := map[int]map[string]string{}
	for _, it := range items {
		i, known := at[it.Id]
		if !known {
			i = len(at)
			at[it.Id] = i
		}
		for _, x := range it.Features {
			if given[i] == nil {
				given[i] = map[string]string{}
			}
			given[i][x.Key] = x.Value
		}
	}
	if f == nil {
		if len(given) > 0 {
			return nil, fmt.Errorf("column %q: the method of this run reads no features; items have only "+
				"id, title and retired", anyKey(given))
		}
		return nil, nil
	}
	out := &rows.Features{User: f.User, Row: f.Row}
	for i := range f.Item {
		col, err := extendColumn(&f.Item[i], len(at), given)
		if err != nil {
			return nil, err
		}
		out.Item = append(out.Item, col)
	}
	for _, values := range given {
		for name := range values {
			if !slices.ContainsFunc(f.Item, func(c rows.Column) bool { return c.Name == name }) {
				return nil, fmt.Errorf("column %q is unknown: must be one of %s", name, columnNames(f.Item))
			}
		}
	}
	return out, nil
}

// anyKey is the first column, by name, that has a value.
func anyKey(given map[int]map[string]string) (first string) {
	for _, values := range given {
		for name := range values {
			if first == "" || name < first {
				first = name
			}
		}
	}
	return first
}

// extendColumn returns a column with values changed and with more items.
func extendColumn(c *rows.Column, items int, given map[int]map[string]string) (out rows.Column, err error) {
	out = rows.Column{Name: c.Name, Card: c.Card, Names: c.Names}
	if c.Start != nil {
		out.Start = []uint32{0}
	}
	frequent := mostFrequent(c)
	for i := range items {
		text, changed := given[i][c.Name]
		known := i < c.Len()
		var codes []uint32
		switch {
		case c.Card == 0 && changed:
			x, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
			if err != nil || x-x != 0 {
				return out, fmt.Errorf("column %q: %q is not a number", c.Name, text)
			}
			out.Value = append(out.Value, float32(x))
		case c.Card == 0 && known:
			out.Value = append(out.Value, c.Value[i])
		case c.Card == 0:
			out.Value = append(out.Value, 0)
		case changed:
			if codes, err = c.Codes(text); err != nil {
				return out, err
			}
		case known:
			codes = c.Of(uint32(i))
		case c.Start == nil:
			codes = []uint32{frequent}
		}
		out.Code = append(out.Code, codes...)
		if c.Start != nil {
			out.Start = append(out.Start, uint32(len(out.Code)))
		}
	}
	return out, nil
}

// mostFrequent is the category that most items have; the first one of several.
func mostFrequent(c *rows.Column) uint32 {
	if c.Card == 0 {
		return 0
	}
	n := make([]int, c.Card)
	for _, code := range c.Code {
		n[code]++
	}
	return uint32(slices.Index(n, slices.Max(n)))
}

func columnNames(columns []rows.Column) string {
	var names []string
	for i := range columns {
		names = append(names, columns[i].Name)
	}
	return strings.Join(names, ", ")
}
