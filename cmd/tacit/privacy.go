package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/privacy/account"
)

const privacyLong = `
An epsilon means nothing without its conditions: the adjacency (which two data sets must be
indistinguishable), the sampler, the sampling rate q, the number of rounds T, delta and the
accountant. Every epsilon that Tacit prints comes with all of them.`

func (a *app) privacyCmd() *cobra.Command {
	return group(&cobra.Command{
		Use: "privacy", Short: "Plan and compute differential privacy",
		Long: privacyLong, Example: "  tacit privacy plan --target-epsilon 8 --users 100000 --cohort poisson:0.01 " +
			"--rounds 500\n  tacit privacy keys",
	}, a.planCmd(), a.keysCmd(), a.spendCmd(), a.tablesCmd())
}

const spendLong = `
Each round adds Gaussian noise to a sum of clipped updates. The noise multiplier is the standard
deviation of the noise divided by the L2 sensitivity under the adjacency.`

const spendDetails = `
With updates clipped to S and divided by a constant m, the sensitivity is

  zero-out, add-remove   S/m    one user's update is present or absent
  replace-one            2S/m   one user's update is replaced by another

so the same noise has half the multiplier under replace-one. A theorem covers these combinations:

  poisson   each user with probability q, sums divided by q·N    zero-out, add-remove
  wor       exactly q·N of N users, without replacement          replace-one
  none      no amplification by sampling; q is 1                 any adjacency

rdp composes Rényi divergences (--conversion, --orders and --theorem belong to it). pld composes the
privacy loss distribution; it is tighter, and exact for plain Gaussians. If rdp gives the smaller
epsilon, pld reports that one and says so.`

const spendExample = `  tacit privacy spend --sampler poisson -q 0.01 --noise 1 --rounds 1000 --delta 1e-6
  tacit privacy spend --sampler poisson -q 0.01 --noise 1 --rounds 1000 --accountant pld
  tacit privacy spend --sampler wor -q 0.00625 --noise 1 --rounds 1000 --delta 1e-8
  tacit privacy spend --sampler none --adjacency replace-one --noise 40 --rounds 100`

// spendFlags are the flags of tacit privacy spend.
type spendFlags struct {
	sampler, adjacency, accountant, conversion, orders string
	q, noise, delta                                    float64
	rounds                                             int64
	theorem                                            int
}

func (a *app) spendCmd() *cobra.Command {
	var s spendFlags
	c := &cobra.Command{
		Use: "spend", Short: "Compute the epsilon of T rounds with Gaussian noise", Long: spendLong,
		Example: spendExample,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"noise", "rounds", "sampler"} {
				if !c.Flags().Changed(name) {
					return input(fmt.Errorf("--%s is missing", name), "example: tacit privacy spend --sampler poisson "+
						"-q 0.01 --noise 1 --rounds 1000 --delta 1e-6")
				}
			}
			if s.sampler != string(account.None) && !c.Flags().Changed("q") {
				return input(fmt.Errorf("-q is missing: the fraction of users per round"),
					"add -q 0.01, or --sampler none")
			}
			r, err := s.result()
			if err != nil {
				return err
			}
			return a.result(spendResult{r, s.meaning(), s.bound()},
				func(w io.Writer) error { return writeSpend(w, r, s.meaning(), s.bound()) })
		},
	}
	fl := c.Flags()
	fl.StringVar(&s.sampler, "sampler", "", "how users are sampled: poisson, wor (without replacement) or none")
	fl.StringVar(&s.adjacency, "adjacency", "", "zero-out, add-remove or replace-one; default by sampler: zero-out, "+
		"wor replace-one")
	fl.Float64VarP(&s.q, "q", "q", 1, "sampling rate: fraction of users per round")
	fl.Float64Var(&s.noise, "noise", 0, "noise multiplier: standard deviation / sensitivity under the adjacency")
	fl.Int64Var(&s.rounds, "rounds", 0, "number of rounds, T")
	fl.Float64Var(&s.delta, "delta", 1e-6, "probability that the guarantee fails; well below 1/users")
	fl.StringVar(&s.accountant, "accountant", "rdp", "rdp or pld")
	fl.StringVar(&s.conversion, "conversion", "improved", "conversion of RDP to epsilon: improved or classic")
	fl.IntVar(&s.theorem, "theorem", 27, "bound for --sampler wor: 9 or 27 of Wang, Balle and Kasiviswanathan 2019")
	fl.StringVar(&s.orders, "orders", "", "RDP orders, such as 2-256 or 1.5,2,4-64, instead of 1.1 to 2^15")
	fl.BoolVar(&a.quiet, "quiet", false, "print no progress") // without -q, which is the sampling rate here
	_ = fl.MarkHidden("quiet")
	a.describe(c, spendDetails,
		flagsUnder("Rounds", "sampler q noise rounds delta adjacency", ""),
		flagsUnder("Accounting", "accountant", "conversion orders theorem"))
	return c
}

