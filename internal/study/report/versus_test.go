package report

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// versed is a run whose users hit with chance own, and those of the references with
// their chances; a hit gains all.
func versed(seed uint64, users int, own float64, refs map[string]float64) *Run {
	r := made("pfedrec", "paper", seed, 10, users)
	b := &Beside{Of: map[string]*[4][]float32{}}
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
	put(ownKey, own)
	for _, n := range refNames {
		if chance, ok := refs[n.key]; ok {
			put(n.key, chance)
		}
	}
	r.Result.Beside = b
	for k, v := range Against([]*Result{r.Result}) {
		r.Result.References[k].Versus = v
	}
	return r
}

func TestAMethodIsBetterThanAReferenceOnlyWhereTheTestSaysSo(t *testing.T) {
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
	r.Result.Beside = nil // the tests are in the result
	holds(t, everywhere(t, r), true, "no better than popularity")
	for k := range r.Result.References {
		r.Result.References[k].Versus = nil
	}
	holds(t, everywhere(t, r), false, "no better than", "Letters after")
}

func TestAVerdictNeedsTheLevelAndNamesItsMetric(t *testing.T) {
	p := func(d, holm float64) Paired { return Paired{Difference: d, P: holm, PHolm: holm} }
	for _, c := range []struct {
		hr, ndcg Paired
		want     string
	}{
		{p(0.1, 0.0099), p(0.1, 0.0099), "better than %s"},
		{p(0.1, 0.01), p(0.1, 0.02), "no better than %s"},
		{p(-0.1, 0.001), p(-0.1, 0.001), "worse than %s"},
		{p(0.1, 0.001), p(0.1, 0.5), "better than %s by HR@10 alone"},
		{p(-0.1, 0.5), p(0.1, 0.001), "better than %s by NDCG@10 alone"},
		{p(0.1, 0.5), p(-0.1, 0.001), "no better than %s, and worse by NDCG@10"},
		{p(0.1, 0.001), p(-0.1, 0.001), "better than %s by HR@10, worse by NDCG@10"},
		{p(-0.1, 0.001), p(0.1, 0.001), "better than %s by NDCG@10, worse by HR@10"},
	} {
		v := &Versus{Sampled: map[string]Paired{"hr@10": c.hr, "ndcg@10": c.ndcg}}
		if got := v.words(); got != c.want {
			t.Errorf("HR %+v, NDCG %+v: %q, want %q", c.hr, c.ndcg, got, c.want)
		}
	}
}

// Seeds are no new users: each user counts once, by its mean.
func TestSeedsArePairedByTheMeanOfEachUser(t *testing.T) {
	var results []*Result
	var runs []*Run
	want := 0.0
	for seed := uint64(1); seed <= 4; seed++ {
		r := versed(seed, 200, 0.6, map[string]float64{"popularity": 0.4})
		runs, results = append(runs, r), append(results, r.Result)
		want += r.Result.References["popularity"].Versus.Sampled["hr@10"].Difference / 4
	}
	v := Repeat(results).Versus["popularity"]
	if v == nil || v.Users != 200 || math.Abs(v.Sampled["hr@10"].Difference-want) > 1e-6 ||
		v.Verdict != "better than popularity" {
		t.Fatalf("over seeds: %+v, want a difference of %g over 200 users", v, want)
	}
	first := results[0].References["popularity"].Versus.Sampled["hr@10"].P
	if p := v.Sampled["hr@10"].P; p >= first {
		t.Errorf("four seeds give p %g, one alone %g", p, first)
	}
	holds(t, everywhere(t, runs...), true, "better than popularity.")
	results[2].Beside = nil
	if got := Against(results); got != nil {
		t.Errorf("a seed without its users is tested: %v", got)
	}
}

