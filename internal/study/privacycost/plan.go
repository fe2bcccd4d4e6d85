package privacycost

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/account"
	"github.com/tacit-rec/tacit/sim"
)

// PlanConfig is a promise that somebody thinks of.
type PlanConfig struct {
	Policy  privacy.Policy
	Cohort  round.Cohort
	Rounds  int
	Users   int // of the data, where a method is given
	Numbers int // of an update, likewise
	Spec    *experiment.Spec
	DataDir string
	Jobs    int
	Quick   bool         // run it
	Tell    func(string) // what takes its time

	each     []privacy.RoundShare // of the method's rounds, where they differ
	rationed bool
}

// Plan is what a promise would take.
type Plan struct {
	Epsilon  float64       `json:"epsilon"`
	Delta    float64       `json:"delta"`
	Users    int           `json:"users"`
	Rounds   int           `json:"rounds"`
	Numbers  int           `json:"numbers"` // of an update
	Chosen   PlanRow       `json:"chosen"`
	Others   []PlanRow     `json:"others"` // other ways to the same epsilon
	Accuracy *PlanAccuracy `json:"accuracy"`
}

// PlanRow is a way to an epsilon. Noise is a multiplier of the sensitivity, which
// differs between rows: what a mean has is in OnMean, and what the model has after all
// rounds in InModel, both in units of the bound.
type PlanRow struct {
	Name      string  `json:"name"`
	Cohort    string  `json:"cohort"`
	DP        string  `json:"dp"`
	Secagg    bool    `json:"secagg,omitempty"`
	Adjacency string  `json:"adjacency,omitempty"`
	Sampler   string  `json:"sampler,omitempty"`
	Q         float64 `json:"q,omitempty"`
	Spent     float64 `json:"spent,omitempty"` // of the epsilon, by all rounds
	Times     int     `json:"times,omitempty"` // that a device is in a sum at most, where the cohort says so
	Noise     float64 `json:"noise,omitempty"`
	OnMean    float64 `json:"noise_on_mean,omitempty"`
	InModel   float64 `json:"noise_in_model,omitempty"`
	Holds     string  `json:"holds,omitempty"`
	Refused   string  `json:"refused,omitempty"` // why there is none
}

// PlanAccuracy is what was measured: by a run of the plan itself, or for a row of
// docs/privacy.md.
type PlanAccuracy struct {
	Ran  bool    `json:"ran"`
	HR   float64 `json:"hr@10"` // of a run of the plan on validation, of a row on test
	NDCG float64 `json:"ndcg@10"`
	Row  *Row    `json:"row,omitempty"`
}

// NewPlan finds the noise, other ways to the same epsilon, and a measured accuracy.
func NewPlan(ctx context.Context, c PlanConfig) (*Plan, error) {
	var job *experiment.Job
	if c.Spec != nil {
		if err := c.measurable(); err != nil {
			return nil, err
		}
		var err error
		if job, err = c.open(); err != nil {
			return nil, err
		}
	}
	if c.Users < 1 || c.Rounds < 1 || c.Numbers < 1 {
		return nil, experiment.AsInput(fmt.Errorf("%d users, %d rounds, %d numbers: want 1 or more of each", c.Users,
			c.Rounds,
			c.Numbers), "")
	}
	if c.Cohort.Exceeds(c.Users) {
		return nil, experiment.AsInput(fmt.Errorf("--cohort %d, and there are %d users", c.Cohort.Count, c.Users),
			"take fewer, or --cohort all")
	}
	p := &Plan{Epsilon: c.Policy.Epsilon, Delta: c.Policy.Delta, Users: c.Users, Rounds: c.Rounds, Numbers: c.Numbers}
	c.Tell("the noise of the plan")
	p.Chosen = c.row("as planned", c.Policy, c.Cohort)
	if p.Chosen.Refused != "" {
		return nil, experiment.AsInput(fmt.Errorf("%s", p.Chosen.Refused),
			"tacit privacy keys lists what a promise may say")
	}
	for _, o := range c.others() {
		c.Tell("the noise of " + o.Name)
		if r := c.row(o.Name, o.policy, o.cohort); r.DP != p.Chosen.DP || r.Cohort != p.Chosen.Cohort {
			p.Others = append(p.Others, r)
		}
	}
	var err error
	if c.Quick && job != nil {
		p.Accuracy, err = c.run(ctx, job)
	} else {
		p.Accuracy, err = c.nearest()
	}
	return p, err
}

