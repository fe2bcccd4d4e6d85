package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
)

// columnsOf makes feature columns from the features in a catalogue file, and from the columns of users
// and interactions that the operator names. It removes the features from the items.
func columnsOf(items []*pb.Item, users, interactions []string) (*rows.Features, error) {
	f := &rows.Features{}
	var names []string
	for _, it := range items {
		for _, x := range it.Features {
			if !slices.Contains(names, x.Key) {
				names = append(names, x.Key)
			}
		}
	}
	for _, name := range names {
		f.Item = append(f.Item, itemColumn(items, name))
	}
	for _, it := range items {
		it.Features = nil
	}
	var err error
	if f.User, err = parseColumns(users); err != nil {
		return nil, err
	}
	f.Row, err = parseColumns(interactions)
	return f, err
}

// parseColumns reads columns such as age=18-24|25-34|unknown.
func parseColumns(list []string) ([]rows.Column, error) {
	var out []rows.Column
	for _, text := range list {
		name, values, ok := strings.Cut(text, "=")
		categories := strings.Split(values, "|")
		distinct := slices.Compact(slices.Sorted(slices.Values(categories)))
		if !ok || name == "" || len(distinct) != len(categories) {
			return nil, input(fmt.Errorf("invalid column %q: must be a name and unique categories", text),
				"example: 'age=18-24|25-34|unknown'")
		}
		out = append(out, rows.Column{Name: name, Card: len(categories), Names: categories})
	}
	return out, nil
}

// itemColumn makes one column of items. It holds sets if an item has no category, or several with |
// between them.
func itemColumn(items []*pb.Item, name string) rows.Column {
	c := rows.Column{Name: name, Start: []uint32{0}}
	code, single := map[string]uint32{}, true
	for _, it := range items {
		n := 0
		for _, x := range it.Features {
			if x.Key != name {
				continue
			}
			for _, word := range strings.Split(x.Value, "|") {
				word = strings.TrimSpace(word)
				if _, known := code[word]; !known {
					code[word] = uint32(len(c.Names))
					c.Names = append(c.Names, word)
				}
				c.Code = append(c.Code, code[word])
				n++
			}
		}
		single = single && n == 1
		c.Start = append(c.Start, uint32(len(c.Code)))
	}
	c.Card = len(c.Names)
	if single {
		c.Start = nil
	}
	return c
}
