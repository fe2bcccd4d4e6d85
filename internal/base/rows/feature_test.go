package rows_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rows"
)

func TestColumnReturnsCategories(t *testing.T) {
	one := rows.Column{Card: 3, Code: []uint32{2, 0}}
	set := rows.Column{Card: 3, Code: []uint32{2, 0, 1}, Start: []uint32{0, 2, 2, 3}}
	if one.Len() != 2 || !slices.Equal(one.Of(0), []uint32{2}) {
		t.Errorf("a column of two categories has length %d, the first is %v", one.Len(), one.Of(0))
	}
	if set.Len() != 3 || !slices.Equal(set.Of(0), []uint32{2, 0}) || len(set.Of(1)) != 0 ||
		!slices.Equal(set.Of(2), []uint32{1}) {
		t.Errorf("the sets are %v %v %v of %d", set.Of(0), set.Of(1), set.Of(2), set.Len())
	}
}

func TestInvalidFeaturesAreRejectedByName(t *testing.T) {
	for want, c := range map[string]rows.Column{
		"1 values, expected 2":         {Name: "x", Card: 2, Code: []uint32{1}},
		"category 2: must be below 2":  {Name: "x", Card: 2, Code: []uint32{1, 2}},
		"number 1 is NaN":              {Name: "x", Value: []float32{0, float32(math.NaN())}},
		"set 1 has an invalid start 9": {Name: "x", Card: 2, Code: []uint32{1}, Start: []uint32{0, 9, 1}},
		"-1 categories":                {Name: "x", Card: -1, Code: []uint32{0, 0}},
	} {
		f := rows.Features{Item: []rows.Column{c}}
		if err := f.Check(0, 2, 0); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	good := rows.Features{
		User: []rows.Column{{Card: 1, Code: []uint32{0}}},
		Row:  []rows.Column{{Value: []float32{1, 2, 3}}},
	}
	if err := good.Check(1, 5, 3); err != nil {
		t.Error(err)
	}
	if err := (&rows.Features{Row: make([]rows.Column, 65)}).Check(0, 0, 0); err == nil {
		t.Error("65 features are accepted")
	}
}

func TestNumbersBecomeCategoriesInAscendingOrder(t *testing.T) {
	f := &rows.Features{Item: []rows.Column{
		{Name: "cost", Card: 2, Code: []uint32{1, 0, 1}},
		{Name: "count", Value: []float32{7, -1, 7}},
	}}
	got := f.Categorical()
	if c := got.Item[1]; c.Card != 2 || !slices.Equal(c.Code, []uint32{1, 0, 1}) || c.Value != nil {
		t.Errorf("the numbers became %+v", c)
	}
	if f.Item[1].Card != 0 || got.Item[0].Card != 2 {
		t.Error("a column without numbers has changed")
	}
	if err := got.Check(0, 3, 0); err != nil {
		t.Error(err)
	}
}

func TestCodesParsesCategoryNames(t *testing.T) {
	one := rows.Column{Name: "age", Card: 2, Names: []string{"old", "young"}}
	set := rows.Column{Name: "genre", Card: 2, Names: []string{"war", "noir"}, Start: []uint32{0}}
	bare := rows.Column{Name: "kind", Card: 3}
	for _, c := range []struct {
		col  *rows.Column
		text string
		want []uint32
	}{
		{&one, "young", []uint32{1}},
		{&one, " old ", []uint32{0}},
		{&set, "noir|war", []uint32{1, 0}},
		{&set, "", nil},
		{&bare, "2", []uint32{2}},
	} {
		if got, err := c.col.Codes(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s = %q is %v, %v: want %v", c.col.Name, c.text, got, err, c.want)
		}
	}
	for text, c := range map[string]*rows.Column{
		"": &one, "old|young": &one, "opera": &set, "3": &bare, "-1": &bare,
		"x": &bare,
	} {
		if got, err := c.Codes(text); err == nil || !strings.Contains(err.Error(), c.Choices()) {
			t.Errorf("%s = %q is %v, %v: want the list of valid values", c.Name, text, got, err)
		}
	}
}
