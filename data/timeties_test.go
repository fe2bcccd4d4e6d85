package data

import (
	"slices"
	"testing"
)

func TestTimeTiesAreShuffledWithinTheirSecond(t *testing.T) {
	set := mustWorld(t, "users=30,items=200").Generate()
	for i := range set.Time {
		set.Time[i] = 1_000_000_000 + int64(i/4) // four rows to a second
	}
	set.Meta.TimeKind = RealTime
	set.Value = make([]float32, len(set.Item))
	for i := range set.Value {
		set.Value[i] = float32(set.Item[i])
	}
	p := mustProtocol(t, "deployed")
	p.ShuffleTies = true
	of := func(seed uint64) *Set {
		s, err := NewSplit(set, p, seed)
		if err != nil {
			t.Fatal(err)
		}
		return s.Source.(*Set)
	}
	one, again, two := of(1), of(1), of(2)
	if !slices.Equal(one.Item, again.Item) || slices.Equal(one.Item, two.Item) || slices.Equal(one.Item, set.Item) {
		t.Error("the order must follow from the seed, and differ from that of the file")
	}
	first := 0 // ties whose first row was another one before
	for u := range set.Users() {
		for from := set.Start[u]; from < set.Start[u+1]; {
			to := from
			for to < set.Start[u+1] && set.Time[to] == set.Time[from] {
				to++
			}
			a, b := slices.Sorted(slices.Values(set.Item[from:to])), slices.Sorted(slices.Values(one.Item[from:to]))
			if !slices.Equal(a, b) {
				t.Fatalf("user %d: rows left their second: %v, want %v", u, b, a)
			}
			if set.Item[from] != one.Item[from] {
				first++
			}
			from = to
		}
	}
	// Three of four ties begin with another row on average.
	if all := len(set.Item) / 4; first < all/2 || first > all*9/10 {
		t.Errorf("%d of %d ties begin with another row", first, all)
	}
	for i := range one.Item {
		if one.Value[i] != float32(one.Item[i]) {
			t.Fatal("a rating does not move with its row")
		}
	}
	set.Meta.TimeKind = OrderOnly
	if _, err := NewSplit(set, p, 1); err == nil {
		t.Error("ties of positions are shuffled")
	}
}
