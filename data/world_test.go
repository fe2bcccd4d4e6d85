package data

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func mustWorld(t testing.TB, s string) *World {
	t.Helper()
	cfg, err := ParseWorld(s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWorldsParse(t *testing.T) {
	def := WorldConfig{Users: 600, Items: 800, MeanRows: 60, Seed: 1, Drift: 0.3}
	small := def
	small.Items, small.MeanRows = 90, 30
	for s, want := range map[string]WorldConfig{
		"": def, " ": def, "items=90": small,
		"users=1000,items=500,mean-rows=40,seed=7,drift=0.5": {1000, 500, 40, 7, 0.5},
		" seed = 7 , users=1":                                {1, 800, 60, 7, 0.3},
	} {
		got, err := ParseWorld(s)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", s, got, err, want)
		}
		if back, err := ParseWorld(got.String()); back != got || err != nil {
			t.Errorf("%q comes back as %+v, %v", got.String(), back, err)
		}
	}
}

func TestInvalidWorldsAreRejected(t *testing.T) {
	keys := "expected a key among users, items, mean-rows, seed, drift"
	for s, want := range map[string]string{
		"itms=5":                `found "itms", ` + keys + `; did you mean "items"?`,
		"users=5,":              `found "", ` + keys,
		"qqqqqq":                `found "qqqqqq", ` + keys,
		"users":                 `found "", expected an integer for users`,
		"users=1e3":             `found "1e3", expected an integer for users`,
		"seed=-1":               `found "-1", expected an integer for seed`,
		"drift=x":               `found "x", expected a number for drift`,
		"drift=NaN":             `found "drift=NaN", expected a drift from 0 to 1`,
		"drift=1.5":             `found "drift=1.5", expected a drift from 0 to 1`,
		"users=1,users=2":       `found "users=1,users=2", expected each key once`,
		"users=0":               `found "users=0", expected 1 to 100000000 users`,
		"users=100000001":       `found "users=100000001", expected 1 to 100000000 users`,
		"items=19":              `found "items=19", expected 20 to 10000000 items`,
		"items=10000001":        `found "items=10000001", expected 20 to 10000000 items`,
		"mean-rows=4":           `found "mean-rows=4", expected 5 to 266 rows per user, a third of the items`,
		"items=90,mean-rows=31": `found "mean-rows=31", expected 5 to 30 rows per user, a third of the items`,
	} {
		if _, err := ParseWorld(s); err == nil || err.Error() != "world: "+want {
			t.Errorf("%q:\ngot  %v\nwant world: %s", s, err, want)
		}
	}
	if _, err := NewWorld(WorldConfig{}); err == nil {
		t.Error("a world without users is made")
	}
}

// A change here changes every number measured on a world: raise the number in
// WorldConfig.hash with it. The same constants hold on every platform.
func TestWorldsNeverChange(t *testing.T) {
	for s, want := range map[string]string{
		"":                                      "bf3f33847a4f4d3d 684304",
		"users=50,items=20,seed=7,drift=1":      "bc4731ad401d8e30 932227",
		"users=20,items=5000,mean-rows=200":     "71f987fe79025a84 595169",
		"users=3,items=200001,drift=0.1,seed=9": "feb172f6b67f578f 723131",
	} {
		w := mustWorld(t, s)
		names, _ := json.Marshal([]any{w.info.Title, w.info.Genres})
		sum := 0
		for i, b := range names {
			sum = (sum*31 + int(b) + i) % 1000003
		}
		if got := fmt.Sprintf("%.16s %d", hashOf(w), sum); got != want {
			t.Errorf("%q: rows and titles are %q, want %q", s, got, want)
		}
	}
}

func TestWorldEqualsItsGeneratedSet(t *testing.T) {
	w := mustWorld(t, "users=80,items=120")
	s := w.Generate()
	if s.Meta.Hash != w.Info().Hash || hashOf(s) != hashOf(w) || s.Items() != 120 || s.Users() != 80 {
		t.Error("world and set differ")
	}
	other := mustWorld(t, "users=80,items=120,seed=2")
	if other.Info().Hash == w.Info().Hash || hashOf(other) == hashOf(w) {
		t.Error("worlds with different seeds have the same hash")
	}
	if a, b := Describe(w), Describe(s); !reflect.DeepEqual(a, b) {
		t.Errorf("cards differ:\n%+v\n%+v", a, b)
	}
}

func TestWorldHistoriesAreWellFormed(t *testing.T) {
	for _, cfg := range []string{
		"", "users=200,items=20,seed=3", "users=100,items=60,mean-rows=20,drift=1",
		"users=100,items=100,mean-rows=5",
	} {
		w := mustWorld(t, cfg)
		var h History
		rows := 0
		for u := range w.Users() {
			w.History(u, &h)
			rows += len(h.Items)
			if n := len(h.Items); n < 5 || n > w.Items()/2 || len(h.Times) != n || h.Values != nil {
				t.Fatalf("%q: user %d has %d items, %d times, %d values", cfg, u, n, len(h.Times), len(h.Values))
			}
			seen := map[uint32]bool{}
			for k, i := range h.Items {
				if seen[i] || int(i) >= w.Items() {
					t.Fatalf("%q: user %d sees item %d twice, or an item that does not exist", cfg, u, i)
				}
				seen[i] = true
				if k > 0 && h.Times[k] <= h.Times[k-1] {
					t.Fatalf("%q: user %d: row %d is not after row %d", cfg, u, k, k-1)
				}
				if h.Times[k]-worldStart < int64(w.release[i]) {
					t.Fatalf("%q: user %d sees item %d before its release", cfg, u, i)
				}
			}
			if j := h.Times[0] - worldStart; j < 0 || j >= worldSpan {
				t.Fatalf("%q: user %d joins %d s after the start", cfg, u, j)
			}
		}
		mean, want := float64(rows)/float64(w.Users()), float64(w.cfg.MeanRows)
		// The standard error is below 6% with 100 users, and half of the items cut the mean.
		if mean < 0.75*want || mean > 1.2*want {
			t.Errorf("%q: mean rows are %.1f, want about %.0f", cfg, mean, want)
		}
	}
}

func TestUsersCanBeReadInAnyOrderConcurrently(t *testing.T) {
	w := mustWorld(t, "users=60")
	s := w.Generate()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var h, want History
			for k := range 60 {
				u := (k*7 + g*13) % 60
				s.History(u, &h) // leaves slices of the set in h, which must not be written to
				w.History(u, &h)
				s.History(u, &want)
				if !slices.Equal(h.Items, want.Items) || !slices.Equal(h.Times, want.Times) {
					t.Errorf("user %d differs", u)
				}
			}
		})
	}
	wg.Wait()
	if hashOf(s) != hashOf(w) {
		t.Error("a world wrote to the rows of a set")
	}
}

