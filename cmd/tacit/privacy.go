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

const privacyLong = `What noise is worth. An epsilon means something only together with the adjacency (which
two data sets must look alike), the sampler, the number of rounds T, the sampling rate q,
delta, and how it was computed; every epsilon that Tacit prints says them all.

  tacit privacy plan      what an epsilon would take, and what it was measured to cost
  tacit privacy keys      what --dp of a run may say
  tacit privacy spend     the epsilon of T rounds with Gaussian noise
  tacit privacy tables    the epsilons of the DP-PrivRec paper, and what they should have been`

func (a *app) privacyCmd() *cobra.Command {
	return group(&cobra.Command{
		Use: "privacy", Short: "What noise is worth: epsilon, delta and what they hold for",
		Long: privacyLong,
	}, a.planCmd(), a.keysCmd(), a.spendCmd(), a.tablesCmd())
}

const spendLong = `Compute the epsilon of T rounds in which Gaussian noise is added to a sum of clipped updates.

--noise is the noise multiplier: the standard deviation of the noise divided by the L2
sensitivity UNDER THE ADJACENCY. With updates clipped to S and divided by a constant m:

  zero-out, add-remove   one user's update appears or not:     sensitivity  S/m
  replace-one            one user's update becomes another's:  sensitivity 2S/m

so the same noise has half the multiplier under replace-one.

Samplers and the adjacency that a theorem covers:

  poisson   each user with chance q, sums divided by the constant q·N     zero-out, add-remove
  wor       exactly q·N of N users, without replacement                   replace-one
  none      no sampling that the guarantee may use; q is 1                any

Accountants: rdp adds up Rényi divergences (--conversion, --orders, --theorem are its own); pld
composes the distribution of the privacy loss and is tighter; for plain Gaussians it is exact.
Where rdp gives the smaller epsilon, pld gives that one, and says so.`

const spendExample = `  tacit privacy spend --sampler poisson -q 0.01 --noise 1 --rounds 1000 --delta 1e-6
  tacit privacy spend --sampler poisson -q 0.01 --noise 1 --rounds 1000 --delta 1e-6 --accountant pld
  tacit privacy spend --sampler none --adjacency replace-one --noise 40 --rounds 100
  # a cell of the DP-PrivRec paper, which counted 1000·M rounds, and the cell as it should be
  tacit privacy spend --sampler wor -q 0.00625 --noise 1 --rounds 30000 --delta 1e-8 --conversion classic --theorem 9 --orders 2-256
  tacit privacy spend --sampler wor -q 0.00625 --noise 1 --rounds 1000 --delta 1e-8`

// spend holds the flags of `tacit privacy spend`.
type spend struct {
	sampler, adjacency, accountant, conversion, orders string
	q, noise, delta                                    float64
	rounds                                             int64
	theorem                                            int
}

func (a *app) spendCmd() *cobra.Command {
	var s spend
	c := &cobra.Command{
		Use: "spend", Short: "The epsilon of T rounds with Gaussian noise", Long: spendLong, Example: spendExample,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"noise", "rounds", "sampler"} {
				if !c.Flags().Changed(name) {
					return input(fmt.Errorf("--%s is missing", name), "as in: tacit privacy spend --sampler poisson "+
						"-q 0.01 --noise 1 --rounds 1000 --delta 1e-6")
				}
			}
			if s.sampler != string(account.None) && !c.Flags().Changed("q") {
				return input(fmt.Errorf("-q is missing: the share of users in a round, as -q 0.01"),
					"without sampling: --sampler none")
			}
			r, err := s.result()
			if err != nil {
				return err
			}
			return a.result(spent{r, s.meaning(), s.bound()},
				func(w io.Writer) error { return writeSpent(w, r, s.meaning(), s.bound()) })
		},
	}
	fl := c.Flags()
	fl.StringVar(&s.sampler, "sampler", "", "how a round's users are drawn: poisson, wor or none")
	fl.StringVar(&s.adjacency, "adjacency", "", "zero-out, add-remove or replace-one (default zero-out; replace-one "+
		"with --sampler wor)")
	fl.Float64VarP(&s.q, "q", "q", 1, "sampling rate: the share of users in a round")
	fl.Float64Var(&s.noise, "noise", 0, "noise multiplier: standard deviation over the sensitivity under the adjacency")
	fl.Int64Var(&s.rounds, "rounds", 0, "number of rounds, T")
	fl.Float64Var(&s.delta, "delta", 1e-6, "delta; well below 1 over the number of users")
	fl.StringVar(&s.accountant, "accountant", "rdp", "rdp or pld")
	fl.StringVar(&s.conversion, "conversion", "improved", "from RDP to epsilon: improved or classic")
	fl.IntVar(&s.theorem, "theorem", 27, "bound for --sampler wor: 9 or 27 of Wang, Balle and Kasiviswanathan 2019")
	fl.StringVar(&s.orders, "orders", "", "exactly these RDP orders, as 2-256 or 1.5,2,4-64; by default 1.1 to 2^15")
	fl.BoolVar(&a.quiet, "quiet", false, "no card and no progress") // so that -q is free for the rate
	return c
}

