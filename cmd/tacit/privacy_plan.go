package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
)

const planLong = `Say what a promise would take: the noise for an epsilon, what other adjacencies, samplers and
mechanisms would take for the same one, and an accuracy that was measured.

With -m and -d the number of users and of numbers in an update are those of the method on the data,
and --rounds and --cohort are those of the method's settings unless they are given.
The accuracy is that of the nearest row of docs/privacy.md, which is named with its settings, or
with --quick that of a run of this very plan, evaluated once on up to 1000 users' validation
items. No formula tells accuracy.`

const planExample = `  tacit privacy plan --target-epsilon 8 --users 1000000 --cohort poisson:0.01 --rounds 500
  tacit privacy plan --target-epsilon 8 --cohort poisson:0.1 --rounds 20 -m fedmf -d ml-100k
  tacit privacy plan --target-epsilon 3 --cohort all --rounds 5 -m fedmf -d ml-100k --quick --clip 1
  tacit privacy plan --target-epsilon 8 --users 100000 --cohort cycle:1000 --rounds 200 --mechanism tree
  tacit privacy plan --target-epsilon 8 --users 100000 --cohort come:1000/50 --rounds 200 --mechanism tree`

// plan holds the flags of `tacit privacy plan`.
type plan struct {
	epsilon, delta, clip                   float64
	users, rounds, numbers, least, jobs    int
	cohort, mechanism, against, accountant string
	method, data, dataDir                  string
	quick                                  bool
	words                                  []string
}

func (a *app) planCmd() *cobra.Command {
	var p plan
	c := &cobra.Command{
		Use: "plan [key=value ...]", Short: "What an epsilon would take: noise, other ways, measured accuracy",
		Long: planLong, Example: planExample,
		RunE: func(c *cobra.Command, words []string) error {
			p.words = words
			cfg, err := p.config(c, words)
			if err != nil {
				return err
			}
			cfg.Tell = func(what string) {
				if !a.quiet {
					fmt.Fprintf(a.err, "computing %s\n", what)
				}
			}
			made, err := experiment.MakePlan(c.Context(), cfg)
			var stopped *experiment.Stopped
			if errors.As(err, &stopped) {
				stopped.Hint = "a plan keeps nothing: give the command again, or leave --quick out"
			}
			if err != nil {
				return err
			}
			return a.result(made, func(w io.Writer) error { return writePlan(w, made, &p) })
		},
	}
	fl := c.Flags()
	fl.Float64Var(&p.epsilon, "target-epsilon", 0, "the epsilon to keep")
	fl.Float64Var(&p.delta, "delta", 1e-6, "delta; well below 1 over the number of users")
	fl.IntVar(&p.users, "users", 0, "users of the federation; with -d those of the data")
	fl.StringVar(&p.cohort, "cohort", "all", "who takes part in a round: all, a count, a share such as 10%, "+
		"poisson:0.1, cycle:100 (in turn), or come:100/20 (when they like, each once at most in 20 rounds); with -m else the method's")
	fl.IntVar(&p.rounds, "rounds", 0, "rounds of training; with -m else the method's")
	fl.StringVar(&p.mechanism, "mechanism", "gauss", "gauss, tree (DP-FTRL, wants --cohort cycle:N or come:N/E) or "+
		"laplace (wants --against local)")
	fl.StringVar(&p.against, "against", "central", "whom the epsilon holds against: central, distributed or local")
	fl.StringVar(&p.accountant, "accountant", "rdp", "rdp or pld")
	fl.Float64Var(&p.clip, "clip", 1, "the longest that an update may be")
	fl.IntVar(&p.least, "least", 1, "the fewest honest devices of a round, for --against distributed")
	fl.IntVar(&p.numbers, "numbers", 50_000, "numbers of an update; with -m and -d those of the method. They change "+
		"the noise by their rounding alone")
	fl.StringVarP(&p.method, "method", "m", "", "the method")
	fl.StringVarP(&p.data, "data", "d", "", "the data")
	fl.StringVar(&p.dataDir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache "+
		"folder")
	fl.BoolVar(&p.quick, "quick", false,
		"run it once, instead of looking for the nearest measured row; wants -m and -d")
	fl.IntVarP(&p.jobs, "jobs", "j", cores(), "goroutines that visit devices")
	return c
}