func TestWorldHistoryDoesNotAllocate(t *testing.T) {
	w := mustWorld(t, "users=50")
	var h History
	all := func() {
		for u := range 50 {
			w.History(u, &h)
		}
	}
	all()
	if n := testing.AllocsPerRun(5, all); n > 0 {
		t.Errorf("50 users allocate %v times, want 0", n)
	}
}

func TestADrawEndsWhenThePopularFilmsAreUsedUp(t *testing.T) {
	w := mustWorld(t, "items=20,users=1")
	for i := range w.cut {
		w.cut[i], w.alt[i] = 0, 7 // popular draws nothing but film 7
	}
	r := rng.New(1, rng.Test)
	seen := []uint64{1<<20 - 1 - 1<<5}
	if i := w.draw(&r, &w.item[0], 0, seen); i != 5 {
		t.Errorf("drew film %d, want 5, the only one not seen", i)
	}
}

func TestAnUnknownUserPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("user 600 of 600 is generated")
		}
	}()
	mustWorld(t, "").History(600, new(History))
}

func TestTitlesReadWellAndAreUnique(t *testing.T) {
	w := mustWorld(t, "items=20000,users=1")
	seen := map[string]bool{}
	for i, s := range w.Info().Title {
		if seen[s] {
			t.Fatalf("two films are called %q", s)
		}
		seen[s] = true
		if !strings.HasSuffix(s, ")") || strings.ContainsAny(s, "%{}") || strings.Contains(s, "  ") || len(s) < 8 ||
			len(s) > 60 {
			t.Fatalf("film %d is called %q", i, s)
		}
		if g := w.Info().Genres[i]; len(g) < 1 || len(g) > 2 {
			t.Fatalf("film %d has genres %q", i, g)
		}
	}
	if w := mustWorld(t, fmt.Sprintf("items=%d,users=1", maxTitled+1)); w.Info().Title != nil ||
		w.Info().ItemName(7) != "item 7" {
		t.Error("a huge catalogue has titles")
	}
}

func TestExpIsExp(t *testing.T) {
	r := rng.New(1, rng.Test)
	for range 10000 {
		x := 60*r.Float64() - 30
		if got, want := exp(x), math.Exp(x); math.Abs(got/want-1) > 1e-15 {
			t.Fatalf("exp(%v) is %v, want %v", x, got, want)
		}
	}
}

func TestAliasTableHasThePopularitiesOfTheLaw(t *testing.T) {
	w := mustWorld(t, "items=50,users=1")
	p := make([]float64, 50)
	for i := range p {
		c := (float64(w.cut[i]) + 0.5) / 0x1p32
		p[i] += c
		p[w.alt[i]] += 1 - c
	}
	slices.Sort(p)
	slices.Reverse(p)
	for k := range p {
		want := math.Pow((1+50*zipfShare)/(1+50*zipfShare+float64(k)), zipfPower)
		if got := p[k] / p[0]; math.Abs(got-want) > 1e-6 {
			t.Errorf("place %d has %.7f of the first, want %.7f", k, got, want)
		}
	}
}
