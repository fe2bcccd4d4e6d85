package main

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/privacycost"
	"github.com/tacit-rec/tacit/privacy"
)

func TestSpendPrintsConditionsOfEpsilon(t *testing.T) {
	words := strings.Fields("privacy spend --sampler poisson -q 0.01 --noise 1 --rounds 1000 --delta 1e-5")
	_, out, _ := tacit(words...)
	for _, want := range []string{
		"epsilon 2.10137 at delta 1e-05", "zero-out", "poisson", "1000", "rate q      0.01",
		"rdp", "improved", "7.8", "over the zero-out L2 sensitivity",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the text lacks %q:\n%s", want, out)
		}
	}
	code, out, _ := tacit(append(words, "--format", "json")...)
	data := decode(t, out)["data"].(map[string]any)
	if code != 0 || math.Abs(data["epsilon"].(float64)-2.1013652716) > 1e-9 || data["order"] != 7.8 {
		t.Errorf("exit %d, epsilon %v at order %v", code, data["epsilon"], data["order"])
	}
	for _, key := range strings.Fields("delta accountant conversion adjacency sampler mechanism rounds q noise " +
		"noise_means theorem") {
		if _, ok := data[key]; !ok {
			t.Errorf("data has no %q", key)
		}
	}
}

func TestSpendUnderOtherBounds(t *testing.T) {
	for _, c := range []struct {
		words      string
		want       float64
		accountant string
	}{
		{"--sampler wor -q 0.00625 --noise 1 --rounds 30000 --delta 1e-8 --conversion classic --theorem 9 --orders " +
			"2-256", 18.9107735, "rdp"},
		{"--sampler wor --adjacency replace-one -q 0.00625 --noise 1 --rounds 1000 --delta 1e-8 --conversion " +
			"classic --theorem 9 --orders 2-256", 3.4140346, "rdp"},
		{
			"--sampler none --adjacency replace-one --noise 1 --rounds 1 --delta 1e-5 --accountant pld", 4.3771781,
			"exact",
		},
		{
			"--sampler none --adjacency add-remove --noise 10 --rounds 100 --delta 1e-5 --accountant pld", 4.3771781,
			"exact",
		},
		{"--sampler poisson --adjacency add-remove -q 0 --noise 0 --rounds 1000000000", 0, "rdp"},
	} {
		code, out, errs := tacit(append(strings.Fields("privacy spend --format json "+c.words), "--quiet")...)
		if code != 0 {
			t.Errorf("%s: exit %d: %s%s", c.words, code, out, errs)
			continue
		}
		data := decode(t, out)["data"].(map[string]any)
		if math.Abs(data["epsilon"].(float64)-c.want) > 1e-6 || data["accountant"] != c.accountant {
			t.Errorf("%s: epsilon %v by %v, want %v by %s", c.words, data["epsilon"], data["accountant"], c.want,
				c.accountant)
		}
	}
	_, out, _ := tacit(strings.Fields("privacy spend --format json --sampler poisson -q 0.1 --noise 0 --rounds 1")...)
	if data := decode(t, out)["data"].(map[string]any); data["epsilon"] != "inf" || data["order"] != nil {
		t.Errorf("without noise: epsilon %v at order %v, want inf and null", data["epsilon"], data["order"])
	}
	_, out, _ = tacit(strings.Fields("privacy spend --sampler poisson -q 0.001 --noise 2 --rounds 10 --orders 2-8")...)
	if !strings.Contains(out, "warning: the best order is the highest one, 8") {
		t.Errorf("no warning about an optimum at the end of the range:\n%s", out)
	}
}

