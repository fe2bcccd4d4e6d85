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

// PlanConfig is a guarantee to plan.
type PlanConfig struct {
	Policy  privacy.Policy
	Cohort  round.Cohort
	Rounds  int
	Users   int              // taken from the data if Spec is set
	Numbers int              // of an update; taken from the method if Spec is set
	Spec    *experiment.Spec // may be nil
	DataDir string
	Jobs    int
	Quick   bool           // measure the plan by a run
	OnEvent func(Planning) // receives progress events

	shares       []privacy.RoundShare // of the method's rounds, if they differ
	splitsBudget bool
}

// Planning is the event of a step of a plan that begins.
type Planning struct{ Step string }

// Plan is the noise that a guarantee requires, and the accuracy to expect.
type Plan struct {
	Epsilon  float64       `json:"epsilon"`
	Delta    float64       `json:"delta"`
	Users    int           `json:"users"`
	Rounds   int           `json:"rounds"`
	Numbers  int           `json:"numbers"` // of an update
	Chosen   PlanRow       `json:"chosen"`
	Others   []PlanRow     `json:"others"` // alternatives with the same epsilon
	Accuracy *PlanAccuracy `json:"accuracy"`
}

// PlanRow is one way to achieve an epsilon. Noise multiplies the sensitivity, which differs between
// rows. To compare rows, use OnMean, the noise on a round's mean, and InModel, the noise in the model
// after all rounds, both in units of the clipping bound.
type PlanRow struct {
	Name      string  `json:"name"`
	Cohort    string  `json:"cohort"`
	DP        string  `json:"dp"`
	Secagg    bool    `json:"secagg,omitempty"`
	Adjacency string  `json:"adjacency,omitempty"`
	Sampler   string  `json:"sampler,omitempty"`
	Q         float64 `json:"q,omitempty"`
	Spent     float64 `json:"spent,omitempty"` // epsilon of all rounds
	Times     int     `json:"times,omitempty"` // maximum of rounds per device, if the cohort limits it
	Noise     float64 `json:"noise,omitempty"`
	OnMean    float64 `json:"noise_on_mean,omitempty"`
	InModel   float64 `json:"noise_in_model,omitempty"`
	Guarantee string  `json:"holds,omitempty"`
	Refused   string  `json:"refused,omitempty"` // why this way is not possible
}

// PlanAccuracy is a measured accuracy: of a run of the plan, or of the nearest row of docs/privacy.md.
type PlanAccuracy struct {
	Ran  bool    `json:"ran"`
	HR   float64 `json:"hr@10"` // on validation items for a run of the plan, on test items for a row
	NDCG float64 `json:"ndcg@10"`
	Row  *Row    `json:"row,omitempty"`
}

// NewPlan computes the noise of a guarantee, alternatives with the same epsilon, and a measured accuracy.
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
		return nil, experiment.AsInput(fmt.Errorf("%d users, %d rounds, %d numbers: each must be at least 1", c.Users,
			c.Rounds, c.Numbers), "")
	}
	if c.Cohort.Exceeds(c.Users) {
		return nil, experiment.AsInput(fmt.Errorf("--cohort %d exceeds the %d users", c.Cohort.Count, c.Users),
			"use a smaller cohort, or --cohort all")
	}
	p := &Plan{Epsilon: c.Policy.Epsilon, Delta: c.Policy.Delta, Users: c.Users, Rounds: c.Rounds, Numbers: c.Numbers}
	c.OnEvent(Planning{"the noise of the plan"})
	p.Chosen = c.row("as planned", c.Policy, c.Cohort)
	if p.Chosen.Refused != "" {
		return nil, experiment.AsInput(fmt.Errorf("%s", p.Chosen.Refused),
			"tacit privacy keys lists the keys")
	}
	for _, o := range c.others() {
		c.OnEvent(Planning{"the noise of " + o.Name})
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

// measurable returns an error if a run of the plan could not be measured.
func (c *PlanConfig) measurable() error {
	protocol, err := data.ProtocolNamed(c.Spec.Protocol)
	if err != nil || !c.Quick || protocol.Validates() {
		return experiment.AsInput(err, "")
	}
	return experiment.AsInput(fmt.Errorf("--quick requires validation items, and the protocol %s has none",
		protocol.Name), "add protocol=deployed, or omit --quick")
}

// open opens the data, and takes the number of users and of numbers in an update from data and method.
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
	c.Users, c.Numbers = run.DeviceCount(), run.Plan().MaxUpdateLength()
	c.shares, c.splitsBudget = run.Plan().RoundShares()
	if run.Plan().Central() || len(run.Plan().SentSlots()) == 0 {
		return nil, experiment.AsInput(fmt.Errorf("devices send nothing with the method %s: there is nothing to add "+
			"noise to",
			c.Spec.Method), "tacit methods lists the methods")
	}
	return &experiment.Job{Spec: c.Spec, Source: src, Jobs: c.Jobs, NoReferences: true}, nil
}