func TestAParityTableSaysWhatItsNumbersAreWorth(t *testing.T) {
	r := versed(1, 600, 0.5, map[string]float64{"popularity": 0.5, "local": 0.2})
	row := ParityRow{
		Method: "pfedrec", Dataset: "d", Protocol: "paper", Seeds: 1, HR: 0.5, NDCG: 0.25, FullHR: nan, FullNDCG: nan,
		HR20:      0.61,
		Published: &Published{HR10: 0.5, NDCG10: 0.25, HR20: 0.6}, References: r.Result.References,
	}
	var text, csv bytes.Buffer
	if err := ParityText(&text, []ParityRow{row}); err != nil {
		t.Fatal(err)
	}
	if err := ParityCSV(&csv, []ParityRow{row}); err != nil {
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
	if err := ParityText(&text, []ParityRow{row}); err != nil || strings.Contains(text.String(), "HR@20") {
		t.Errorf("a table without a published HR@20 has a column for it (%v)", err)
	}
}

func TestUsersBesideTheReferencesAreReadAsWritten(t *testing.T) {
	want := versed(3, 20, 0.5, map[string]float64{"popularity": 0.5, "ease": 0.9}).Result.Beside
	want.Users[0] = "a \"quoted\",\nid"
	var b bytes.Buffer
	if err := WriteBeside(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := readBeside(&b)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := WriteBeside(&again, got); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := WriteBeside(&b, want); err != nil || again.String() != b.String() ||
		!reflect.DeepEqual(got.Users, want.Users) {
		t.Errorf("read\n%s\nwant\n%s", again.String(), b.String())
	}
	for text, want := range map[string]string{
		"":                                  ":1: want a header",
		"user,x\n":                          `column "x" is no metric`,
		"user,method.sampled.hr@10\n1,2\n":  ":2: method.sampled.hr@10 is \"2\", want a fraction",
		"user,method.sampled.hr@10\n1\n":    "wrong number of fields",
		"user,method.sampled.hr@10\n1,.5\n": "has 0 values for 1 users",
	} {
		if _, err := readBeside(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzBeside holds that any file gives an error or users that can be tested.
func FuzzBeside(f *testing.F) {
	var b bytes.Buffer
	if err := WriteBeside(&b, versed(3, 5, 0.5, map[string]float64{"popularity": 0.5}).Result.Beside); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("user,method.sampled.hr@10\n1,\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readBeside(bytes.NewReader(in))
		if err != nil {
			return
		}
		for k, v := range Against([]*Result{{Beside: got}}) {
			if err := v.check(); err != nil {
				t.Errorf("%s: %v", k, err)
			}
		}
	})
}

// A row of one seed beside rows of five does not shift the references.
func TestTheReferencesOfATableAreThoseOfTheMostSeeds(t *testing.T) {
	row := func(method string, seeds, rounds int, hr float64) ParityRow {
		r := ParityRow{
			Method: method, Dataset: "d", Protocol: "deployed", Seeds: seeds, Rounds: rounds, HR: 0.5,
			NDCG: 0.3, FullHR: nan, FullNDCG: nan,
		}
		r.References = map[string]*Reference{
			"popularity": {Test: summary(hr, 0.2, nan, nan)},
			"memoriser":  {Test: summary(hr/2, 0.1, nan, nan)},
		}
		return r
	}
	var b bytes.Buffer
	if err := ParityText(&b, []ParityRow{
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

// A few users who gain much can lift the mean over many who lose a little: the test is
// about the ranks, so it shows neither better nor worse.
func TestNothingIsSaidWhereMeanAndRanksDisagree(t *testing.T) {
	for _, flip := range []float32{1, -1} {
		r := made("pfedrec", "paper", 1, 10, 1000)
		own, ref := new([4][]float32), new([4][]float32)
		x, y := map[string]float64{}, map[string]float64{}
		for u := range 1000 {
			gain := flip
			if u >= 200 {
				gain = -flip / 10
			}
			for m := range own {
				own[m], ref[m] = append(own[m], gain), append(ref[m], 0)
			}
			x[fmt.Sprint(u)], y[fmt.Sprint(u)] = 0, float64(gain)
		}
		b := &Beside{Of: map[string]*[4][]float32{ownKey: own, "popularity": ref}}
		for u := range 1000 {
			b.Users = append(b.Users, fmt.Sprint(u))
		}
		r.Result.Beside = b
		v := Against([]*Result{r.Result})["popularity"]
		hr := v.Sampled["hr@10"]
		if v.Verdict != "mixed against popularity (mean and ranks disagree)" || hr.sign() != 0 || hr.PHolm > 1e-10 ||
			hr.Ranks != -int(flip) {
			t.Errorf("the verdict is %q of %+v", v.Verdict, hr)
		}
		c, err := contrast(x, y)
		if err != nil {
			t.Fatal(err)
		}
		cs := []Contrast{c}
		if adjust(cs); cs[0].Verdict != mixed || cs[0].stars() != " mixed" {
			t.Errorf("the verdict is %q of %+v", cs[0].Verdict, cs[0])
		}
	}
}