func TestSpendRejectsUnprovenCombinations(t *testing.T) {
	for _, c := range []struct{ words, want, hint string }{
		{"--sampler wor --adjacency zero-out -q 0.1 --noise 1 --rounds 1", "use adjacency replace-one", "--help"},
		{"--sampler poisson --adjacency replace-one -q 0.1 --noise 1 --rounds 1", "use adjacency zero-out", "--help"},
		{"--sampler wor -q 0.1 --noise 1 --rounds 1 --accountant pld", "use accountant rdp", "--help"},
		{"--sampler none -q 0.1 --noise 1 --rounds 1", "name the sampler", "--help"},
		{"--sampler some -q 0.1 --noise 1 --rounds 1", "must be poisson, wor or none", "--help"},
		{"--sampler poisson --noise 1 --rounds 1", "-q is missing", "--sampler none"},
		{"--sampler poisson -q 0.1 --rounds 1", "--noise is missing", "example:"},
		{"--sampler poisson -q 1.5 --noise 1 --rounds 1", "must be 0 to 1", ""},
		{"--sampler poisson -q NaN --noise 1 --rounds 1", "must be 0 to 1", ""},
		{"--sampler poisson -q 0.1 --noise -1 --rounds 1", "noise=-1", ""},
		{"--sampler poisson -q 0.1 --noise 1 --rounds -5", "rounds=-5", ""},
		{"--sampler poisson -q 0.1 --noise 1 --rounds 1 --delta 2", "delta=2", ""},
		{"--sampler poisson -q 0.1 --noise 1 --rounds 1 --orders 1-8", "an order above 1", "2-256"},
		{"--sampler poisson -q 0.1 --noise 1 --rounds 1 --orders 8-2", "an order above 1", "2-256"},
		{"--sampler poisson -q 0.1 --noise 1 --rounds 1 --accountant guess", "must be rdp or pld", ""},
		{"--sampler poisson -q 0.1 --noise 1 --rounds 1 --conversion best", "must be improved or classic", ""},
		{"--sampler wor -q 0.1 --noise 1 --rounds 1 --theorem 8", "must be 9 or 27", ""},
	} {
		code, _, errs := tacit(strings.Fields("privacy spend " + c.words)...)
		if code != 2 || !strings.Contains(errs, c.want) || !strings.Contains(errs, c.hint) {
			t.Errorf("%s: exit %d, want 2; it says %q, want %q and %q in it", c.words, code, errs, c.want, c.hint)
		}
	}
}

func TestTablesShowPaperAndCorrectEpsilons(t *testing.T) {
	cells, err := paperCells()
	if err != nil || len(cells) != 36 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	for _, c := range cells {
		if got := math.Floor(c.Recomputed*1e4) / 1e4; math.Abs(got-c.Paper) > 1e-9 {
			t.Errorf("%s M %d delta %g: %.6f, the paper prints %.4f", c.Data, c.Cohort, c.Delta, c.Recomputed, c.Paper)
		}
		if c.Right >= c.Recomputed || c.Improved >= c.Right {
			t.Errorf("%s M %d delta %g: %g, %g, %g do not fall", c.Data, c.Cohort, c.Delta, c.Recomputed, c.Right,
				c.Improved)
		}
	}
	_, out, _ := tacit("privacy", "tables")
	if !strings.Contains(out, "18.9107") || !strings.Contains(out, "3.4140") || !strings.Contains(out, "replace-one") {
		t.Errorf("the tables lack a cell or what it holds for:\n%s", out)
	}
}

func TestListsPrivacyKeys(t *testing.T) {
	_, out, _ := tacit("privacy", "keys")
	out = strings.Join(strings.Fields(out), " ")
	for _, k := range privacy.Keys() {
		if !strings.Contains(out, k.Name) || !strings.Contains(out, k.About) {
			t.Errorf("%s is not listed:\n%s", k.Name, out)
		}
	}
	if !strings.Contains(out, "1e-06") || !strings.Contains(out, "central, distributed, local") {
		t.Errorf("defaults or choices are not listed:\n%s", out)
	}
	_, help, _ := tacit("run", "--help")
	if !strings.Contains(help, "privacy keys") {
		t.Error("tacit run --help does not say where the keys are")
	}
}

