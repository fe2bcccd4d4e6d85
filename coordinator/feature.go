package coordinator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/wire"
)

// public makes the features of a run what everybody may know of them. Methods that read
// none have none.
func (s *Settings) public(items int) error {
	m, err := s.build()
	if err != nil {
		return fmt.Errorf("coord: %w", err)
	}
	if _, reads := method.As[method.Featured](m); !reads || s.Features == nil {
		s.Features = nil
		return nil
	}
	b, err := wire.Marshal(wire.EncodeFeatures(s.Features))
	if err == nil {
		s.Features, err = wire.ReadFeatures(b, items)
	}
	return err
}

// saveFeatures names the features as devices get them; nil where there are none.
func (c *Coordinator) saveFeatures() (name string, blob *pb.Blob, err error) {
	if c.settings.Features == nil {
		return "", nil, nil
	}
	name, b, err := c.blob(wire.EncodeFeatures(c.settings.Features))
	return name, wire.HashBlob(b), err
}

// loadFeatures reads those of a version. One that an older program made has none, and
// then they are what the coordinator was given at its start.
func (c *Coordinator) loadFeatures(name string, items int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" {
		c.settings.Features = c.opt.Features
		return c.settings.public(items)
	}
	b, err := c.st.Blob(hashOf(name))
	if err != nil {
		return err
	}
	c.settings.Features, err = wire.ReadFeatures(b, items)
	return err
}

// described is features with items added and changed, as restocked does it with their
// catalogue. A new item without a value has none of a set, 0 of a number, and the
// commonest of other categories.
func described(f *rows.Features, c *pb.Catalogue, items []*pb.Item) (*rows.Features, error) {
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
			return nil, fmt.Errorf("items have a column %q: want id, title and retired, since the method of this "+
				"run reads no features", anyKey(given))
		}
		return nil, nil
	}
	out := &rows.Features{User: f.User, Row: f.Row}
	for i := range f.Item {
		col, err := extended(&f.Item[i], len(at), given)
		if err != nil {
			return nil, err
		}
		out.Item = append(out.Item, col)
	}
	for _, values := range given {
		for name := range values {
			if !slices.ContainsFunc(f.Item, func(c rows.Column) bool { return c.Name == name }) {
				return nil, fmt.Errorf("items have no column %q: want one of %s", name, columnNames(f.Item))
			}
		}
	}
	return out, nil
}

// anyKey is the first column by name that items were given.
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

// extended is a column of items with values changed, and with more of them.
func extended(c *rows.Column, items int, given map[int]map[string]string) (out rows.Column, err error) {
	out = rows.Column{Name: c.Name, Card: c.Card, Names: c.Names}
	if c.Start != nil {
		out.Start = []uint32{0}
	}
	common := commonest(c)
	for i := range items {
		text, changed := given[i][c.Name]
		known := i < c.Len()
		var codes []uint32
		switch {
		case c.Card == 0 && changed:
			x, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
			if err != nil || x-x != 0 {
				return out, fmt.Errorf("column %q: %q is no number", c.Name, text)
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
			codes = []uint32{common}
		}
		out.Code = append(out.Code, codes...)
		if c.Start != nil {
			out.Start = append(out.Start, uint32(len(out.Code)))
		}
	}
	return out, nil
}

// commonest is the category that most items have; of several the first.
func commonest(c *rows.Column) uint32 {
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

// growWith makes room for a larger catalogue with the features of items.
func (c *Coordinator) growWith(items int, pending []*pb.Item) error {
	old := c.settings.Features
	f, err := described(old, c.catalogue, pending)
	if err != nil {
		return err
	}
	set := func(f *rows.Features) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settings.Features = f
	}
	set(f)
	if err := c.grow(items); err != nil {
		set(old)
		return err
	}
	return nil
}