// row builds the stack of a policy, or says why that is not possible.
func (c *PlanConfig) row(name string, p privacy.Policy, cohort round.Cohort) PlanRow {
	text, err := p.MarshalText()
	cohortText, _ := cohort.MarshalText()
	r := PlanRow{Name: name, Cohort: string(cohortText), DP: string(text), Secagg: p.Trust == privacy.Distributed}
	s := privacy.Run{
		Method: "this method", Sends: true, Users: c.Users, Expected: cohort.Expected(c.Users),
		Epoch: cohort.Epoch(c.Users), SelfSelected: cohort.ByCheckIn(), Rounds: c.Rounds,
		Numbers: c.Numbers, Mean: "fixed", Step: 1, Masked: p.Trust == privacy.Distributed, PerRound: c.shares,
		SplitsBudget: c.splitsBudget,
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
	r.Adjacency, r.Sampler, r.Q, r.Guarantee = string(k.Adjacency), string(e[0].Sampler), e[0].Q, p.Trust.Against()
	r.Spent = k.Total.Epsilon
	if k.Epoch > 0 {
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

// others returns alternatives with the same epsilon and a cohort of about the same size.
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
	// half of the devices check in
	come := round.Cohort{Kind: "checkin", Count: count.Count, Every: max(1, c.Users/(2*count.Count))}
	var out []way
	if share := n / float64(c.Users); share < 1 {
		lot := round.Cohort{Kind: "poisson", Share: short(share)}
		out = append(out,
			way{"Poisson sampling, zero-out", plain, lot},
			way{"Poisson sampling, PLD accountant", tight, lot},
			way{"fixed-size cohorts, replace-one", plain, count})
	}
	return append(out,
		way{"all users in every round", plain, round.Cohort{Kind: "all"}},
		way{"cyclic cohorts, tree noise (DP-FTRL)", ftrl, cycle},
		way{"cohorts of devices that check in, tree noise", ftrl, come},
		way{"distributed noise, half of the devices honest", shared, c.Cohort},
		way{"local noise on each device", own, c.Cohort})
}

// short rounds a share to four digits, so that it can be typed.
func short(x float64) float64 {
	out, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return out
}

// run runs the plan once and evaluates up to 1000 users after the last round.
func (c *PlanConfig) run(ctx context.Context, job *experiment.Job) (*PlanAccuracy, error) {
	c.OnEvent(Planning{"the run"})
	text, err := c.Policy.MarshalText()
	if err != nil {
		return nil, err
	}
	cohort, err := c.Cohort.MarshalText()
	if err != nil {
		return nil, err
	}
	const from = "plan"
	given := experiment.Pairs(from, fmt.Sprint("rounds=", c.Rounds), fmt.Sprint("eval-every=", c.Rounds),
		"eval-users=1000", "cohort="+string(cohort), "dp="+string(text))
	if c.Policy.Trust == privacy.Distributed {
		given = append(given, experiment.Pairs(from, "secagg=assumed")...)
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

// nearest returns the most similar row of docs/privacy.md with the same trust and, if one is set, the
// same method: by data set first, then by epsilon and number of users.
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
			m.Method != withoutGuarantee(c.Spec.Method) {
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

// withoutGuarantee returns the name of the same method without a guarantee: DP-PrivRec is PrivRec.
func withoutGuarantee(method string) string {
	if method == "dp-privrec" {
		return "privrec"
	}
	return method
}
