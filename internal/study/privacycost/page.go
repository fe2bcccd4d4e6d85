package privacycost

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/report"
)

const pageIntro = `# Privacy and accuracy

This page shows what user-level differential privacy costs in accuracy. tacit docs privacy generates it; do not edit it by hand.

- Epsilon protects whole users: nobody who sees the released models can tell much better than e^epsilon to 1 whether a given person took part. The guarantee assumes central trust: the coordinator adds the noise and is trusted. The [threat model](threat-model.md) lists what this leaves open.
- Delta is 1e-6 in every row. The accountant is RDP with the improved conversion; for norm-grad, oneshot and tacit-private the accounting is exact (Balle and Wang 2018), because their rounds amount to one Gaussian release. Spent is rounded up to four digits and never exceeds the budget.
- T is the number of rounds, q the probability that a user is in a round, and z the noise multiplier: the standard deviation of the noise on the sum divided by the sensitivity. Noise on the mean is its standard deviation on each number of a round's mean, in units of the clipping bound. If rounds have unequal shares of the budget (oneshot, tacit-private), both columns show a round with the mean share.
- Metrics are measured on test items under the protocol deployed, after the **last** round: no round was selected by its metrics. Rows without a guarantee report the round that validation selected.
- **Tuning is not covered.** The settings were searched on the validation items of these same users, in about a hundred short runs with the seed of these rows. Epsilon does not cover that search: to tune on private data, use other data or spend budget on it.
- A smaller budget has other settings as well as more noise: fewer rounds and fewer numbers per item. With all users in every round, noise on the mean decreases as 1 / users; ML-1M has 6.4 times the users of ML-100K.
- norm-grad, oneshot and tacit-private are designed for a budget: every update has length 1 by construction, devices solve for their user parameters in closed form, and the newest items of a history have the largest weight, which the other methods ignore. tacit-private splits its budget between the other two.
- PrivRec scores with features only. On ML-100K it has 2,000 shared numbers, FedMF has 13,456 with dim=8 and 53,824 with dim=32: noise costs PrivRec little, but its accuracy is low to begin with.
`

// Page returns docs/privacy.md.
func Page(rows []Row, baselines []Baseline) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(pageIntro)
	var sets []string
	for _, r := range rows {
		if !slices.Contains(sets, r.Data) {
			sets = append(sets, r.Data)
		}
	}
	for _, set := range sets {
		fmt.Fprintf(&b, "\n## %s\n\n", set)
		var own []Row
		for _, r := range rows {
			if r.Data == set && !localNoise(r) {
				own = append(own, r)
			}
		}
		if err := budgetTable(own, baselines, set).Markdown(&b); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s\n\n", belowPopularity(own, baselines, set))
		if err := detailTable(own).Markdown(&b); err != nil {
			return nil, err
		}
	}
	if err := writeLocal(&b, rows); err != nil {
		return nil, err
	}
	b.WriteString("\n## How to repeat a row\n\n    tacit docs privacy --commands runs\n    tacit docs privacy --runs " +
		"runs\n\nThe first command prints one command per run. The second writes this page and runs what is missing.\n")
	return slices.Concat(bytes.TrimRight(b.Bytes(), "\n"), []byte("\n")), nil
}

// methodOrder lists the methods in the order of the page.
var methodOrder = []string{"norm-grad", "oneshot", "tacit-private", "fedmf", "pfedrec", "privrec"}

// localNoise reports whether devices add the noise of a row.
func localNoise(m Row) bool {
	return strings.HasPrefix(m.Budget, "laplace") || strings.HasPrefix(m.Budget, "local")
}

// budgetTable shows HR@10 by method and budget.
func budgetTable(rows []Row, baselines []Baseline, set string) *report.Table {
	budgets := []string{"none", "20", "10", "8", "3", "1"}
	t := &report.Table{Header: []string{"HR@10 at epsilon"}, Align: "lr"}
	t.Header = append(t.Header, budgets...)
	for _, method := range methodOrder {
		line := []any{method}
		for _, budget := range budgets {
			at := slices.IndexFunc(rows, func(m Row) bool { return m.Method == method && m.Budget == budget })
			if at < 0 {
				line = append(line, math.NaN())
				continue
			}
			line = append(line, rows[at].HR)
		}
		t.Rows = append(t.Rows, line)
	}
	t.Rule = len(t.Rows)
	for _, ref := range baselines {
		if ref.Data == set {
			line := []any{map[string]string{
				"popularity": "popularity (central counts, no guarantee)",
				"local":      "local only (devices send nothing)",
			}[ref.Name]}
			line = append(line, ref.Test.Sampled["hr@10"])
			t.Rows = append(t.Rows, line)
		}
	}
	return t
}

