package data

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestDescribeMatchesCountsByHand(t *testing.T) {
	// Five users with 1, 2, 3, 4 and 10 rows; item 0 has all but one row per user 1..4.
	var b strings.Builder
	for u, n := range []int{1, 2, 3, 4, 10} {
		for k := range n {
			item := 0
			if k == 1 {
				item = u
			}
			fmt.Fprintf(&b, "u%d,i%d,1,%d\n", u, item, 1000+100*u+k)
		}
	}
	s := mustLoad(t, b.String(), Options{MinRows: 1})
	c := Describe(s)
	// Pairs: item 0 for all five, items 1..4 for one user each.
	want := Description{
		Name: "test", Users: 5, Items: 5, Rows: 20, Pairs: 9, Duplicates: 11, Sparsity: 1 - 9.0/25,
		PerUser:   PerUser{Min: 1, P5: 1, P25: 2, P50: 3, P75: 4, P95: 10, Max: 10, Mean: 4},
		TailShare: 4.0 / 20, TimeKind: "real", First: 1000, Last: 1409,
		Columns: "user=column 1, item=column 2, rating=column 3, time=column 4; header no; separator comma",
		Hash:    s.Meta.Hash,
	}
	if fmt.Sprint(c) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestDescribeCountsItemsWithoutRows(t *testing.T) {
	s := &Set{NumItems: 4, Start: []int{0, 2}, Item: []uint32{1, 1}}
	c := Describe(s)
	if c.EmptyItems != 3 || c.Duplicates != 1 || c.TailShare != 0 || c.Hash != hashOf(s) {
		t.Errorf("got %+v", c)
	}
	if c := Describe(&Set{Start: []int{0}}); c.Users != 0 || c.Rows != 0 || c.Sparsity != 0 {
		t.Errorf("an empty set has the card %+v", c)
	}
}

func TestDescriptionIsJSONInSnakeCase(t *testing.T) {
	b, err := json.Marshal(Describe(mustLoad(t, "1 a 2\n1 b 3\n", Options{})))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"test","users":1,"items":2,"empty_items":0,"rows":2,"distinct_pairs":2,"duplicates":0,"sparsity":0,` +
		`"rows_per_user":{"min":2,"p5":2,"p25":2,"p50":2,"p75":2,"p95":2,"max":2,"mean":2},"tail_share":0.5,"time_kind":"none",` +
		`"columns":"user=column 1, item=column 2, rating=column 3, time=none; header no; separator space","hash":"`
	if !strings.HasPrefix(string(b), want) {
		t.Errorf("got  %s\nwant %s...", b, want)
	}
}

func TestHashIsOfTheContent(t *testing.T) {
	base := mustLoad(t, "1 a 2 5\n1 b 3 6\n2 a 1 7\n", Options{})
	same := mustLoad(t, "1 a 2 5\n2 a 1 7\n1 b 3 6\n", Options{}) // rows of other users do not matter
	if base.Meta.Hash != same.Meta.Hash || base.Meta.Hash != hashOf(base) || len(base.Meta.Hash) != 64 {
		t.Errorf("hashes are %s and %s", base.Meta.Hash, same.Meta.Hash)
	}
	for _, text := range []string{
		"1 a 2 5\n1 b 3 6\n2 b 1 7\n", "1 a 2 5\n1 b 4 6\n2 a 1 7\n", "1 a 2 5\n1 b 3 6\n2 a 1 8\n",
		"1 a 2\n1 b 3\n2 a 1\n", "1 a\n1 b\n2 a\n",
		"1 a 2 5\n1 b 3 6\n1 a 1 7\n",
	} {
		if h := mustLoad(t, text, Options{}).Meta.Hash; h == base.Meta.Hash {
			t.Errorf("%q has the same hash", text)
		}
	}
	// Made from the words of Hash's comment by another program; caches and reports hold hashes.
	if want := "b47c6751bb0de9cb7ee7038b6fcbbd4ad5768ce88adeffce84bb4b131fefa502"; base.Meta.Hash != want {
		t.Errorf("hash is %s, want %s", base.Meta.Hash, want)
	}
}