// meaning says what the multiplier is relative to.
func (s *spend) meaning() string {
	if s.adjacency == string(account.ReplaceOne) {
		return "standard deviation over the replace-one L2 sensitivity, 2S/m for updates clipped to S and divided by m"
	}
	return "standard deviation over the " + s.adjacency + " L2 sensitivity, S/m for updates clipped to S and " +
		"divided by m"
}

// bound names the theorem of a sample without replacement; nil otherwise.
func (s *spend) bound() *int {
	if s.sampler == string(account.WithoutReplacement) && s.q < 1 {
		return &s.theorem
	}
	return nil
}

func (s *spend) result() (account.Result, error) {
	if s.adjacency == "" {
		s.adjacency = string(account.ZeroOut)
		if s.sampler == string(account.WithoutReplacement) {
			s.adjacency = string(account.ReplaceOne)
		}
	}
	orders, err := parseOrders(s.orders)
	if err != nil {
		return account.Result{}, input(err, "as in: --orders 2-256, or --orders 1.5,2,4-64")
	}
	if s.accountant != string(account.RDP) && s.accountant != string(account.PLD) {
		return account.Result{}, input(fmt.Errorf("--accountant %s: want rdp or pld", s.accountant), "")
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
		return r, input(err, "tacit privacy spend --help shows which samplers, adjacencies and accountants go together")
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
			return nil, fmt.Errorf("--orders %s: %q is neither an order above 1 nor a range of integers up to 65536",
				text, word)
		}
		for x := lo; x <= hi; x++ {
			out = append(out, x)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// spent is a result with the meaning of its multiplier and its theorem, as JSON.
type spent struct {
	account.Result
	meaning string
	theorem *int
}

func (s spent) MarshalJSON() ([]byte, error) {
	b, err := s.Result.MarshalJSON()
	if err != nil {
		return nil, err
	}
	more, err := json.Marshal(map[string]any{"noise_means": s.meaning, "theorem": s.theorem})
	return slices.Concat(b[:len(b)-1], []byte(","), more[1:]), err
}

func writeSpent(w io.Writer, r account.Result, meaning string, theorem *int) error {
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

// epsilonText shows six digits, rounded up, so that what is printed holds.
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

const tablesLong = `Print the 36 epsilons of tables 3 and 4 of the DP-PrivRec paper (Wang et al., "Fast-adapting and
privacy-preserving federated recommender system"), recomputed, beside what they should have been.

The paper states 1000 rounds; its numbers are those of 1000·M, where M is the cohort: one
composition for every client of a round, it seems. Every column is for sampling without
replacement, replace-one, noise multiplier 1 and q = M/N. "paper" and "recomputed" use theorem
9 and the classic conversion over integer orders; "T=1000" is the same for the rounds that were run, and
"improved" that with theorem 27 and the improved conversion.`

// paperCell is one epsilon of the paper.
type paperCell struct {
	Data       string  `json:"data"`
	Cohort     int     `json:"cohort"`
	Users      int     `json:"users"`
	Delta      float64 `json:"delta"`
	Paper      float64 `json:"paper"`      // as printed: cut off after four decimals
	Recomputed float64 `json:"recomputed"` // for 1000·M rounds
	Right      float64 `json:"right"`      // for 1000 rounds
	Improved   float64 `json:"improved"`   // the same by better bounds
}

// paperTables are what the paper prints at delta 1e-8, 1e-6 and 1e-4.
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
		Use: "tables", Short: "The DP-PrivRec paper's epsilons beside the right ones", Long: tablesLong,
		Args:    args(cobra.NoArgs),
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
				"replace-one, sampling without replacement with q = M/N, noise multiplier 1, RDP. paper and recomputed: T = 1000·M, theorem 9, classic;",
				"T=1000: the rounds that were run; improved: those by theorem 27 and the improved conversion. tacit privacy tables --help says more.",
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
			paper := spend{
				sampler: "wor", q: float64(row.cohort) / float64(row.users), noise: 1,
				rounds: 1000 * int64(row.cohort), delta: delta,
				theorem: 9, accountant: "rdp", conversion: "classic", orders: "2-64",
			}
			right := paper
			right.rounds = 1000
			better := right
			better.theorem, better.conversion, better.orders = 27, "improved", ""
			for _, x := range []struct {
				from spend
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