func TestPlanComputesNoiseAndAlternatives(t *testing.T) {
	code, out, errs := tacit(strings.Fields("privacy plan --target-epsilon 8 --users 100000 --cohort 1000 --rounds " +
		"50 --format json")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	data := decode(t, out)["data"].(map[string]any)
	chosen := data["chosen"].(map[string]any)
	if chosen["adjacency"] != "replace-one" || chosen["sampler"] != "wor" || chosen["q"] != 0.01 ||
		at(data, "chosen", "noise") <= 0 {
		t.Errorf("the plan is %v", chosen)
	}
	least := map[string]float64{}
	for _, o := range data["others"].([]any) {
		o := o.(map[string]any)
		least[o["name"].(string)], _ = o["noise_in_model"].(float64)
	}
	lot, pld, own := least["Poisson sampling, zero-out"], least["Poisson sampling, PLD accountant"],
		least["local noise on each device"]
	if !(0 < pld && pld <= lot && lot < at(data, "chosen", "noise_in_model") && 10*lot < own) ||
		least["cyclic cohorts, tree noise (DP-FTRL)"] == 0 {
		t.Errorf("the other ways are %v", least)
	}
	if !strings.Contains(errs, "computing the noise of") {
		t.Errorf("no progress is printed: %q", errs)
	}
}

func TestQuickPlanRuns(t *testing.T) {
	code, out, errs := tacit("privacy", "plan", "--target-epsilon", "8", "--cohort", "all", "--rounds", "2", "-m",
		"fedmf", "-d", "world", "--quick", "dim=2", "world="+small)
	if code != 0 || !strings.Contains(out, "a run of this plan, on validation items") ||
		!strings.Contains(out, "--dp epsilon=8 dim=2") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestPlanNamesSimilarRun(t *testing.T) {
	rows, err := privacycost.Rows()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range rows {
		if m.Budget != "8" {
			continue
		}
		_, out, _ := tacit("privacy", "plan", "--target-epsilon", "8", "--users", strconv.Itoa(m.Users), "--rounds",
			"5")
		if !strings.Contains(out, "by a similar run in docs/privacy.md with other settings") ||
			!strings.Contains(out, "seed 1") || !strings.Contains(out, "central trust, epsilon ") {
			t.Errorf("no row is named:\n%s", out)
		}
		return
	}
	t.Skip("nothing was measured yet")
}

func TestPlanUsesRoundsAndCohortOfMethod(t *testing.T) {
	spec, err := experiment.Resolve([]experiment.Setting{
		{Key: "method", Value: "dp-privrec"},
		{Key: "data", Value: "world"},
	})
	if err != nil {
		t.Fatal(err)
	}
	who, _ := spec.Cohort.MarshalText()
	for words, want := range map[string]string{
		"":                                fmt.Sprintf("%d rounds, cohort %s:", spec.Rounds, who),
		"--rounds 3 --cohort poisson:0.5": "3 rounds, cohort poisson:0.5:",
	} {
		line := "privacy plan --target-epsilon 8 -m dp-privrec -d world world=users=200,items=40,mean-rows=8,seed=1 " +
			"dim=2 layers=4 " + words
		code, out, errs := tacit(strings.Fields(line)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, want %q in\n%s%s", words, code, want, out, errs)
		}
	}
}

func TestRejectsInvalidPlans(t *testing.T) {
	for _, c := range [][2]string{
		{"--users 100 --rounds 5", "--target-epsilon is missing"},
		{"--target-epsilon 8 --rounds 5", "--users is missing"},
		{"--target-epsilon 8 --rounds 5 --users 9 --quick", "--quick needs a method"},
		{"--target-epsilon 8 --rounds 5 --users 9 -m fedmf", "-m and -d must be given together"},
		{"--target-epsilon 8 --rounds 5 --users 9 --cohort some", "--cohort some"},
		{"--target-epsilon 8 --rounds 5 --users 900 --mechanism tree --cohort 10", "cohort=cycle"},
		{"--target-epsilon 8 --rounds 5 --users 900 --delta 0.1", "delta=0.1"},
		{"--target-epsilon 8 --rounds 5 --users 900 --mechanism laplace", "trust=local"},
		{"--target-epsilon 8 --rounds 5 -m local -d world --world-is-none", "unknown flag"},
		{
			"--target-epsilon 8 --rounds 5 -m mf -d world world=users=20,items=30,mean-rows=8,seed=1",
			"devices send nothing",
		},
		{
			"--target-epsilon 8 --rounds 5 --users 20 -m fedmf -d world world=users=20,items=30,seed=1",
			"the data set has its own users",
		},
		{"--target-epsilon 8 --rounds 5 -m privrec -d world --quick protocol=privrec", "protocol privrec has none"},
		{"--target-epsilon 8 -m fedmf -d world cohort=poisson:0.1", "use --cohort"},
		{"--target-epsilon 8 -m fedmf -d world rounds=5", "use --rounds"},
		{"--target-epsilon 8 -m fedmf -d world dp=epsilon=3", "use --target-epsilon"},
		{"--target-epsilon 8 --users 100", "--rounds is missing"},
	} {
		words, want := c[0], c[1]
		code, _, errs := tacit(append([]string{"privacy", "plan"}, strings.Fields(words)...)...)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, it says %q, want %q in it", words, code, errs, want)
		}
	}
}

// A run prints its guarantee before it trains, and the budget spent while it does.
func TestRunPrintsPrivacyGuarantee(t *testing.T) {
	words := strings.Fields("run -m fedmf -d world --world users=80,items=300,mean-rows=20 --cohort poisson:0.2 " +
		"--rounds 12 --eval-every 3 --dp noise=1,epsilon=6,clip=0.5 --no-references")
	code, out, errs := tacit(words...)
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{
		"epsilon at most 6 at delta 1e-06, adjacency zero-out, trust central; protects from all readers of models; " +
			"the coordinator is trusted",
		"all 12 rounds would cost", "gauss noise of 1 times the sensitivity; updates clipped to 0.5; sampler " +
			"poisson with q 0.2; 12 rounds",
		"stages: clip, quantise, cover on the device; sum, noise, divide at the coordinator",
		"would exceed the privacy budget: stopped after round",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("the card lacks %q:\n%s", want, errs)
		}
	}
	if strings.Index(errs, "epsilon at most") > strings.Index(errs, "round 1/12") &&
		strings.Contains(errs, "round 1/12") {
		t.Error("the guarantee is printed after the first round")
	}
	if strings.Contains(out, "selected on validation") || !strings.Contains(strings.Join(strings.Fields(out), " "),
		"would release information") ||
		!strings.Contains(out, "of a budget of 6") {
		t.Errorf("the result says\n%s", out)
	}
	_, out, _ = tacit(append(words, "--dry-run", "--format", "json")...)
	card := decode(t, out)["data"].(map[string]any)["privacy"].(map[string]any)
	if card["epsilon_at_most"] != 6.0 || card["epsilon_of_all_rounds"].(float64) <= 6 ||
		len(card["stages_on_the_device"].([]any)) != 3 {
		t.Errorf("the card is %v", card)
	}
	code, _, errs = tacit(strings.Fields("run -m mf -d world --dp epsilon=8")...)
	if code != 2 || !strings.Contains(errs, "mf trains on pooled data") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestAsPrintedBoundFallsBelowZero(t *testing.T) {
	code, _, errs := tacit("run", "-m", "dp-privrec", "-d", "world", "--world", "users=60,items=40,mean-rows=8,seed=1",
		"--as-printed", "dim=2", "layers=4", "epochs=1", "adapt=0",
		"eval-every=1000", "--no-references")
	if code != 2 || !strings.Contains(errs, "every update is within the bound") ||
		!strings.Contains(errs, "adaptive=geometric") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, errs := tacit("run", "-m", "pfedrec", "-d", "world", "--as-printed"); code != 2 ||
		!strings.Contains(errs, "dp-privrec --as-printed") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestPrivacyPageNeedsRuns(t *testing.T) {
	dir := t.TempDir()
	page, rows := filepath.Join(dir, "privacy.md"), filepath.Join(dir, "rows.json")
	code, _, errs := tacit("docs", "privacy", "--runs", dir, "--found", "-o", page, "--rows", rows)
	if code != 2 || !strings.Contains(errs, "holds no run") || !strings.Contains(errs, "--commands") ||
		!strings.Contains(errs, "fedmf-ml-100k-8 is not in the folder of runs") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if fileThere(page) || fileThere(rows) {
		t.Error("a file was written")
	}
}

func TestPlanJSONHasNoGoNames(t *testing.T) {
	_, out, _ := tacit(strings.Fields("privacy plan --target-epsilon 8 --users 943 --rounds 5 --format json")...)
	accuracy := decode(t, out)["data"].(map[string]any)["accuracy"].(map[string]any)
	if row := accuracy["row"].(map[string]any); row["hr@10"].(float64) <= 0 {
		t.Errorf("the row is %v", row)
	}
	if names := regexp.MustCompile(`"[A-Z]\w*":`).FindAllString(out, -1); names != nil {
		t.Errorf("%v are no names of the envelope", names)
	}
}

func TestRoundsNoiseMultiplierUp(t *testing.T) {
	for x, want := range map[float64]string{
		2.0439: "2.0439", 2.04391: "2.044", 3.08271: "3.0828", 0.9999999: "1",
		12345.1: "12346", 0.0123451: "0.012346", 7: "7",
	} {
		if got := roundUp(x); got != want {
			t.Errorf("%g is written %s, want %s", x, got, want)
		}
	}
}
