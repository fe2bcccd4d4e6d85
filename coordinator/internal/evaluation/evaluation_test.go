package evaluation

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
)

func open(t *testing.T, dir string) (*Log, *store.Store) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(st)
	if err != nil {
		t.Fatal(err)
	}
	return l, st
}

func TestResultsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	l, st := open(t, dir)
	for round := range maxResults + 5 {
		if round == 0 || round > maxResults {
			if err := l.Add(Result{Round: round + 1}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		l.results = append(l.results, Result{Round: round + 1})
	}
	if err := l.SetCounted(); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	l, st = open(t, dir)
	defer st.Close()
	all := l.Results()
	if len(all) != maxResults || all[maxResults-1].Round != maxResults+5 || !l.Counted() {
		t.Errorf("%d results, counted %v", len(all), l.Counted())
	}
}

func TestAnInterruptedEvaluationIsReported(t *testing.T) {
	for name, x := range map[string]struct {
		ended  bool
		result int
		round  int
		missed bool
	}{
		"interrupted":                     {round: 3, missed: true},
		"its model was not published":     {round: 2},
		"its result is on disk":           {round: 3, result: 3},
		"an older result is on disk":      {round: 3, result: 2, missed: true},
		"it ended":                        {ended: true, round: 3},
		"a later round was trained since": {round: 5, missed: true},
	} {
		dir := t.TempDir()
		l, st := open(t, dir)
		if err := l.Begin(3); err != nil {
			t.Fatal(err)
		}
		if x.ended {
			if err := l.End(); err != nil {
				t.Fatal(err)
			}
		}
		if x.result > 0 {
			if err := l.Add(Result{Round: x.result}); err != nil {
				t.Fatal(err)
			}
		}
		st.Close()
		l, st = open(t, dir)
		l.NoteInterrupted(x.round)
		if got := l.Missed() != ""; got != x.missed {
			t.Errorf("%s: missed is %q", name, l.Missed())
		}
		st.Close()
	}
}

// For any number of devices, the masked sum does not overflow, and a device's numbers are within
// the bound.
func TestSumsOfAllDevicesFit(t *testing.T) {
	for _, n := range []int{1, 10, 2047, 2048, 5000, 1 << 20, 1 << 24} {
		b, whole := Bound(n)
		if int64(n)*whole > math.MaxInt32 || whole < 1 {
			t.Errorf("%d devices with integers up to %d", n, whole)
		}
		v := make([]int64, metrics.EvaluationLength)
		row := make([]float32, metrics.EvaluationLength)
		for i := range row {
			row[i] = 1
		}
		b.Encode(&privacy.Delta{Rows: [][]float32{row}, At: []int{0}, BitAt: -1}, v)
		for _, x := range v {
			if x != whole {
				t.Errorf("%d devices: 1 is %d of %d", n, x, whole)
			}
		}
	}
}

func TestRareItemsAreNotPopular(t *testing.T) {
	if got := Popular([]int32{2, 3, 9, 0, 3}); !slices.Equal(got, []uint32{2, 1, 4}) {
		t.Errorf("popular items are %v", got)
	}
}

func TestMetricsAreShares(t *testing.T) {
	r := NewResult([]float64{40, 20, 10, 40, 8, 4}, 40, 2, true)
	if r.HR10 != 0.5 || r.NDCG10 != 0.25 || r.PopHR10 != 0.2 || r.PopNDCG10 != 0.1 || r.Share != 0.05 {
		t.Errorf("%+v", r)
	}
	if r := NewResult(make([]float64, 6), -3, 2, false); r.HR10 != 0 || r.Share != 2 {
		t.Errorf("no devices: %+v", r)
	}
}
