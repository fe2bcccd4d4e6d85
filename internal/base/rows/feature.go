package rows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Features is side information in columns: about users, about items, and about single
// interactions (the hour, the weather). It is shared and read-only.
type Features struct {
	User []Column // by user
	Item []Column // by item
	Row  []Column // by interaction, in the order of the data
}

// Column is one feature. It holds categories, sets of categories or numbers.
type Column struct {
	Name  string
	Card  int       // the number of categories; 0 for a column of numbers
	Code  []uint32  // one category each, below Card; for sets, all categories one after the other
	Start []uint32  // for sets: the categories of k are Code[Start[k]:Start[k+1]]; otherwise nil
	Value []float32 // for a column of numbers
	Names []string  // of the categories, by code; nil if they have none
}

// Of returns the categories of k.
func (c *Column) Of(k uint32) []uint32 {
	if c.Start == nil {
		return c.Code[k : k+1]
	}
	return c.Code[c.Start[k]:c.Start[k+1]]
}

// Len is the number of users, items or interactions that the column describes.
func (c *Column) Len() int {
	switch {
	case c.Card == 0:
		return len(c.Value)
	case c.Start != nil:
		return len(c.Start) - 1
	}
	return len(c.Code)
}

// Categorical returns the features with each column of numbers turned into categories: equal
// numbers are one category, in ascending order.
func (f *Features) Categorical() *Features {
	return &Features{User: categorical(f.User), Item: categorical(f.Item), Row: categorical(f.Row)}
}

func categorical(columns []Column) []Column {
	out := slices.Clone(columns)
	for i := range out {
		if c := &out[i]; c.Card == 0 && len(c.Value) > 0 {
			sizes := slices.Clone(c.Value)
			slices.Sort(sizes)
			sizes = slices.Compact(sizes)
			codes := make([]uint32, len(c.Value))
			for k, v := range c.Value {
				at, _ := slices.BinarySearch(sizes, v)
				codes[k] = uint32(at)
			}
			out[i] = Column{Name: c.Name, Card: len(sizes), Code: codes}
		}
	}
	return out
}

// Limits of Check.
const (
	MaxColumns = 64
	maxCard    = 1 << 20
)

// Check reports the first column whose length or contents are invalid.
func (f *Features) Check(users, items, rows int) error {
	if n := len(f.User) + len(f.Item) + len(f.Row); n > MaxColumns {
		return fmt.Errorf("%d features: must be at most %d", n, MaxColumns)
	}
	for side, columns := range [...][]Column{f.User, f.Item, f.Row} {
		want := [...]int{users, items, rows}[side]
		for i := range columns {
			if err := columns[i].check(want); err != nil {
				return fmt.Errorf("feature %q: %w", columns[i].Name, err)
			}
		}
	}
	return nil
}

func (c *Column) check(n int) error {
	if c.Card < 0 || c.Card > maxCard {
		return fmt.Errorf("%d categories: must be 1 to %d, or 0 for numbers", c.Card, maxCard)
	}
	if len(c.Names) > 0 && len(c.Names) != c.Card {
		return fmt.Errorf("%d names for %d categories", len(c.Names), c.Card)
	}
	if c.Start != nil {
		for k, at := range c.Start {
			if int(at) > len(c.Code) || k > 0 && at < c.Start[k-1] || k == 0 && at != 0 {
				return fmt.Errorf("set %d has an invalid start %d", k, at)
			}
		}
	}
	if got := c.Len(); got != n {
		return fmt.Errorf("%d values, expected %d", got, n)
	}
	for _, code := range c.Code {
		if int(code) >= c.Card {
			return fmt.Errorf("category %d: must be below %d", code, c.Card)
		}
	}
	for k, v := range c.Value {
		if v-v != 0 {
			return fmt.Errorf("number %d is %g: must be finite", k, v)
		}
	}
	return nil
}

// Codes returns the categories that a text names: one, or for sets any number separated by |.
// If categories have no names, the text holds their codes.
func (c *Column) Codes(text string) ([]uint32, error) {
	var out []uint32
	words := []string{text}
	if c.Start != nil {
		words = strings.FieldsFunc(text, func(r rune) bool { return r == '|' })
	}
	for _, word := range words {
		word = strings.TrimSpace(word)
		at := slices.Index(c.Names, word)
		if len(c.Names) == 0 {
			if n, err := strconv.Atoi(word); err == nil && n < c.Card {
				at = n
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("%s = %q: must be %s", c.Name, word, c.Choices())
		}
		out = append(out, uint32(at))
	}
	return out, nil
}

// Choices describes the valid values of the column.
func (c *Column) Choices() string {
	const most = 60
	switch {
	case c.Card == 0:
		return "a number"
	case len(c.Names) == 0:
		return fmt.Sprintf("a category from 0 to %d", c.Card-1)
	}
	names := slices.Sorted(slices.Values(c.Names[:min(most, len(c.Names))]))
	text := "one of " + strings.Join(names, ", ")
	if c.Start != nil {
		text = "any of " + strings.Join(names, ", ") + ", separated by |"
	}
	if n := len(c.Names) - most; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}
