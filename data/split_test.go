package data

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func mustSplit(t testing.TB, src Source, protocol string, seed uint64) *Split {
	t.Helper()
	s, err := NewSplit(src, mustProtocol(t, protocol), seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// randomSet has histories of 3 to 40 rows, with items and times that repeat.
func randomSet(seed uint64, users, items int) *Set {
	r := rng.New(rng.Test, seed)
	s := &Set{NumItems: items, Start: []int{0}, Meta: Info{Name: "random", TimeKind: RealTime}}
	for range users {
		n, time := 3+int(r.Uint32n(38)), int64(r.Uint32n(2500))
		for range n {
			s.Item, s.Time = append(s.Item, r.Uint32n(uint32(items))), append(s.Time, time)
			time += int64(r.Uint32n(40)) // often 0: rows of one moment
		}
		s.Start = append(s.Start, len(s.Item))
	}
	return s
}

func TestLeaveOneOutHoldsOutTheTwoNewestRows(t *testing.T) {
	src := randomSet(1, 60, 300)
	for _, name := range []string{"paper", "isolated", "deployed"} {
		s := mustSplit(t, src, name, 1)
		var p Part
		for u := range src.Users() {
			s.User(u, &p)
			rows := src.Item[src.Start[u]:src.Start[u+1]]
			n := len(rows)
			if !slices.Equal(p.Train, rows[:n-2]) || p.Valid != int64(rows[n-2]) || p.Test != int64(rows[n-1]) {
				t.Fatalf("%s: user %d trains on %v, holds out %d and %d of %v", name, u, p.Train, p.Valid, p.Test, rows)
			}
			if got := p.Held(); !slices.Equal(got, rows[n-2:]) {
				t.Fatalf("%s: user %d holds out %v, want %v", name, u, got, rows[n-2:])
			}
		}
	}
}

func TestLeaveOneOutNeedsThreeRows(t *testing.T) {
	src := mustLoad(t, "ann,1\nann,2\nann,3\nbob,1\nbob,2\n", Options{})
	const want = `user "bob" has 2 rows, but leave-one-out requires 3; add --min-rows 3`
	if _, err := NewSplit(src, mustProtocol(t, "deployed"), 1); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The moments are those at 80% and 90% of all rows, sorted by time. Everything is
// found again here by looking at every row.
func TestTimeCutTrainsOnNothingAfterTheCut(t *testing.T) {
	for seed := range uint64(5) {
		src := randomSet(seed, 80, 200)
		s := mustSplit(t, src, "temporal", 1)
		all := slices.Clone(src.Time)
		slices.Sort(all)
		valid, test := all[len(all)*8/10], all[len(all)*9/10]
		users := [4]int{}
		var p Part
		for u := range src.Users() {
			s.User(u, &p)
			var train []uint32
			firstValid, firstTest := int64(None), int64(None)
			for k := src.Start[u]; k < src.Start[u+1]; k++ {
				item, at := src.Item[k], src.Time[k]
				switch {
				case at < valid:
					train = append(train, item)
				case at < test && firstValid == None:
					firstValid = int64(item)
				case at >= test && firstTest == None:
					firstTest = int64(item)
				}
			}
			if len(train) == 0 { // a cold start: another question
				firstValid, firstTest = None, None
				users[3]++
			}
			if !slices.Equal(p.Train, train) || p.Valid != firstValid || p.Test != firstTest {
				t.Fatalf("user %d: %d train rows, held out %d and %d; want %d, %d and %d", u, len(p.Train), p.Valid,
					p.Test, len(train), firstValid, firstTest)
			}
			for i, held := range []int64{p.Valid, p.Test} {
				if held != None {
					users[i]++
				}
			}
			if len(p.Held()) != btoi(p.Valid != None)+btoi(p.Test != None) {
				t.Fatalf("user %d holds out %v", u, p.Held())
			}
		}
		if users[0] == 0 || users[1] == 0 || users[3] == 0 {
			t.Errorf("seed %d: %v users with validation, test, - and no train row: the data tries too little", seed,
				users)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestTemporalRequiresComparableTimes(t *testing.T) {
	src := randomSet(1, 20, 50)
	for kind, words := range map[TimeKind]string{NoTime: "none", OrderOnly: "order only"} {
		src.Meta.TimeKind = kind
		want := "protocol temporal requires times that are comparable between users, but the times of random are: " +
			words + "; use --protocol deployed"
		if _, err := NewSplit(src, mustProtocol(t, "temporal"), 1); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	src.Meta.TimeKind = RealTime
	for i := range src.Time {
		src.Time[i] = 7
	}
	if _, err := NewSplit(src, mustProtocol(t, "temporal"), 1); err == nil || !strings.Contains(err.Error(),
		"too coarse") {
		t.Errorf("rows of one moment: got %v, want them to be too coarse", err)
	}
}

func TestCandidatesAreDistinctAndUnseen(t *testing.T) {
	world := mustWorld(t, "users=30,items=600")
	for name, src := range map[string]Source{
		"in memory": randomSet(2, 50, 500), "generated": world,
		"short lists": randomSet(3, 50, 250),
	} {
		for _, protocol := range []string{"paper", "temporal"} {
			s := mustSplit(t, src, protocol, 1)
			var p Part
			var h History
			for u := range src.Users() {
				s.User(u, &p)
				src.History(u, &h)
				seen := map[uint32]bool{}
				for _, i := range h.Items {
					seen[i] = true
				}
				free := src.Items() - len(seen)
				if got, want := len(p.Candidates[0]), min(99, free/2); got != want || len(p.Candidates[1]) != want {
					t.Fatalf("%s: user %d is ranked against %d and %d items, want %d of %d free ones", name, u, got,
						len(p.Candidates[1]), want, free)
				}
				for _, i := range slices.Concat(p.Candidates[0], p.Candidates[1]) {
					if seen[i] || int(i) >= src.Items() {
						t.Fatalf("%s: user %d: candidate %d was touched, is repeated or is unknown", name, u, i)
					}
					seen[i] = true
				}
			}
		}
	}
}

// candidates lists all users' candidates, users in the given order.
func candidates(s *Split, order []int) [][]uint32 {
	out := make([][]uint32, s.Users())
	var p Part
	for _, u := range order {
		s.User(u, &p)
		out[u] = slices.Concat(p.Candidates[0], p.Candidates[1])
	}
	return out
}

func TestCandidatesAreNamedBySeedAndUser(t *testing.T) {
	src := mustWorld(t, "users=30,items=600")
	up, down := make([]int, 30), make([]int, 30)
	for i := range up {
		up[i], down[i] = i, 29-i
	}
	want := candidates(mustSplit(t, src, "paper", 1), up)
	for name, got := range map[string][][]uint32{
		"users in another order": candidates(mustSplit(t, src, "paper", 1), down),
		"another protocol":       candidates(mustSplit(t, src, "deployed", 1), up),
		"kept in memory":         candidates(mustSplit(t, src.Generate(), "paper", 1), up),
	} {
		for u := range want {
			if !slices.Equal(got[u], want[u]) {
				t.Errorf("%s: candidates of user %d are %v, want %v", name, u, got[u], want[u])
			}
		}
	}
	other := candidates(mustSplit(t, src, "paper", 2), up)
	for u := range want {
		if slices.Equal(other[u], want[u]) || u > 0 && slices.Equal(want[u], want[u-1]) {
			t.Errorf("user %d has the candidates of another seed or another user", u)
		}
	}
}

// Each of 500 free items is a candidate with the same chance. The chi-square bound
// is Wilson and Hilferty's at 4.9 standard deviations: a false alarm in one of two
// million seeds, and the seeds are fixed.
func TestCandidatesAreUniform(t *testing.T) {
	for _, items := range []int{520, 320} { // drawn one by one, and from a shuffled list
		src := &Set{NumItems: items, Start: []int{0}, Meta: Info{TimeKind: OrderOnly}}
		const users = 400
		for range users {
			for i := range uint32(20) {
				src.Item, src.Time = append(src.Item, i), append(src.Time, int64(i))
			}
			src.Start = append(src.Start, len(src.Item))
		}
		s := mustSplit(t, src, "paper", 3)
		for half := range 2 {
			counts, chi := make([]float64, items), 0.0
			var p Part
			for u := range users {
				s.User(u, &p)
				for _, i := range p.Candidates[half] {
					counts[i]++
				}
			}
			n := float64(items - 20)
			share := 99 / n
			for _, c := range counts[20:] {
				chi += (c - users*share) * (c - users*share) / (users * share * (1 - share)) * (n - 1) / n
			}
			k := n - 1
			if bound := k * math.Pow(1-2/(9*k)+4.9*math.Sqrt(2/(9*k)), 3); chi > bound {
				t.Errorf("%d items, half %d: chi-square is %.1f, want at most %.1f", items, half, chi, bound)
			}
		}
	}
}

func TestUserWithFewUnseenItemsGetsAllOfThem(t *testing.T) {
	for free, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 1, 7: 3} {
		src := &Set{NumItems: 10 + free, Start: []int{0, 10}, Meta: Info{TimeKind: NoTime}}
		for i := range uint32(10) {
			src.Item = append(src.Item, i)
		}
		var p Part
		mustSplit(t, src, "isolated", 1).User(0, &p)
		if len(p.Candidates[0]) != want || len(p.Candidates[1]) != want {
			t.Errorf("%d free items: ranked against %d and %d, want %d each", free, len(p.Candidates[0]),
				len(p.Candidates[1]), want)
		}
	}
}

// A Part belongs to its caller, and the candidates that a split keeps do not.
func TestPartCanBeReusedAcrossSplits(t *testing.T) {
	kept := mustSplit(t, randomSet(4, 20, 400), "paper", 1)
	lazy := mustSplit(t, mustWorld(t, "users=20,items=600"), "paper", 1)
	all := make([]int, 20)
	for i := range all {
		all[i] = i
	}
	want := candidates(kept, all)
	var p Part
	for u := range 20 {
		kept.User(u, &p)
		lazy.User(u, &p)
	}
	for u, got := range candidates(kept, all) {
		if !slices.Equal(got, want[u]) {
			t.Fatalf("candidates of user %d are now %v, were %v", u, got, want[u])
		}
	}
}

func TestUsersDoNotAllocate(t *testing.T) {
	for name, src := range map[string]Source{
		"in memory": randomSet(5, 20, 400),
		"generated": mustWorld(t, "users=20,items=3000,mean-rows=20"),
	} {
		s := mustSplit(t, src, "isolated", 1)
		var p Part
		u := 0
		ask := func() {
			s.User(u%20, &p)
			s.Hidden(&p)
			u++
		}
		for range 20 {
			ask()
		}
		if n := testing.AllocsPerRun(40, ask); n != 0 {
			t.Errorf("%s: asking for a user allocates %g times, want 0", name, n)
		}
	}
}

func TestLastOutHoldsOutTheNewestRowAndNothingElse(t *testing.T) {
	src := mustWorld(t, "users=20,items=400").Generate()
	s := mustSplit(t, src, "fedrecgel", 1)
	var p Part
	var h History
	for u := range s.Users() {
		s.User(u, &p)
		src.History(u, &h)
		n := len(h.Items) - 1
		if !slices.Equal(p.Train, h.Items[:n]) || p.Test != int64(h.Items[n]) || p.Valid != None || p.Later != nil {
			t.Fatalf("user %d: train %v, validation %d, test %d of %v", u, p.Train, p.Valid, p.Test, h.Items)
		}
		if len(p.Candidates[0]) != 0 || len(p.Candidates[1]) != 99 {
			t.Fatalf("user %d is ranked against %d items in validation and %d in test, want 0 and 99", u,
				len(p.Candidates[0]), len(p.Candidates[1]))
		}
		for _, i := range p.Candidates[1] {
			if slices.Contains(h.Items, i) {
				t.Fatalf("user %d is ranked against item %d, which they have", u, i)
			}
		}
	}
}

// Rows without times are shuffled by the seed: which one is the test depends on it,
// no row is lost, and ratings stay with their items.
func TestWithoutTimesTheTestItemIsAnyRow(t *testing.T) {
	set := &Set{NumItems: 400, Start: []int{0}, Meta: Info{TimeKind: NoTime}}
	const users, rows = 500, 5
	for u := range users {
		for k := range rows {
			set.Item = append(set.Item, uint32((7*u+k)%400))
			set.Value = append(set.Value, float32((7*u+k)%400))
		}
		set.Start = append(set.Start, len(set.Item))
	}
	one, again, two := mustSplit(t, set, "fedrecgel", 1), mustSplit(t, set, "fedrecgel", 1),
		mustSplit(t, set, "fedrecgel", 2)
	var p, q, r Part
	var counts [rows]int
	differ := 0
	for u := range users {
		one.User(u, &p)
		again.User(u, &q)
		two.User(u, &r)
		if p.Test != q.Test || !slices.Equal(p.Train, q.Train) {
			t.Fatalf("user %d: one seed, two splits", u)
		}
		if p.Test != r.Test {
			differ++
		}
		for x, i := range p.Train {
			if p.Rating[x] != float32(i) {
				t.Fatalf("user %d: item %d has the rating of another", u, i)
			}
		}
		all := append(slices.Clone(p.Train), uint32(p.Test))
		slices.Sort(all)
		was := slices.Clone(set.Item[u*rows : (u+1)*rows])
		counts[slices.Index(was, uint32(p.Test))]++
		if slices.Sort(was); !slices.Equal(all, was) {
			t.Fatalf("user %d has %v, want %v", u, all, was)
		}
	}
	// 100 expected each, with a deviation of 9: 55 to 145 fails once in a million.
	for k, n := range counts {
		if n < 55 || n > 145 {
			t.Errorf("row %d of %d is the test of %d users of %d", k, rows, n, users)
		}
	}
	if differ < users/2 {
		t.Errorf("another seed has another test item for %d users of %d only", differ, users)
	}
	const want = `user 0 has 5 rows, but protocol fedrecgel requires 6; add --min-rows 6`
	strict := mustProtocol(t, "fedrecgel")
	strict.MinRows = 6
	if _, err := NewSplit(set, strict, 1); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
