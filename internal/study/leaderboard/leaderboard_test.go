package leaderboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/sweep"
	"github.com/tacit-rec/tacit/methods"
)

// TestMain isolates the tests from the presets and the cache of the current user.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tacit-presets-*")
	if err != nil {
		panic(err)
	}
	os.Setenv("TACIT_PRESETS", dir)
	os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// tiny is a leaderboard on a small synthetic data set.
func tiny(t *testing.T, folder string) Config {
	return Config{
		Sets: []string{"world"}, Protocols: []string{"deployed"}, Only: []string{
			"tacit", "fedmf", "mf", "popularity",
			"ease",
		}, Seeds: 2, Share: 0.25,
		Given: []experiment.Setting{
			{Key: "world", Value: "users=60,items=120,mean-rows=15", From: "test"},
			{Key: "rounds", Value: "5", From: "test"},
		},
		Folder: folder, Jobs: 1, Parallel: 3, Commit: "c0ffee",
	}
}

func open(t *testing.T, c Config) *Board {
	t.Helper()
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestEveryMethodAndReferenceHasCells(t *testing.T) {
	c := tiny(t, t.TempDir())
	c.Only = nil
	a := open(t, c)
	for _, e := range methods.Default().Entries() {
		if !slices.ContainsFunc(a.Cells, func(c *Cell) bool { return c.Method == e.Name && !c.Reference }) {
			t.Errorf("%s has no cell", e.Name)
		}
	}
	for _, name := range reference.Names {
		if !slices.ContainsFunc(a.Cells, func(c *Cell) bool { return c.Method == name && c.Reference }) {
			t.Errorf("reference %s has no cell", name)
		}
	}
	seen := map[string]string{}
	for _, c := range a.Cells {
		if c.Cost <= 0 || math.IsNaN(c.Cost) {
			t.Errorf("%s is estimated to take %g s", c.Name, c.Cost)
		}
		if other := seen[c.file]; other != "" {
			t.Errorf("%s and %s have the same file", c.Name, other)
		}
		seen[c.file] = c.Name
	}
	left := a.Left()
	for i := 1; i < len(left); i++ {
		if left[i].Cost*left[i].Weight < left[i-1].Cost*left[i-1].Weight {
			t.Fatalf("%s comes after %s, which costs more", left[i].Name, left[i-1].Name)
		}
	}
	c.Only = []string{"fedmff"}
	var in *experiment.InputError
	if _, err := New(c); !errors.As(err, &in) || !strings.Contains(err.Error(), `did you mean "fedmf"?`) {
		t.Errorf("an unknown method gives %v", err)
	}
}

func TestALeaderboardIsTheSameForAnyNumberOfParallelCellsAndIsFoundAgain(t *testing.T) {
	var pages [2]string
	for i, parallel := range []int{1, 4} {
		c := tiny(t, t.TempDir())
		c.Parallel = parallel
		var mu sync.Mutex
		ended := 0
		c.OnEnd = func(CellEnded) { mu.Lock(); ended++; mu.Unlock() }
		a := open(t, c)
		if err := a.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ended != len(a.Cells) || len(a.Left()) != 0 {
			t.Errorf("%d of %d cells were reported, %d are left", ended, len(a.Cells), len(a.Left()))
		}
		again := open(t, c)
		if n := len(again.Left()); n != 0 {
			t.Errorf("%d cells are not found again", n)
		}
		b, err := again.Report()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Tables[0].Entries {
			e.Seconds = 0 // times differ between runs
		}
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		pages[i] = string(text)
	}
	if pages[0] != pages[1] {
		t.Errorf("boards differ:\n%s\n%s", pages[0], pages[1])
	}
}

// A cell has the metrics of a run with the same settings, and a row the means of its cells.
func TestARowHasTheMeansOfRunsWithItsSettings(t *testing.T) {
	c := tiny(t, t.TempDir())
	a := open(t, c)
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := a.Report()
	if err != nil {
		t.Fatal(err)
	}
	s := b.Tables[0]
	at := slices.IndexFunc(s.Entries, func(e *result.LeaderboardRow) bool { return e.Method == "fedmf" })
	if at < 0 {
		t.Fatalf("fedmf has no row: %v", s.Missing)
	}
	row, mean, fresh := s.Entries[at], 0.0, 0.0
	for _, share := range []string{"0", "0.25"} {
		for _, seed := range []string{"1", "2"} {
			given, _ := experiment.Assignments([]string{
				"method=fedmf", "data=world",
				"world=users=60,items=120,mean-rows=15", "rounds=5", "eval-every=5", "seed=" + seed, "new-users=" +
					share,
			}, "test")
			spec, err := experiment.Resolve(given)
			if err != nil {
				t.Fatal(err)
			}
			src, err := experiment.OpenData(&spec.Settings, "")
			if err != nil {
				t.Fatal(err)
			}
			res, err := (&experiment.Job{Spec: spec, Source: src, Jobs: 2, NoReferences: true}).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if share == "0" {
				mean += res.Test.Full["ndcg@10"] / 2
				if up := res.Bytes.Up * 5; math.Abs(row.Up-up) > 0.3*up { // the mean of two seeds
					t.Errorf("seed %s: a device sends %g bytes in all, the row says %g", seed, up, row.Up)
				}
			} else {
				fresh += res.NewUsers.Test.Full["ndcg@10"] / 2
			}
		}
	}
	if math.Abs(row.Mean[3]-mean) > 1e-12 || math.Abs(row.NewUsers.Mean[3]-fresh) > 1e-12 {
		t.Errorf("the row has %g, and %g on new users; runs have %g and %g", row.Mean[3], row.NewUsers.Mean[3], mean,
			fresh)
	}
	mf := s.Entries[slices.IndexFunc(s.Entries, func(e *result.LeaderboardRow) bool { return e.Method == "mf" })]
	if !mf.Central || mf.NewUsers == nil || mf.NewUsers.Seeds != 0 || !strings.Contains(mf.NewUsers.How, "not served") {
		t.Errorf("mf on new users is %+v, want it not served", mf.NewUsers)
	}
	if len(s.Missing) != 0 || !s.Entries[len(s.Entries)-1].Reference || s.Entries[0].Reference {
		t.Errorf("missing: %v; references are not last", s.Missing)
	}
}

func TestMissingCellsAreListedWithTheirReason(t *testing.T) {
	c := tiny(t, t.TempDir())
	c.Only = append(c.Only, "nn-self")
	c.Minutes = 1e-9
	a := open(t, c)
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := a.Report()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(b.Tables[0].Missing, "\n")
	for _, c := range a.Cells {
		if c.Result == nil && !strings.Contains(text, c.Method) {
			t.Errorf("%s is neither there nor missing:\n%s", c.Name, text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stopped *experiment.Stopped
	if err := open(t, tiny(t, t.TempDir())).Run(ctx); !errors.As(err, &stopped) {
		t.Errorf("a stopped board gives %v", err)
	}
}

func TestMissingRowsAreGroupedBySeeds(t *testing.T) {
	cell := func(method string, seed uint64, isNew bool) *Cell {
		return &Cell{Method: method, Seed: seed, New: isNew, Job: &sweep.Job[*CellResult]{}}
	}
	got := listed([]*Cell{
		cell("a", 1, false), cell("a", 2, false), cell("a", 1, true), cell("b", 1, false), cell("b", 2, false),
		cell("c", 2, false),
	})
	if want := "seeds 1+2 of a, b; seed 1 on new users of a; seed 2 of c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The time limit stops a cell that is running, and a cell that does not fit into it is not started:
// both are listed in words that users understand.
func TestListsACellThatDoesNotFinishInTime(t *testing.T) {
	c := tiny(t, t.TempDir())
	c.Only, c.Seeds, c.Share, c.Minutes = []string{"pfedrec", "popularity"}, 1, 0, 60
	a := open(t, c)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := a.Cells[0].measure(ctx, a, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cell that is stopped by the limit returns %v", err)
	}
	a.Cells[1].Cost = 3601
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := a.Report()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(b.Tables[0].Missing, "\n")
	if !strings.Contains(text, "not started") || strings.Contains(text, "context") {
		t.Errorf("missing: %s", text)
	}
}

// Inverting EASE's matrix is cubic in the catalogue.
func TestTheCostOfItemMatricesIsEstimated(t *testing.T) {
	seconds := func(items int, method string) float64 {
		c := tiny(t, t.TempDir())
		c.Only, c.Seeds, c.Share = []string{method}, 1, 0
		c.Given = append(c.Given, experiment.Setting{Key: "world", Value: fmt.Sprintf("users=60,items=%d,mean-rows=12",
			items)})
		return open(t, c).Cells[0].Cost
	}
	for _, method := range []string{"ease", "slit"} {
		if a, b := seconds(1000, method), seconds(4000, method); b < 40*a || b < 10 || b > 30 {
			t.Errorf("%s is estimated to take %.2f s on 1000 items and %.2f s on 4000, want some 64 times as long, "+
				"and 10 to 30 s", method, a, b)
		}
	}
}

func TestACellFileOfAnotherCellIsNotTaken(t *testing.T) {
	c := tiny(t, t.TempDir())
	c.Only, c.Seeds, c.Share = []string{"popularity"}, 1, 0
	a := open(t, c)
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := a.Cells[0].file
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{bytes.Replace(b, []byte(a.Cells[0].key()), []byte("other"), 1), []byte("{"), nil} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if open(t, c).Cells[0].Result != nil {
			t.Errorf("%.40q is taken for a cell", bad)
		}
	}
	moved := filepath.Join(t.TempDir(), filepath.Base(file)) // as from another machine
	if err := os.WriteFile(moved, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Folder = filepath.Dir(moved)
	if open(t, c).Cells[0].Result == nil {
		t.Error("a cell that was copied is not found")
	}
}

// The tests against the best are those of package metrics, on the users of all seeds.
func TestRowsAreTestedAgainstTheBestOfEachColumn(t *testing.T) {
	newRow := func(name string, reference bool, seeds map[uint64][]float32) *row {
		e := &row{
			LeaderboardRow: &result.LeaderboardRow{Method: name, Reference: reference},
			each:           map[uint64]*[4][]float32{},
		}
		n := 0.0
		for _, seed := range []uint64{1, 2} {
			if xs := seeds[seed]; xs != nil {
				e.Seeds = append(e.Seeds, seed)
				e.each[seed] = &[4][]float32{xs, xs, xs, xs}
				for _, x := range xs {
					e.Mean[0] += float64(x)
					n++
				}
			}
		}
		e.Mean[0] /= n
		e.Mean = [4]float64{e.Mean[0], e.Mean[0], e.Mean[0], e.Mean[0]}
		return e
	}
	var high, low, same []float32
	for u := range 40 {
		x := float32(u%7) / 10
		high, low, same = append(high, x+0.3), append(low, x), append(same, x+0.3+float32(u%2*2-1)/100)
	}
	best := newRow("best", false, map[uint64][]float32{1: high, 2: high})
	beaten, near := newRow("beaten", false, map[uint64][]float32{1: low}),
		newRow("near", false, map[uint64][]float32{1: same, 2: same})
	above := newRow("above", true, map[uint64][]float32{1: append([]float32(nil), high...)})
	for i := range above.each[1][0] {
		above.each[1][0][i]++
	}
	above.Mean[0]++
	test([]*row{beaten, best, near, above})
	if !best.Best[0] || above.Best[0] || best.P[0] != 1 {
		t.Errorf("the best of the column is %+v; a reference row must not be the best", best.Best)
	}
	d := make([]float64, 40)
	for u := range d {
		d[u] = float64(high[u]) - float64(low[u])
	}
	p := metrics.Wilcoxon(d)
	if beaten.P[0] < p || beaten.P[0] > 12*p || beaten.P[0] >= 0.01 {
		t.Errorf("p of the beaten row is %g, want %g times up to 12 by Holm", beaten.P[0], p)
	}
	if near.P[0] < 0.01 {
		t.Errorf("p of the row that is as good is %g", near.P[0])
	}
}

func TestPackedNumbersComeBack(t *testing.T) {
	want := []float32{0, 1, 0.63092977, float32(math.NaN()), 1e-30}
	text, err := pack(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := unpack(text)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %v", got, err)
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%g came back as %g", want[i], got[i])
		}
	}
	for _, bad := range []string{"!", "AAAA", ""} {
		if _, err := unpack(bad); err == nil {
			t.Errorf("%q is unpacked", bad)
		}
	}
}

// FuzzUnpack checks that files from elsewhere cannot exhaust memory.
func FuzzUnpack(f *testing.F) {
	text, _ := pack([]float32{1, 2, 3})
	f.Add(text)
	f.Fuzz(func(t *testing.T, s string) {
		if xs, err := unpack(s); err == nil && len(xs) > 1<<24 {
			t.Errorf("%d numbers", len(xs))
		}
	})
}