func (p *plan) config(c *cobra.Command, words []string) (experiment.PlanConfig, error) {
	cfg := experiment.PlanConfig{
		Rounds: p.rounds, Users: p.users, Numbers: p.numbers, DataDir: p.dataDir,
		Jobs: p.jobs, Quick: p.quick,
	}
	const example = "as in: tacit privacy plan --target-epsilon 8 --users 1000000 --cohort poisson:0.01 --rounds 500"
	both := p.method != "" && p.data != ""
	for _, name := range []string{"target-epsilon", "rounds"} {
		if !c.Flags().Changed(name) && (name != "rounds" || !both) {
			return cfg, input(fmt.Errorf("--%s is missing", name), example)
		}
	}
	switch {
	case !both && (p.method != "" || p.data != ""):
		return cfg, input(fmt.Errorf("-m and -d go together"), "as in: -m fedmf -d ml-100k")
	case !both && p.quick:
		return cfg, input(fmt.Errorf("--quick runs a method on data, and none is given"), "add -m fedmf -d ml-100k")
	case !both && len(words) > 0:
		return cfg, input(fmt.Errorf("%q is a setting of a run, and no method is given", words[0]),
			"add -m fedmf -d ml-100k")
	case !both && p.users == 0:
		return cfg, input(fmt.Errorf("--users is missing"), example)
	case both && p.users != 0:
		return cfg, input(fmt.Errorf("--users with -d: the data has its users"), "leave one out")
	}
	g := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	text := fmt.Sprintf("epsilon=%s,delta=%s,clip=%s,mechanism=%s,trust=%s,accountant=%s,min-devices=%d", g(p.epsilon),
		g(p.delta), g(p.clip), p.mechanism, p.against, p.accountant, p.least)
	if err := cfg.Policy.UnmarshalText([]byte(text)); err != nil {
		return cfg, input(err, example)
	}
	if err := cfg.Cohort.UnmarshalText([]byte(p.cohort)); err != nil {
		return cfg, input(fmt.Errorf("--cohort %s: %w", p.cohort, err), "")
	}
	if !both {
		return cfg, nil
	}
	var err error
	if cfg.Spec, err = p.spec(words); err != nil {
		return cfg, err
	}
	if !c.Flags().Changed("rounds") {
		cfg.Rounds = cfg.Spec.Rounds
	}
	if !c.Flags().Changed("cohort") {
		cfg.Cohort = cfg.Spec.Cohort
	}
	return cfg, nil
}

// spec is the run that a plan is for. What the plan says itself is no setting of it.
func (p *plan) spec(words []string) (*experiment.Spec, error) {
	given, err := experiment.Assignments(words, "command line")
	if err != nil {
		return nil, err
	}
	instead := map[string]string{
		"cohort": "--cohort", "rounds": "--rounds",
		"dp": "--target-epsilon, --delta, --clip, --mechanism and --against",
	}
	for _, g := range given {
		if flags := instead[strings.TrimPrefix(g.Key, "params.")]; flags != "" {
			return nil, input(fmt.Errorf("%s=%s: a plan takes this from its flags", g.Key, g.Value), "use "+flags)
		}
	}
	return experiment.Resolve(append(given, experiment.Setting{Key: "method", Value: p.method, From: "flag --method"},
		experiment.Setting{Key: "data", Value: p.data, From: "flag --data"}))
}

