package wire

import (
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
)

// sides maps the sides of the protocol to the columns of features.
func sides(f *rows.Features) map[pb.Column_Side]*[]rows.Column {
	return map[pb.Column_Side]*[]rows.Column{pb.Column_USER: &f.User, pb.Column_ITEM: &f.Item, pb.Column_ROW: &f.Row}
}

// EncodeFeatures returns the public part of features: all columns, with values of item columns only.
func EncodeFeatures(f *rows.Features) *pb.Features {
	out := &pb.Features{}
	of := sides(f)
	for _, side := range []pb.Column_Side{pb.Column_USER, pb.Column_ITEM, pb.Column_ROW} {
		for i := range *of[side] {
			c := &(*of[side])[i]
			p := &pb.Column{Side: side, Name: c.Name, Categories: uint32(c.Card), Names: c.Names, Sets: c.Start != nil}
			if side == pb.Column_ITEM {
				p.Code, p.Start, p.Value = c.Code, c.Start, c.Value
			}
			out.Columns = append(out.Columns, p)
		}
	}
	return out
}

// ReadFeatures decodes and checks the features of a number of items. User and interaction columns have
// no values.
func ReadFeatures(b []byte, items int) (*rows.Features, error) {
	m := &pb.Features{}
	if err := unmarshal(b, MaxBlobBytes, m); err != nil {
		return nil, err
	}
	f, err := decodeFeatures(m)
	if err != nil {
		return nil, err
	}
	if err := f.Check(0, items, 0); err != nil {
		return nil, fmt.Errorf("features: %w", err)
	}
	return f, nil
}

func decodeFeatures(m *pb.Features) (*rows.Features, error) {
	f := &rows.Features{}
	of := sides(f)
	if n := len(m.GetColumns()); n > rows.MaxColumns {
		return nil, fmt.Errorf("features of %d columns: must be at most %d", n, rows.MaxColumns)
	}
	for _, p := range m.GetColumns() {
		to := of[p.GetSide()]
		switch {
		case to == nil:
			return nil, fmt.Errorf("column of side %d: must be user, item or interaction", p.GetSide())
		case p.Name == "" || text(p.Name, "a column name", maxTextBytes/4, false) != nil:
			return nil, errors.New("a column name is empty, too long or invalid")
		case p.Side != pb.Column_ITEM && len(p.Code)+len(p.Start)+len(p.Value) > 0:
			return nil, fmt.Errorf("column %q has values: only item columns may have values", p.Name)
		}
		for _, c := range *to {
			if c.Name == p.Name {
				return nil, fmt.Errorf("duplicate column %q", p.Name)
			}
		}
		if err := checkNames(p); err != nil {
			return nil, err
		}
		c := rows.Column{
			Name: p.Name, Card: int(p.Categories), Names: p.Names, Code: p.Code, Start: p.Start,
			Value: p.Value,
		}
		if p.Sets && p.Side != pb.Column_ITEM {
			c.Start = []uint32{0}
		}
		if p.Sets != (c.Start != nil) || p.Sets && c.Card == 0 || c.Card == 0 && len(c.Code) > 0 || c.Card > 0 &&
			len(c.Value) > 0 {
			return nil, fmt.Errorf("column %q mixes categories, sets and numbers", p.Name)
		}
		*to = append(*to, c)
	}
	return f, nil
}

// checkNames checks that category names are valid and unique.
func checkNames(p *pb.Column) error {
	if len(p.Names) > 0 && len(p.Names) != int(p.Categories) {
		return fmt.Errorf("column %q has %d names for %d categories", p.Name, len(p.Names), p.Categories)
	}
	seen := make(map[string]bool, len(p.Names))
	for _, name := range p.Names {
		if err := text(name, "a category name", maxTextBytes, false); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("column %q has the category %q twice", p.Name, name)
		}
		seen[name] = true
	}
	return nil
}