// belowPopularity says at which budgets each method is worse than the popularity baseline.
func belowPopularity(rows []Row, baselines []Baseline, set string) string {
	at := slices.IndexFunc(baselines, func(b Baseline) bool { return b.Data == set && b.Name == "popularity" })
	if at < 0 {
		return ""
	}
	var out []string
	for _, method := range methodOrder {
		var lost []string
		for _, m := range rows {
			if m.Data == set && m.Method == method && m.HR < baselines[at].Test.Sampled["hr@10"] && !localNoise(m) {
				lost = append(lost, m.Budget)
			}
		}
		if len(lost) > 0 {
			out = append(out, method+" at "+strings.Join(lost, ", "))
		}
	}
	if len(out) == 0 {
		return "**In short:** every row is better than the popularity baseline."
	}
	return "**In short:** worse than the popularity baseline, and therefore not useful: " +
		strings.Join(out, "; ") + ". (The baseline has no guarantee here; noise would lower it slightly.)"
}

// detailTable shows every row with its guarantee and settings.
func detailTable(rows []Row) *report.Table {
	t := &report.Table{
		Header: []string{
			"method", "budget", "spent", "HR@10", "NDCG@10", "full HR@10", "T", "q", "z", "clip",
			"noise on the mean", "adjacency", "settings", "seed", "commit",
		},
		Align: "lrrrrrrrrrrllrl",
	}
	for _, m := range rows {
		line := []any{
			m.Method, m.Budget, "-", m.HR, m.NDCG, m.FullHR, m.Rounds, "-", "-", "-", "-", "-", m.Settings,
			strconv.FormatUint(m.Seed, 10), m.Commit,
		}
		if p := m.Privacy; p != nil {
			line[2], line[6], line[7], line[8], line[9] = format.Epsilon(p.Epsilon), p.Rounds, digits(p.Q),
				digits(p.Noise), digits(p.Clip)
			line[10] = digits(m.onMean())
			line[11] = p.Adjacency + ", " + samplerWord(p.Sampler)
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// onMean returns the standard deviation of central noise on a number of the mean, in units of the
// clipping bound.
func (m Row) onMean() float64 {
	p := m.Privacy
	sens := 1.0
	if p.Adjacency == "replace-one" {
		sens = 2
	}
	return p.Noise * sens / (p.Q * float64(m.Users))
}

func samplerWord(s string) string {
	if s == "none" {
		return "no sampling"
	}
	return s
}

// digits formats a number with three significant digits.
func digits(x any) string {
	if f, ok := x.(float64); ok {
		return strconv.FormatFloat(f, 'g', 3, 64)
	}
	return fmt.Sprint(x)
}

const localIntro = `
## Noise added by devices

The PFedRec paper (Table 4) adds Laplace noise of scale 0.1 to 0.5 to every number that a device sends, and finds that accuracy hardly decreases. These numbers are unbounded, so **epsilon is infinite** at every scale. The flat curve shows that noise averages out over many devices, not that it protects one of them.

With a bound C on the L1 norm of an update, one release costs epsilon 2C / scale against everybody, including the coordinator (replacing one user), and T rounds cost T times as much:

`

// writeLocal writes the section on noise that devices add.
func writeLocal(b *bytes.Buffer, rows []Row) error {
	var own []Row
	for _, m := range rows {
		if localNoise(m) {
			own = append(own, m)
		}
	}
	if len(own) == 0 {
		return nil
	}
	b.WriteString(localIntro)
	formula := &report.Table{Header: []string{
		"scale", "C = 1: one round", "C = 1: 100 rounds",
		"every number within 0.1 (C = 5,382): one round", "100 rounds",
	}, Align: "lr"}
	for _, scale := range []float64{0.1, 0.2, 0.3, 0.4, 0.5} {
		one, all := 2/scale, 2*0.1*1682*32/scale
		formula.Rows = append(formula.Rows, []any{
			fmt.Sprint(scale), digits(one), digits(100 * one), commas(all),
			commas(100 * all),
		})
	}
	if err := formula.Markdown(b); err != nil {
		return err
	}
	b.WriteString("Measured on ML-100K (1682 items of 32 numbers) under `deployed`:\n\n")
	t := &report.Table{
		Header: []string{
			"method", "noise", "epsilon per user", "per round", "HR@10", "NDCG@10", "T", "settings",
			"seed", "commit",
		},
		Align: "llrrrrrlrl",
	}
	for _, m := range own {
		line := []any{
			m.Method, m.Budget, "inf", "inf", m.HR, m.NDCG, m.Rounds, m.Settings,
			strconv.FormatUint(m.Seed, 10), m.Commit,
		}
		if p := m.Privacy; p != nil {
			line[2], line[3] = format.Epsilon(p.Epsilon), "-"
			if p.Mechanism == "laplace" {
				line[3] = digits(1 / p.Noise)
			}
		}
		t.Rows = append(t.Rows, line)
	}
	return t.Markdown(b)
}

func commas(x float64) string {
	s := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