func writePlan(w io.Writer, p *experiment.Plan, flags *plan) error {
	var b strings.Builder
	c := p.Chosen
	fmt.Fprintf(&b, "epsilon %g at delta %g for %d users, %d rounds, cohort %s: noise multiplier %s\n\n", p.Epsilon,
		p.Delta, p.Users, p.Rounds, c.Cohort, up(c.Noise))
	row := func(name, value string) { fmt.Fprintf(&b, "  %-16s%s\n", name, value) }
	row("holds against", c.Holds)
	row("adjacency", c.Adjacency)
	row("sampler", fmt.Sprintf("%s, q %g", c.Sampler, c.Q))
	row("spent", report.Epsilon(c.Spent)+" by all rounds")
	if c.Times > 0 {
		row("each device", fmt.Sprintf("is in at most %d of the %d sums", c.Times, p.Rounds))
	}
	row("on a mean", six(c.OnMean)+" of the bound, on each number of a round")
	row("in the model", six(c.InModel)+" of the bound, on each number after all rounds, for a coordinator's rate of 1")
	row("all numbers", fmt.Sprintf("%s of the bound is the length of a round's noise on %d numbers: the mean update "+
		"is at most 1", six(c.OnMean*sqrt(p.Numbers)), p.Numbers))
	if a := p.Accuracy; a != nil {
		b.WriteString("\n")
		if a.Ran {
			fmt.Fprintf(&b, "measured: HR@10 %.4f  NDCG@10 %.4f, a run of this plan, on validation items\n", a.HR,
				a.NDCG)
		} else {
			m := a.Row
			fmt.Fprintf(&b, "measured: HR@10 %.4f  NDCG@10 %.4f, on test items, by the nearest row of "+
				"docs/privacy.md, which is not this plan:\n", a.HR, a.NDCG)
			fmt.Fprintf(&b, "  %s on %s, %d users, %s trust, epsilon %s spent, %d rounds, seed %d, commit %s\n  %s\n",
				m.Method, m.Data, m.Users, m.Privacy.Against, report.Epsilon(m.Privacy.Epsilon), m.Rounds, m.Seed,
				m.Commit, m.Settings)
		}
	} else {
		b.WriteString("\nmeasured: nothing like it; --quick runs it\n")
	}
	if flags.method != "" {
		label := "run it"
		if p.Accuracy == nil || !p.Accuracy.Ran {
			label = "run it, though nobody has measured these settings (--quick does)"
		}
		fmt.Fprintf(&b, "%s: %s\n", label, flags.command(p))
	}
	b.WriteString("\n")
	t := report.Table{
		Title: fmt.Sprintf("other ways to epsilon %g", p.Epsilon), Header: []string{
			"", "cohort", "adjacency",
			"sampler", "multiplier", "on a mean", "in the model",
		}, Align: "llllrrr",
		Notes: []string{"Noise is in units of the bound on an update; multipliers of different adjacencies are " +
			"relative to different sensitivities, so compare the last columns."},
	}
	for _, o := range p.Others {
		if o.Refused != "" {
			t.Rows = append(t.Rows, []any{o.Name, o.Cohort, "refused"})
			t.Notes = append(t.Notes, o.Name+": "+o.Refused+".")
			continue
		}
		t.Rows = append(t.Rows, []any{
			o.Name, o.Cohort, o.Adjacency, o.Sampler, up(o.Noise), six(o.OnMean),
			six(o.InModel),
		})
	}
	if err := t.Text(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// command runs the plan.
func (f *plan) command(p *experiment.Plan) string {
	words := []string{
		"tacit run -m", f.method, "-d", f.data, "--rounds", strconv.Itoa(p.Rounds), "--cohort",
		p.Chosen.Cohort, "--dp", p.Chosen.DP,
	}
	if p.Chosen.Secagg {
		words = append(words, "--secagg assumed")
	}
	return strings.Join(append(words, f.words...), " ")
}

func six(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// up writes a noise multiplier with five digits, and never less than it is.
func up(x float64) string {
	const n = 5
	s := strconv.FormatFloat(x, 'g', n, 64)
	if near, _ := strconv.ParseFloat(s, 64); near < x {
		s = strconv.FormatFloat(near+math.Pow(10, math.Floor(math.Log10(near))-n+1), 'g', n, 64)
	}
	return s
}

func sqrt(n int) float64 { return math.Sqrt(float64(n)) }
