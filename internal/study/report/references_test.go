package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// everywhere is what text, Markdown and HTML say about runs, with single spaces.
func everywhere(t *testing.T, runs ...*result.Run) map[string]string {
	t.Helper()
	var text, md, page bytes.Buffer
	m := new(result.Repeated)
	for _, r := range runs {
		m.Runs = append(m.Runs, r.Result)
	}
	for _, err := range []error{SeedsText(&text, m), Markdown(&md, runs), HTML(&page, runs)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	one := func(b bytes.Buffer) string { return strings.Join(strings.Fields(b.String()), " ") }
	return map[string]string{"text": one(text), "Markdown": one(md), "HTML": one(page)}
}

func holds(t *testing.T, all map[string]string, want bool, words ...string) {
	t.Helper()
	for where, s := range all {
		for _, w := range words {
			if strings.Contains(s, w) != want {
				t.Errorf("%s holds %q: %t, want %t", where, w, !want, want)
			}
		}
	}
}

func TestLocalOnlyIsOneRowForAllMethods(t *testing.T) {
	g := groups(append(resulttest.Seeds("pfedrec", "paper", 3), resulttest.Seeds("fedrap", "paper", 3)...))[0]
	var names []string
	for _, r := range referenceRows(g.rows) {
		names = append(names, r.name)
		if r.name == "local-only" && r.scores[0].N != 3 {
			t.Errorf("local-only is over %d values, want one for each of 3 seeds", r.scores[0].N)
		}
	}
	if got, want := strings.Join(names, ","), "popularity,EASE,local-only,memoriser"; got != want {
		t.Errorf("references are %s, want %s", got, want)
	}
}

func TestMemoriserIsNotAveragedOverRounds(t *testing.T) {
	var runs []*result.Run
	for seed := uint64(1); seed <= 2; seed++ {
		for rounds, hr := range map[int]float64{20: 0.5, 30: 0.7} {
			r := resulttest.Run("pfedrec", "paper", seed, rounds, 10)
			r.Result.References["memoriser"].Test = resulttest.Summary(hr, 0.4, nan, nan)
			runs = append(runs, r)
		}
	}
	g := groups(runs)[0]
	got := map[string]string{}
	for _, r := range referenceRows(g.rows) {
		got[r.name] = r.scores[0].String()
	}
	if len(got) != 5 || got["memoriser (20 rounds)"] != ".5000" || got["memoriser (30 rounds)"] != ".7000" {
		t.Errorf("references are %v, want a memoriser of .5000 after 20 rounds and one of .7000 after 30", got)
	}
	if s := leakNote(g, g.rows); !strings.Contains(s, ".5000 (20 rounds)") ||
		!strings.Contains(s, ".7000 (30 rounds)") {
		t.Errorf("the leak is told as %q", s)
	}
}

func TestRunsWithoutReferencesShowNone(t *testing.T) {
	for _, none := range []map[string]*result.Reference{nil, {}} {
		r := resulttest.Run("pfedrec", "deployed", 1, 10, 10)
		r.Result.References, r.Result.LeakMeasured = none, nil
		holds(t, everywhere(t, r), false, "popularity", "EASE", "local-only", "memoriser", "not computed",
			"Comparison with the references")
	}
}

func TestNumberOfTestedUsersIsShown(t *testing.T) {
	r := resulttest.Run("pfedrec", "deployed", 1, 10, 943)
	holds(t, everywhere(t, r), false, "Tested on", "measured on")
	r.Result.Test.Sampled["users"], r.Result.Valid.Sampled["users"] = 69, 81
	for _, ref := range r.Result.References {
		ref.Test.Sampled["users"] = 69
	}
	r.Result.References["local"].Test.Sampled["users"] = 2000
	all := everywhere(t, r)
	holds(t, all, true, "Tested on 69 of 943 users (81 in validation).", "local-only: measured on 2,000 users.")
	holds(t, all, false, "EASE: measured")
}

func TestCaveatsAreShown(t *testing.T) {
	r := resulttest.Run("pfedrec", "deployed", 1, 10, 943)
	holds(t, everywhere(t, r), false, "--dedup", "fewer than 99", "no training data", "repeats pairs")
	r.Result.TestItemsInTrain, r.Result.FewCandidates, r.Result.IdleDevices = 9, 1, 2
	all := everywhere(t, r)
	holds(t, all, true,
		"For 9 of 943 users the test item is also among the train rows, because the data repeats pairs of user and "+
			"item. This rewards models that memorise. --dedup first keeps one row of each pair.",
		"1 user is ranked against fewer than 99 items.", "2 devices have no training data under this protocol.")
	holds(t, all, false, "but the data repeats")
	r.Result.DataSettings = map[string]any{"test-file": "test.csv"}
	holds(t, everywhere(t, r), true, "Remove these rows from one of the files: --dedup works within a file.")
	holds(t, everywhere(t, r), true, "the memoriser is close to chance")
	r.Result.TestItemsInTrain = 10 // more than 1%
	all = everywhere(t, r)
	holds(t, all, true, "does not leak, but the data repeats pairs", "train rows and exceeds chance")
	holds(t, all, false, "close to chance", "at chance level")
}

func TestCaveatsNameTheirRowsUnlessAllShareThem(t *testing.T) {
	a, b := resulttest.Run("pfedrec", "deployed", 1, 10, 943), resulttest.Run("fedrap", "deployed", 1, 10, 943)
	a.Result.FewCandidates, b.Result.FewCandidates, b.Result.IdleDevices = 3, 3, 4
	got := strings.Join(sharedCaveats(groups([]*result.Run{a, b})[0].rows), "\n")
	want := "3 users are ranked against fewer than 99 items.\nfedrap: 4 devices have no training data under this " +
		"protocol."
	if got != want {
		t.Errorf("caveats are\n%s\nwant\n%s", got, want)
	}
}

func TestOneOfSeveralSeedsGetsNoVerdict(t *testing.T) {
	runs := resulttest.Seeds("pfedrec", "paper", 3)
	var b bytes.Buffer
	if err := HTML(&b, runs); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "the verdict is based on the mean over all 3 seeds"); n != 3 {
		t.Errorf("%d sections leave the verdict to the mean, want 3", n)
	}
}
