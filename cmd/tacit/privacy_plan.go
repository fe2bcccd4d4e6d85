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
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/privacycost"
	"github.com/tacit-rec/tacit/internal/study/report"
)

const planLong = `
A plan computes the noise that an epsilon requires, compares other adjacencies, samplers and
mechanisms, and shows a measured accuracy: that of the most similar run in docs/privacy.md, or with
--quick that of a run of this plan on up to 1000 users' validation items.`

const planDetails = `
With -m and -d, the number of users and the size of an update come from the method and the data, and
--rounds and --cohort default to the method's. No formula predicts accuracy: it has to be measured.`

const planExample = `  tacit privacy plan --target-epsilon 8 --users 100000 --cohort poisson:0.01 --rounds 500
  tacit privacy plan --target-epsilon 8 --cohort poisson:0.1 --rounds 20 -m fedmf -d ml-100k
  tacit privacy plan --target-epsilon 3 --cohort all --rounds 5 -m fedmf -d ml-100k --quick
  tacit privacy plan --target-epsilon 8 --users 100000 --cohort cycle:1000 --rounds 200 --mechanism tree`

// planFlags are the flags of tacit privacy plan.
type planFlags struct {
	epsilon, delta, clip                     float64
	users, rounds, numbers, minDevices, jobs int
	cohort, mechanism, trust, accountant     string
	method, data, dataDir                    string
	quick                                    bool
	words                                    []string
}

func (a *app) planCmd() *cobra.Command {
	var p planFlags
	c := &cobra.Command{
		Use: "plan [key=value ...]", Short: "Estimate the noise and accuracy for an epsilon",
		Long: planLong, Example: planExample,
		RunE: func(c *cobra.Command, words []string) error {
			p.words = words
			cfg, err := p.config(c, words)
			if err != nil {
				return err
			}
			cfg.OnEvent = func(e privacycost.Planning) { a.progress("computing %s", e.Step) }
			made, err := privacycost.NewPlan(c.Context(), cfg)
			var stopped *experiment.Stopped
			if errors.As(err, &stopped) {
				stopped.Hint = "a plan is not saved: run the command again, or omit --quick"
			}
			if err != nil {
				return err
			}
			return a.result(made, func(w io.Writer) error { return writePlan(w, made, &p) })
		},
	}
	fl := c.Flags()
	fl.Float64Var(&p.epsilon, "target-epsilon", 0, "the privacy budget")
	fl.Float64Var(&p.delta, "delta", 1e-6, "probability that the guarantee fails; well below 1/users")
	fl.IntVar(&p.users, "users", 0, "number of users, without -d")
	fl.StringVar(&p.cohort, "cohort", "all", "devices per round: all, 100, 10%, poisson:0.1, cycle:100, cycle:2% or "+
		"checkin:100/20")
	fl.IntVar(&p.rounds, "rounds", 0, "rounds of training; with -m, default: the method's")
	fl.StringVar(&p.mechanism, "mechanism", "gauss", "gauss, tree (DP-FTRL; needs a cycle or check-in cohort) or "+
		"laplace (local trust)")
	fl.StringVar(&p.trust, "trust", "central", "trust model: central, distributed (with secure aggregation) or local")
	oldFlag(fl, "against", "trust")
	fl.StringVar(&p.accountant, "accountant", "rdp", "rdp or pld")
	fl.Float64Var(&p.clip, "clip", 1, "clipping bound: the largest L2 norm of an update")
	fl.IntVar(&p.minDevices, "min-devices", 1, "fewest honest devices per round, for --trust distributed")
	oldFlag(fl, "least", "min-devices")
	fl.IntVar(&p.numbers, "numbers", 50_000, "numbers per update, without -m; they matter for rounding only")
	fl.StringVarP(&p.method, "method", "m", "", "the method, with -d")
	fl.StringVarP(&p.data, "data", "d", "", "the data set, with -m")
	dataDirFlag(fl, &p.dataDir)
	fl.BoolVar(&p.quick, "quick", false,
		"run the plan once and measure it; needs -m and -d")
	jobsFlag(fl, &p.jobs)
	a.describe(c, planDetails,
		flagsUnder("Plan", "target-epsilon delta users cohort rounds clip",
			"mechanism trust min-devices accountant numbers"),
		flagsUnder("Method", "method data quick", "data-dir jobs"))
	return c
}

