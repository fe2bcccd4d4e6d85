package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// versed is a run whose users have a hit with probability own; refs has the probabilities of the references.
func versed(seed uint64, users int, own float64, refs map[string]float64) *result.Run {
	r := resulttest.Run("pfedrec", "paper", seed, 10, users)
	b := &result.UserScores{Of: map[string]*[4][]float32{}}
	for u := range users {
		b.Users = append(b.Users, fmt.Sprint(u))
	}
	g := rng.New(rng.Test, seed)
	put := func(name string, chance float64) {
		nan := float32(math.NaN())
		var c [4][]float32
		for range users {
			hit := float32(0)
			if float64(g.Uint32n(1000)) < 1000*chance {
				hit = 1
			}
			c[0], c[1], c[2], c[3] = append(c[0], hit), append(c[1], hit/2), append(c[2], nan), append(c[3], nan)
		}
		b.Of[name] = &c
	}
	put("method", own)
	for _, n := range result.ReferenceNames {
		if chance, ok := refs[n.Key]; ok {
			put(n.Key, chance)
		}
	}
	r.Result.UserScores = b
	for k, v := range result.VersusReferences([]*result.Result{r.Result}) {
		r.Result.References[k].Versus = v
	}
	return r
}

func TestBetterThanReferenceRequiresSignificance(t *testing.T) {
	r := versed(1, 600, 0.5, map[string]float64{"popularity": 0.5, "ease": 0.9, "local": 0.2})
	for key, want := range map[string]string{
		"popularity": "no better than popularity", "ease": "worse than EASE",
		"local": "better than local-only",
	} {
		if v := r.Result.References[key].Versus; v.Verdict != want || v.Users != 600 || v.Full != nil {
			t.Errorf("against %s: %+v, want %q over 600 users", key, v, want)
		}
	}
	if v := r.Result.References["memoriser"].Versus; v != nil {
		t.Errorf("a reference without users is tested: %+v", v)
	}
	all := everywhere(t, r)
	holds(t, all, true, "no better than popularity; worse than EASE; better than local-only.", ".7139 l", ".4342 l",
		"Letters after a number",
		"(p popularity, e EASE, l local-only)", "a paired Wilcoxon test over users", "0.01 after Holm")
	r.Result.UserScores = nil // the tests are in the result
	holds(t, everywhere(t, r), true, "no better than popularity")
	for k := range r.Result.References {
		r.Result.References[k].Versus = nil
	}
	holds(t, everywhere(t, r), false, "no better than", "Letters after")
}

// Seeds are no new users: each user counts once, by its mean.
func TestSeedsArePairedByTheMeanOfEachUser(t *testing.T) {
	var results []*result.Result
	var runs []*result.Run
	want := 0.0
	for seed := uint64(1); seed <= 4; seed++ {
		r := versed(seed, 200, 0.6, map[string]float64{"popularity": 0.4})
		runs, results = append(runs, r), append(results, r.Result)
		want += r.Result.References["popularity"].Versus.Sampled["hr@10"].Difference / 4
	}
	v := result.CombineSeeds(results).Versus["popularity"]
	if v == nil || v.Users != 200 || math.Abs(v.Sampled["hr@10"].Difference-want) > 1e-6 ||
		v.Verdict != "better than popularity" {
		t.Fatalf("over seeds: %+v, want a difference of %g over 200 users", v, want)
	}
	first := results[0].References["popularity"].Versus.Sampled["hr@10"].P
	if p := v.Sampled["hr@10"].P; p >= first {
		t.Errorf("four seeds give p %g, one alone %g", p, first)
	}
	holds(t, everywhere(t, runs...), true, "better than popularity.")
	results[2].UserScores = nil
	if got := result.VersusReferences(results); got != nil {
		t.Errorf("a seed without its users is tested: %v", got)
	}
}

func TestParityTableComparesWithPopularity(t *testing.T) {
	r := versed(1, 600, 0.5, map[string]float64{"popularity": 0.5, "local": 0.2})
	row := result.ParityRow{
		Method: "pfedrec", Dataset: "d", Protocol: "paper", Seeds: 1, HR: 0.5, NDCG: 0.25, FullHR: nan, FullNDCG: nan,
		HR20:      0.61,
		Published: &result.Published{HR10: 0.5, NDCG10: 0.25, HR20: 0.6}, References: r.Result.References,
	}
	var text, csv bytes.Buffer
	if err := ParityText(&text, []result.ParityRow{row}); err != nil {
		t.Fatal(err)
	}
	if err := ParityCSV(&csv, []result.ParityRow{row}); err != nil {
		t.Fatal(err)
	}
	s := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"within 1.5 points; no better than popularity", "HR@20 / published", ".6100 / .6000",
		"pfedrec: no better than popularity; better than local-only.", ".5000 l",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	if !strings.Contains(csv.String(), "no better than popularity") {
		t.Errorf("the CSV has no verdict:\n%s", csv.String())
	}
	row.Published.HR20 = 0
	text.Reset()
	if err := ParityText(&text, []result.ParityRow{row}); err != nil || strings.Contains(text.String(), "HR@20") {
		t.Errorf("a table without a published HR@20 has a column for it (%v)", err)
	}
}

// A row with one seed next to rows with five does not change the references.
func TestReferencesOfATableUseTheMostSeeds(t *testing.T) {
	row := func(method string, seeds, rounds int, hr float64) result.ParityRow {
		r := result.ParityRow{
			Method: method, Dataset: "d", Protocol: "deployed", Seeds: seeds, Rounds: rounds, HR: 0.5,
			NDCG: 0.3, FullHR: nan, FullNDCG: nan,
		}
		r.References = map[string]*result.Reference{
			"popularity": {Test: resulttest.Summary(hr, 0.2, nan, nan)},
			"memoriser":  {Test: resulttest.Summary(hr/2, 0.1, nan, nan)},
		}
		return r
	}
	var b bytes.Buffer
	if err := ParityText(&b, []result.ParityRow{
		row("a", 5, 100, 0.40), row("b", 1, 100, 0.44),
		row("c", 1, 40, 0.48),
	}); err != nil {
		t.Fatal(err)
	}
	s := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"popularity .4000", "memoriser (100 rounds) .2000", "memoriser (40 rounds) .2400"} {
		if !strings.Contains(s, want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}