// meaning says what the noise multiplier is relative to.
func (s *spendFlags) meaning() string {
	if s.adjacency == string(account.ReplaceOne) {
		return "standard deviation over the replace-one L2 sensitivity, 2S/m for updates clipped to S and divided by m"
	}
	return "standard deviation over the " + s.adjacency + " L2 sensitivity, S/m for updates clipped to S and " +
		"divided by m"
}

// bound names the theorem of a sample without replacement; nil otherwise.
func (s *spendFlags) bound() *int {
	if s.sampler == string(account.WithoutReplacement) && s.q < 1 {
		return &s.theorem
	}
	return nil
}

func (s *spendFlags) result() (account.Result, error) {
	if s.adjacency == "" {
		s.adjacency = string(account.ZeroOut)
		if s.sampler == string(account.WithoutReplacement) {
			s.adjacency = string(account.ReplaceOne)
		}
	}
	orders, err := parseOrders(s.orders)
	if err != nil {
		return account.Result{}, input(err, "example: --orders 2-256 or --orders 1.5,2,4-64")
	}
	if s.accountant != string(account.RDP) && s.accountant != string(account.PLD) {
		return account.Result{}, input(fmt.Errorf("--accountant %s: must be rdp or pld", s.accountant), "")
	}
	e := account.Event{
		Mechanism: account.Gaussian, Adjacency: account.Adjacency(s.adjacency), Sampler: account.Sampler(s.sampler),
		Q: s.q, Noise: s.noise, Rounds: s.rounds,
	}
	if e.Sampler == account.WithoutReplacement {
		e.Theorem = s.theorem
	}
	o := account.Options{
		Accountant: account.Accountant(s.accountant), Conversion: account.Conversion(s.conversion),
		Orders: orders,
	}
	r, err := account.Epsilon(s.delta, o, e)
	if err != nil {
		return r, input(err, "tacit privacy spend --help --all shows which samplers, adjacencies and accountants "+
			"combine")
	}
	return r, nil
}