func (p *planFlags) config(c *cobra.Command, words []string) (privacycost.PlanConfig, error) {
	cfg := privacycost.PlanConfig{
		Rounds: p.rounds, Users: p.users, Numbers: p.numbers, DataDir: p.dataDir,
		Jobs: p.jobs, Quick: p.quick,
	}
	const example = "example: tacit privacy plan --target-epsilon 8 --users 100000 --cohort poisson:0.01 --rounds 500"
	both := p.method != "" && p.data != ""
	for _, name := range []string{"target-epsilon", "rounds"} {
		if !c.Flags().Changed(name) && (name != "rounds" || !both) {
			return cfg, input(fmt.Errorf("--%s is missing", name), example)
		}
	}
	switch {
	case !both && (p.method != "" || p.data != ""):
		return cfg, input(fmt.Errorf("-m and -d must be given together"), "example: -m fedmf -d ml-100k")
	case !both && p.quick:
		return cfg, input(fmt.Errorf("--quick needs a method and a data set"), "add -m fedmf -d ml-100k")
	case !both && len(words) > 0:
		return cfg, input(fmt.Errorf("%q sets a parameter, but no method is given", words[0]),
			"add -m fedmf -d ml-100k")
	case !both && p.users == 0:
		return cfg, input(fmt.Errorf("--users is missing"), example)
	case both && p.users != 0:
		return cfg, input(fmt.Errorf("--users and -d exclude each other: the data set has its own users"),
			"omit one of them")
	}
	g := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	text := fmt.Sprintf("epsilon=%s,delta=%s,clip=%s,mechanism=%s,trust=%s,accountant=%s,min-devices=%d", g(p.epsilon),
		g(p.delta), g(p.clip), p.mechanism, p.trust, p.accountant, p.minDevices)
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

// spec is the run that a plan is for. Its cohort, rounds and privacy come from the plan's flags.
func (p *planFlags) spec(words []string) (*experiment.Spec, error) {
	given, err := experiment.Assignments(words, "command line")
	if err != nil {
		return nil, err
	}
	instead := map[string]string{
		"cohort": "--cohort", "rounds": "--rounds",
		"dp": "--target-epsilon, --delta, --clip, --mechanism and --trust",
	}
	for _, g := range given {
		if flags := instead[strings.TrimPrefix(g.Key, "params.")]; flags != "" {
			return nil, input(fmt.Errorf("%s=%s: a plan has a flag for this", g.Key, g.Value), "use "+flags)
		}
	}
	return experiment.Resolve(append(given, experiment.Setting{Key: "method", Value: p.method, From: "flag --method"},
		experiment.Setting{Key: "data", Value: p.data, From: "flag --data"}))
}

// writePlan prints a plan: the noise, a measured accuracy, and other ways to the same epsilon.
func writePlan(w io.Writer, p *privacycost.Plan, flags *planFlags) error {
	var b strings.Builder
	c := p.Chosen
	fmt.Fprintf(&b, "epsilon %g at delta %g for %d users, %d rounds, cohort %s: noise multiplier %s\n\n", p.Epsilon,
		p.Delta, p.Users, p.Rounds, c.Cohort, roundUp(c.Noise))
	row := func(name, value string) { fmt.Fprintf(&b, "  %-16s%s\n", name, value) }
	row("protects from", c.Guarantee)
	row("adjacency", c.Adjacency)
	row("sampler", fmt.Sprintf("%s, q %g", c.Sampler, c.Q))
	row("spent", "epsilon "+format.Epsilon(c.Spent)+" by all rounds")
	if c.Times > 0 {
		row("each device", fmt.Sprintf("takes part in at most %d of the %d rounds", c.Times, p.Rounds))
	}
	row("noise on mean", digits(c.OnMean)+" of the clipping bound on each number, per round")
	row("noise in model", digits(c.InModel)+" of the clipping bound on each number, after all rounds at server rate 1")
	row("total noise", fmt.Sprintf("norm %s of the clipping bound over %d numbers, per round; a mean update has at "+
		"most 1", digits(c.OnMean*math.Sqrt(float64(p.Numbers))), p.Numbers))
	fmt.Fprintf(&b, "\n%s\n", measuredText(p.Accuracy))
	if flags.method != "" {
		label := "run it"
		if p.Accuracy == nil || !p.Accuracy.Ran {
			label = "run it (not measured yet; --quick measures it)"
		}
		fmt.Fprintf(&b, "%s: %s\n", label, flags.command(p))
	}
	b.WriteString("\n")
	if err := otherWays(p).Text(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// measuredText describes the measured accuracy of a plan.
func measuredText(a *privacycost.PlanAccuracy) string {
	switch {
	case a == nil:
		return "measured: no similar run; --quick runs this plan"
	case a.Ran:
		return fmt.Sprintf("measured: HR@10 %.4f  NDCG@10 %.4f by a run of this plan, on validation items", a.HR,
			a.NDCG)
	}
	m := a.Row
	return fmt.Sprintf("measured: HR@10 %.4f  NDCG@10 %.4f on test items, by a similar run in docs/privacy.md with "+
		"other settings:\n  %s on %s, %d users, %s trust, epsilon %s spent, %d rounds, seed %d, commit %s\n  %s",
		a.HR, a.NDCG, m.Method, m.Data, m.Users, m.Privacy.Against, format.Epsilon(m.Privacy.Epsilon), m.Rounds, m.Seed,
		m.Commit, m.Settings)
}

// otherWays is a table of other ways to reach the same epsilon.
func otherWays(p *privacycost.Plan) *report.Table {
	t := &report.Table{
		Title:  fmt.Sprintf("other ways to reach epsilon %g", p.Epsilon),
		Header: []string{"", "cohort", "adjacency", "sampler", "multiplier", "on mean", "in model"}, Align: "llllrrr",
		Notes: []string{"Noise is relative to the clipping bound. Multipliers of different adjacencies refer to " +
			"different sensitivities: compare the last two columns."},
	}
	for _, o := range p.Others {
		if o.Refused != "" {
			t.Rows = append(t.Rows, []any{o.Name, o.Cohort, "rejected"})
			t.Notes = append(t.Notes, o.Name+": "+o.Refused+".")
			continue
		}
		t.Rows = append(t.Rows, []any{
			o.Name, o.Cohort, o.Adjacency, o.Sampler, roundUp(o.Noise), digits(o.OnMean), digits(o.InModel),
		})
	}
	return t
}

// command is the command that runs the plan.
func (f *planFlags) command(p *privacycost.Plan) string {
	words := []string{
		"tacit run -m", f.method, "-d", f.data, "--rounds", strconv.Itoa(p.Rounds), "--cohort",
		p.Chosen.Cohort, "--dp", p.Chosen.DP,
	}
	if p.Chosen.Secagg {
		words = append(words, "--secagg assumed")
	}
	return strings.Join(append(words, f.words...), " ")
}

// digits writes a number with four digits.
func digits(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// roundUp writes a noise multiplier with five digits, rounded up.
func roundUp(x float64) string {
	const n = 5
	s := strconv.FormatFloat(x, 'g', n, 64)
	if near, _ := strconv.ParseFloat(s, 64); near < x {
		s = strconv.FormatFloat(near+math.Pow(10, math.Floor(math.Log10(near))-n+1), 'g', n, 64)
	}
	return s
}
