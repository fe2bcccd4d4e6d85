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
func columnsOf(items []*pb.Item, users, moments []string) (*rows.Features, error) {
	f := &rows.Features{}
	names := []string{}
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
	for side, list := range map[*[]rows.Column][]string{&f.User: users, &f.Row: moments} {
		for _, text := range list {
			name, values, ok := strings.Cut(text, "=")
			categories := strings.Split(values, "|")
			if !ok || name == "" || len(slices.Compact(slices.Sorted(slices.Values(categories)))) != len(categories) {
				return nil, input(fmt.Errorf("invalid column %q: must be a name and unique categories", text),
					"example: 'age=18-24|25-34|unknown'")
			}
			*side = append(*side, rows.Column{Name: name, Card: len(categories), Names: categories})
		}
	}
	return f, nil
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
	if c.Card = len(c.Names); single {
		c.Start = nil
	}
	return c
}