// measurable refuses a run of the plan that would have nothing to be measured on.
func (c *PlanConfig) measurable() error {
	protocol, err := data.ProtocolNamed(c.Spec.Protocol)
	if err != nil || !c.Quick || protocol.Validates() {
		return experiment.AsInput(err, "")
	}
	return experiment.AsInput(fmt.Errorf("--quick measures on validation items, and the protocol %s has none",
		protocol.Name),
		"add protocol=deployed, or leave --quick out")
}

// open reads how many users the data has, and how many numbers the method sends.
func (c *PlanConfig) open() (*experiment.Job, error) {
	src, err := experiment.OpenData(&c.Spec.Settings, c.DataDir)
	if err != nil {
		return nil, err
	}
	split, err := c.Spec.Split(src)
	if err != nil {
		return nil, err
	}
	bare := c.Spec.Options
	bare.DP, bare.Secagg, bare.Rounds = privacy.Policy{}, "off", max(c.Rounds, 1)
	run, err := sim.New(c.Spec.Params, split, bare, c.Spec.Seed, c.Jobs)
	if err != nil {
		return nil, experiment.AsInput(err, "")
	}
	c.Users, c.Numbers = run.Fleet.Count(), run.Fleet.Plan.MaxUpdateLength()
	c.each, c.rationed = run.Fleet.Plan.Rations()
	if run.Fleet.Plan.Central() || len(run.Fleet.Plan.SentSlots()) == 0 {
		return nil, experiment.AsInput(fmt.Errorf("%s is no federation: devices send nothing that noise could hide",
			c.Spec.Method),
			"tacit methods lists others")
	}
	return &experiment.Job{Spec: c.Spec, Source: src, Jobs: c.Jobs, NoReferences: true}, nil
}

// row builds the stack of a policy, or says why there is none.
func (c *PlanConfig) row(name string, p privacy.Policy, cohort round.Cohort) PlanRow {
	text, err := p.MarshalText()
	who, _ := cohort.MarshalText()
	r := PlanRow{Name: name, Cohort: string(who), DP: string(text), Secagg: p.Trust == privacy.Distributed}
	s := privacy.Run{
		Method: "this method", Sends: true, Users: c.Users, Expected: cohort.Expected(c.Users),
		Epoch: cohort.Epoch(c.Users), SelfSelected: cohort.ByCheckIn(), Rounds: c.Rounds,
		Numbers: c.Numbers, Mean: "fixed", Step: 1, Masked: p.Trust == privacy.Distributed, PerRound: c.each,
		SplitsBudget: c.rationed,
	}
	s.Sampler, s.Q = cohort.Sampling(c.Users)
	if err == nil {
		err = errors.Join(p.Check(), cohort.Check(c.Users))
	}
	var k *privacy.Stack
	if err == nil {
		k, err = privacy.Build(p, s)
	}
	if err != nil {
		r.Refused = err.Error()
		return r
	}
	e, err := k.Events(k.Noise, 1)
	if err != nil {
		r.Refused = err.Error()
		return r
	}
	r.Adjacency, r.Sampler, r.Q, r.Holds = string(k.Adjacency), string(e[0].Sampler), e[0].Q, p.Trust.Against()
	if r.Spent = k.Total.Epsilon; k.Epoch > 0 {
		r.Times = (c.Rounds + k.Epoch - 1) / k.Epoch
	}
	r.Noise, r.OnMean, r.InModel = k.Noise, k.MeanDeviation()/k.Clip, k.ModelDeviation()/k.Clip
	return r
}

type way struct {
	Name   string
	policy privacy.Policy
	cohort round.Cohort
}

