package result

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// ranked is a run whose users have the ranks rank(u).
func ranked(dir string, users int, rank func(u int) int) *Run {
	r := &Run{Dir: dir, Result: &Result{Method: "m", Dataset: "d", DataHash: "h", Protocol: "deployed", Seed: 1}}
	for u := range users {
		r.Users = append(r.Users, User{ID: fmt.Sprint(u), TestRank: rank(u), TestFull: 3 * rank(u)})
	}
	return r
}

func TestBetterRequiresSignificance(t *testing.T) {
	g := rng.New(rng.Test)
	base := ranked("base", 400, func(int) int { return 1 + int(g.Uint32n(40)) })
	same := ranked("same", 400, func(int) int { return 1 + int(g.Uint32n(40)) })
	good := ranked("good", 400, func(u int) int { return max(1, base.Users[u].TestRank-5) })
	cs, err := Compare([]*Run{base, same, good})
	if err != nil {
		t.Fatal(err)
	}
	if len(cs) != 8 {
		t.Fatalf("%d contrasts, want 4 metrics for each of 2 runs", len(cs))
	}
	for _, c := range cs {
		want := "no difference shown"
		if strings.Contains(c.Run, "good") {
			want = "better"
		}
		if c.Verdict != want || c.PHolm < c.P || !(c.Lo <= c.Value-c.Base && c.Value-c.Base <= c.Hi) {
			t.Errorf("%+v: verdict %s, want %s, and the difference within its interval", c, c.Verdict, want)
		}
	}
	hits := 0
	for _, u := range base.Users {
		if u.TestRank <= 10 {
			hits++
		}
	}
	if math.Abs(cs[0].Base-float64(hits)/400) > 1e-12 {
		t.Errorf("HR@10 of the base is %g, want %g", cs[0].Base, float64(hits)/400)
	}
}

// Several held-out items of one user count once, by their mean.
func TestItemsOfAUserArePairedAsOneUser(t *testing.T) {
	queries := func(dir string, rank int) *Run {
		r := ranked(dir, 60, func(u int) int { return 1 + u%3*rank })
		r.Result.Protocol = "privrec"
		for q := range r.Users {
			r.Users[q].ID = fmt.Sprintf("a/b%d/%d", q/3, 1+q%3)
		}
		return r
	}
	cs, err := Compare([]*Run{queries("a", 9), queries("b", 1)})
	if err != nil || len(cs) == 0 {
		t.Fatal(cs, err)
	}
	if c := cs[0]; c.Users != 20 || math.Abs(c.Base-2./3) > 1e-9 || math.Abs(c.Value-1) > 1e-9 {
		t.Errorf("%+v, want 20 users, of whom each hits 2 of 3 and then all", c)
	}
}

func TestRunsThatDoNotMatchAreNotCompared(t *testing.T) {
	one := func(int) int { return 1 }
	for what, change := range map[string]func(r *Run){
		"protocol": func(r *Run) { r.Result.Protocol = "paper" },
		"seeds":    func(r *Run) { r.Result.Seed = 2 },
		"rows":     func(r *Run) { r.Result.DataHash = "x" },
		"users":    func(r *Run) { r.Users = r.Users[1:] },
	} {
		b := ranked("b", 5, one)
		change(b)
		if _, err := Compare([]*Run{ranked("a", 5, one), b}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s differ: error is %v", what, err)
		}
	}
	if _, err := Compare([]*Run{ranked("a", 5, one)}); err == nil {
		t.Error("one run is compared with nothing")
	}
}

// At other list lengths the comparison counts hits by the ranks.
func TestCompareAtOtherListLengths(t *testing.T) {
	base := ranked("base", 200, func(u int) int { return 1 + u%30 })
	other := ranked("other", 200, func(u int) int { return max(1, u%30-2) })
	cs, err := CompareAt([]*Run{base, other}, 5, 20)
	if err != nil || len(cs) != 8 {
		t.Fatal(cs, err)
	}
	for i, k := range []int{5, 20} {
		hits := [2]float64{}
		for r, run := range []*Run{base, other} {
			for _, u := range run.Users {
				if u.TestRank <= k {
					hits[r] += 1. / 200
				}
			}
		}
		c := cs[4*i]
		if c.Metric != fmt.Sprintf("sampled HR@%d", k) || math.Abs(c.Base-hits[0]) > 1e-9 ||
			math.Abs(c.Value-hits[1]) > 1e-9 {
			t.Errorf("%+v, want HR@%d %g and %g", c, k, hits[0], hits[1])
		}
	}
	if cs[7].Metric != "full NDCG@20" {
		t.Errorf("the last metric is %s", cs[7].Metric)
	}
}
