package wire

import (
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
)

// sides are the columns of features, by whom they are about.
func sides(f *rows.Features) map[pb.Column_Side]*[]rows.Column {
	return map[pb.Column_Side]*[]rows.Column{pb.Column_USER: &f.User, pb.Column_ITEM: &f.Item, pb.Column_ROW: &f.Row}
}

// EncodeFeatures is what everybody may know of features: what columns there are, and the
// values of those of items. Values of users and of interactions are left out.
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

// ReadFeatures reads features of so many items. Columns of users and of interactions
// have no values.
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
		return nil, fmt.Errorf("wire: features: %w", err)
	}
	return f, nil
}

func decodeFeatures(m *pb.Features) (*rows.Features, error) {
	f := &rows.Features{}
	of := sides(f)
	if n := len(m.GetColumns()); n > rows.MaxColumns {
		return nil, fmt.Errorf("wire: features of %d columns: at most %d are possible", n, rows.MaxColumns)
	}
	for _, p := range m.GetColumns() {
		to := of[p.GetSide()]
		switch {
		case to == nil:
			return nil, fmt.Errorf("wire: a column of side %d: want users, items or interactions", p.GetSide())
		case p.Name == "" || text(p.Name, "a column", maxTextBytes/4, false) != nil:
			return nil, errors.New("wire: a column without a name, or with one that is too long")
		case p.Side != pb.Column_ITEM && len(p.Code)+len(p.Start)+len(p.Value) > 0:
			return nil, fmt.Errorf("wire: column %q has values that are nobody's business", p.Name)
		}
		for _, c := range *to {
			if c.Name == p.Name {
				return nil, fmt.Errorf("wire: two columns %q of one side", p.Name)
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
			return nil, fmt.Errorf("wire: column %q is of categories, sets and numbers at once", p.Name)
		}
		*to = append(*to, c)
	}
	return f, nil
}

// checkNames sees that the names of categories are texts, each once.
func checkNames(p *pb.Column) error {
	if len(p.Names) > 0 && len(p.Names) != int(p.Categories) {
		return fmt.Errorf("wire: column %q has %d names of %d categories", p.Name, len(p.Names), p.Categories)
	}
	seen := make(map[string]bool, len(p.Names))
	for _, name := range p.Names {
		if err := text(name, "a category", maxTextBytes, false); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("wire: column %q has two categories %q", p.Name, name)
		}
		seen[name] = true
	}
	return nil
}