// others are ways to the same epsilon with a cohort of about the same size.
func (c *PlanConfig) others() []way {
	n := c.Cohort.Expected(c.Users)
	plain := c.Policy
	plain.Trust, plain.Mechanism, plain.Adjacency, plain.Accountant = privacy.Central, privacy.Gauss, "",
		string(account.RDP)
	plain.Adaptive, plain.MinDevices, plain.Balance, plain.BitNoise = "off", 1, 0, 0
	tight, ftrl, shared, own := plain, plain, plain, plain
	tight.Accountant = string(account.PLD)
	ftrl.Mechanism = privacy.Tree
	shared.Trust, shared.MinDevices = privacy.Distributed, max(1, int(math.Ceil(n/2)))
	own.Trust = privacy.Local
	count := round.Cohort{Kind: "count", Count: max(1, int(math.Round(n)))}
	cycle := round.Cohort{Kind: "cycle", Count: count.Count}
	// half of the devices come
	come := round.Cohort{Kind: "checkin", Count: count.Count, Every: max(1, c.Users/(2*count.Count))}
	var out []way
	if share := n / float64(c.Users); share < 1 {
		lot := round.Cohort{Kind: "poisson", Share: short(share)}
		out = append(out,
			way{"each user by lot, zero-out", plain, lot},
			way{"each user by lot, accounted by PLD", tight, lot},
			way{"a fixed count, replace-one", plain, count})
	}
	return append(out,
		way{"everybody in every round", plain, round.Cohort{Kind: "all"}},
		way{"in turn, noise on a tree (DP-FTRL)", ftrl, cycle},
		way{"when they like, noise on a tree", ftrl, come},
		way{"noise by the devices, half of them honest", shared, c.Cohort},
		way{"all noise on each device", own, c.Cohort})
}

// short cuts a share to four digits, so that it can be typed.
func short(x float64) float64 {
	out, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return out
}

// run runs the plan once, with one evaluation of some users.
func (c *PlanConfig) run(ctx context.Context, job *experiment.Job) (*PlanAccuracy, error) {
	c.Tell("the run")
	text, err := c.Policy.MarshalText()
	if err != nil {
		return nil, err
	}
	cohort, err := c.Cohort.MarshalText()
	if err != nil {
		return nil, err
	}
	const from = "plan"
	given := []experiment.Setting{
		{Key: "rounds", Value: fmt.Sprint(c.Rounds), From: from},
		{Key: "eval-every", Value: fmt.Sprint(c.Rounds), From: from},
		{Key: "eval-users", Value: "1000", From: from},
		{Key: "cohort", Value: string(cohort), From: from},
		{Key: "dp", Value: string(text), From: from},
	}
	if c.Policy.Trust == privacy.Distributed {
		given = append(given, experiment.Setting{Key: "secagg", Value: "assumed", From: from})
	}
	if job.Spec, err = c.Spec.With(given); err != nil {
		return nil, err
	}
	r, err := job.Run(ctx)
	if err != nil {
		return nil, err
	}
	return &PlanAccuracy{Ran: true, HR: r.Valid.Sampled["hr@10"], NDCG: r.Valid.Sampled["ndcg@10"]}, nil
}

// nearest is the row of docs/privacy.md that is most like the plan, with the same trust, and of the
// method if one is given: by the data, then by epsilon and by users.
func (c *PlanConfig) nearest() (*PlanAccuracy, error) {
	rows, err := Rows()
	if err != nil {
		return nil, err
	}
	var best *Row
	least := math.Inf(1)
	for i := range rows {
		m := &rows[i]
		if m.Privacy == nil || m.Privacy.Against != string(c.Policy.Trust) || c.Spec != nil &&
			m.Method != unpromised(c.Spec.Method) {
			continue
		}
		eps, known := m.Privacy.Epsilon.(float64)
		if !known {
			continue
		}
		d := math.Abs(math.Log(eps/c.Policy.Epsilon)) + math.Abs(math.Log(float64(m.Users)/float64(c.Users)))
		if c.Spec != nil && m.Data != c.Spec.Data {
			d += 100
		}
		if d < least {
			best, least = m, d
		}
	}
	if best == nil {
		return nil, nil
	}
	return &PlanAccuracy{HR: best.HR, NDCG: best.NDCG, Row: best}, nil
}

// unpromised is the method of which this is the one with a promise: DP-PrivRec is PrivRec.
func unpromised(method string) string {
	if method == "dp-privrec" {
		return "privrec"
	}
	return method
}