// parseOrders reads 2-256 and 1.5,2,4-64.
func parseOrders(text string) ([]float64, error) {
	if text == "" {
		return nil, nil
	}
	var out []float64
	for _, word := range strings.Split(text, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(word), "-")
		lo, err := strconv.ParseFloat(from, 64)
		hi := lo
		if err == nil && ranged {
			hi, err = strconv.ParseFloat(to, 64)
		}
		if err != nil || !(lo > 1) || hi < lo || hi > 1<<16 || ranged &&
			(lo != math.Floor(lo) || hi != math.Floor(hi)) {
			return nil, fmt.Errorf("--orders %s: %q must be an order above 1 or a range of integers up to 65536",
				text, word)
		}
		for x := lo; x <= hi; x++ {
			out = append(out, x)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// spendResult is a result with the meaning of its multiplier and its theorem, as JSON.
type spendResult struct {
	account.Result
	meaning string
	theorem *int
}

func (s spendResult) MarshalJSON() ([]byte, error) {
	b, err := s.Result.MarshalJSON()
	if err != nil {
		return nil, err
	}
	more, err := json.Marshal(map[string]any{"noise_means": s.meaning, "theorem": s.theorem})
	return slices.Concat(b[:len(b)-1], []byte(","), more[1:]), err
}

func writeSpend(w io.Writer, r account.Result, meaning string, theorem *int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "epsilon %s at delta %g\n\n", epsilonText(r.Epsilon), r.Delta)
	row := func(name, value string) { fmt.Fprintf(&b, "  %-12s%s\n", name, value) }
	row("adjacency", string(r.Adjacency))
	row("sampler", r.Sampler)
	row("rounds T", strconv.FormatInt(r.Rounds, 10))
	row("rate q", fmt.Sprint(r.Q))
	row("noise", fmt.Sprintf("%v: %s", r.Noise, meaning))
	row("accountant", string(r.Accountant))
	row("conversion", string(r.Conversion))
	if theorem != nil {
		row("bound", fmt.Sprintf("theorem %d of Wang, Balle and Kasiviswanathan 2019", *theorem))
	}
	if r.Order != 0 {
		row("order", epsilonText(r.Order))
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// epsilonText writes six digits, rounded up, so that the printed guarantee holds.
func epsilonText(x float64) string {
	if math.IsInf(x, 1) {
		return "inf"
	}
	if x == math.Floor(x) || x == 0 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-5)
	return strconv.FormatFloat(math.Ceil(x/unit-1e-6)*unit, 'g', 6, 64)
}

const tablesLong = `
These are the 36 epsilons of tables 3 and 4 of "Fast-adapting and privacy-preserving federated
recommender system" (Wang et al.). The paper states 1000 rounds, but its numbers are those of 1000·M
rounds for cohorts of M: one composition per client. Columns: paper, as printed; recomputed, for
1000·M rounds with theorem 9 and the classic conversion; T=1000, the same for the rounds that were
run; improved, with theorem 27 and the improved conversion. All of them are for replace-one, sampling
without replacement, noise multiplier 1 and q = M/N.`

// paperCell is one epsilon of the paper.
type paperCell struct {
	Data       string  `json:"data"`
	Cohort     int     `json:"cohort"`
	Users      int     `json:"users"`
	Delta      float64 `json:"delta"`
	Paper      float64 `json:"paper"`      // as printed: truncated after four decimals
	Recomputed float64 `json:"recomputed"` // for 1000·M rounds
	Right      float64 `json:"right"`      // for 1000 rounds
	Improved   float64 `json:"improved"`   // the same with tighter bounds
}

// paperTables are the epsilons that the paper prints for delta 1e-8, 1e-6 and 1e-4.
var paperTables = []struct {
	data          string
	cohort, users int
	printed       [3]float64
}{
	{"ml-1m", 5, 4800, [3]float64{1.7439, 1.3602, 0.9764}},
	{"ml-1m", 10, 4800, [3]float64{3.2117, 2.7511, 2.2535}},
	{"ml-1m", 15, 4800, [3]float64{5.9705, 5.2030, 4.3074}},
	{"ml-1m", 20, 4800, [3]float64{9.4736, 8.3223, 6.9235}},
	{"ml-1m", 25, 4800, [3]float64{13.7047, 12.1696, 10.2052}},
	{"ml-1m", 30, 4800, [3]float64{18.9107, 16.6081, 14.3056}},
	{"frappe", 2, 760, [3]float64{2.2994, 1.8388, 1.3783}},
	{"frappe", 5, 760, [3]float64{7.4618, 6.5408, 5.3932}},
	{"frappe", 8, 760, [3]float64{16.2853, 14.3169, 12.0143}},
	{"frappe", 10, 760, [3]float64{23.7651, 21.4626, 18.6182}},
	{"frappe", 12, 760, [3]float64{34.5025, 30.0690, 25.4638}},
	{"frappe", 15, 760, [3]float64{50.1537, 45.5485, 40.9433}},
}

func (a *app) tablesCmd() *cobra.Command {
	return &cobra.Command{
		Use: "tables", Short: "Compare the DP-PrivRec paper's epsilons with correct ones", Long: tablesLong,
		Args:    noArgs,
		Example: "  tacit privacy tables\n  tacit privacy tables --format json",
		RunE: func(*cobra.Command, []string) error {
			cells, err := paperCells()
			if err != nil {
				return err
			}
			t := report.Table{
				Header: []string{"data", "M", "N", "delta", "paper", "recomputed", "T=1000", "improved"},
				Align:  "lr", Rule: len(cells) / 2,
			}
			for _, c := range cells {
				t.Rows = append(t.Rows, []any{
					c.Data, c.Cohort, c.Users, fmt.Sprintf("%g", c.Delta), fmt.Sprintf("%.4f", c.Paper),
					fmt.Sprintf("%.5f", c.Recomputed), fmt.Sprintf("%.4f", c.Right), fmt.Sprintf("%.4f", c.Improved),
				})
			}
			t.Notes = []string{
				"Adjacency replace-one. paper and recomputed: T = 1000·M rounds; T=1000: the rounds that the " +
					"paper ran; improved: tighter bounds for those. tacit privacy tables --help explains more.",
			}
			return a.result(map[string]any{"cells": cells}, t.Text)
		},
	}
}

func paperCells() ([]paperCell, error) {
	var out []paperCell
	for _, row := range paperTables {
		for i, delta := range []float64{1e-8, 1e-6, 1e-4} {
			c := paperCell{Data: row.data, Cohort: row.cohort, Users: row.users, Delta: delta, Paper: row.printed[i]}
			paper := spendFlags{
				sampler: "wor", q: float64(row.cohort) / float64(row.users), noise: 1,
				rounds: 1000 * int64(row.cohort), delta: delta,
				theorem: 9, accountant: "rdp", conversion: "classic", orders: "2-64",
			}
			right := paper
			right.rounds = 1000
			better := right
			better.theorem, better.conversion, better.orders = 27, "improved", ""
			for _, x := range []struct {
				from spendFlags
				to   *float64
			}{{paper, &c.Recomputed}, {right, &c.Right}, {better, &c.Improved}} {
				r, err := x.from.result()
				if err != nil {
					return nil, err
				}
				*x.to = r.Epsilon
			}
			out = append(out, c)
		}
	}
	return out, nil
}
