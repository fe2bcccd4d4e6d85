package data

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// line is a row of the oracle.
type line struct {
	user, item string
	value      float32
	time       int64
}

// oracle does what the loader does, by the words of its contract and with no
// regard to speed.
func oracle(rows []line, timed bool, opt Options) string {
	var kept []line
	for _, r := range rows {
		if !opt.HasThreshold || r.value >= opt.Threshold {
			kept = append(kept, r)
		}
	}
	if opt.Dedup != "" {
		var once []line
		for i, r := range kept {
			rest := kept[:i]
			if opt.Dedup == "last" {
				rest = kept[i+1:]
			}
			if !slices.ContainsFunc(rest, func(o line) bool { return o.user == r.user && o.item == r.item }) {
				once = append(once, r)
			}
		}
		kept = once
	}
	byUser := map[string][]line{}
	var users []string
	for _, r := range kept {
		if byUser[r.user] == nil {
			users = append(users, r.user)
		}
		byUser[r.user] = append(byUser[r.user], r)
	}
	var b strings.Builder
	for _, u := range users {
		own := byUser[u]
		if len(own) < opt.MinRows {
			continue
		}
		if timed {
			sort.SliceStable(own, func(i, j int) bool { return own[i].time > own[j].time })
		}
		slices.Reverse(own)
		b.WriteString(u + ":")
		for _, r := range own {
			fmt.Fprintf(&b, " %s=%v", r.item, r.value)
			if timed {
				fmt.Fprintf(&b, "@%d", r.time)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestOrderAndFiltersMatchTheOracle(t *testing.T) {
	for seed := range uint64(400) {
		r := rng.New(seed, rng.Test)
		timed := r.Uint32n(4) > 0
		span := []uint32{2, 5, 1000}[r.Uint32n(3)]
		var rows []line
		var text strings.Builder
		for range 3 + r.Uint32n(60) {
			l := line{fmt.Sprint("u", r.Uint32n(6)), fmt.Sprint(r.Uint32n(8)), float32(r.Uint32n(5)), 50 +
				int64(r.Uint32n(span))}
			rows = append(rows, l)
			fmt.Fprintf(&text, "%s\t%s\t%v", l.user, l.item, l.value)
			if timed {
				fmt.Fprintf(&text, "\t%d", l.time)
			}
			text.WriteByte('\n')
		}
		timed = timed && slices.ContainsFunc(rows, func(l line) bool { return l.time != rows[0].time })
		opt := Options{
			Threshold: float32(r.Uint32n(3)), HasThreshold: r.Uint32n(2) == 0,
			Dedup: []string{"", "first", "last"}[r.Uint32n(3)], MinRows: int(r.Uint32n(4)),
		}
		want := oracle(rows, timed, opt)
		s, err := Read(strings.NewReader(text.String()), "test", opt)
		if want == "" {
			if err == nil {
				t.Fatalf("seed %d: no error, though nothing is left", seed)
			}
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkSet(t, s)
		if got := dump(s); got != want {
			t.Fatalf("seed %d, %+v: got\n%swant\n%s", seed, opt, got, want)
		}
	}
}

func TestNumbersFollowFirstAppearanceAfterFilters(t *testing.T) {
	text := "1 a 1 10\n2 b 5 10\n3 c 5 11\n2 a 5 12\n3 c 4 13\n"
	s := mustLoad(t, text, Options{Threshold: 4, HasThreshold: true, Dedup: "first", MinRows: 2})
	if got, want := fmt.Sprint(s.Meta.UserID, s.Meta.ItemID, s.Item, s.Start), "[2] [b a] [0 1] [0 2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const want = "1 rows with a value below 4, 1 repeated rows (first kept), 1 users with fewer than 2 rows (1 rows)"
	if s.Meta.FilteredOut != want {
		t.Errorf("left out %q, want %q", s.Meta.FilteredOut, want)
	}
}

func TestFiltersThatFindNothingLeaveNoTrace(t *testing.T) {
	text := "1 a 4\n2 b 5\n"
	s := mustLoad(t, text, Options{Threshold: 4, HasThreshold: true, Dedup: "last", MinRows: 1})
	if s.Meta.FilteredOut != "" || s.Meta.Hash != mustLoad(t, text, Options{}).Meta.Hash {
		t.Fatalf("left out %q", s.Meta.FilteredOut)
	}
}

func TestDuplicatesAreLegal(t *testing.T) {
	text := "1 a 1 5\n1 a 2 9\n1 b 3 7\n1 a 4 5\n"
	for _, c := range []struct{ dedup, want string }{
		{"", "1: a=4@5 a=1@5 b=3@7 a=2@9\n"},
		{"first", "1: a=1@5 b=3@7\n"},
		{"last", "1: a=4@5 b=3@7\n"},
	} {
		if got := dump(mustLoad(t, text, Options{Dedup: c.dedup})); got != c.want {
			t.Errorf("dedup %q: got %swant %s", c.dedup, got, c.want)
		}
	}
}
