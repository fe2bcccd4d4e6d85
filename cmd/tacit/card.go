package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
)

// cardData describes a run before it starts.
type cardData struct {
	Method   string  `json:"method"`
	Preset   string  `json:"preset,omitempty"`
	Data     string  `json:"dataset"`
	Users    int     `json:"users"`
	Items    int     `json:"items"`
	Rows     int     `json:"interactions"`
	Sparsity float64 `json:"sparsity"`
	Hash     string  `json:"data_hash"`
	Left     string  `json:"left_out,omitempty"`
	Columns  string  `json:"columns,omitempty"`

	Notes []string `json:"notes,omitempty"`
	Split string   `json:"split,omitempty"`
	// TestRows says which test rows are ranked, if users may have several.
	TestRows string `json:"test_rows,omitempty"`

	Protocol     string  `json:"protocol"`
	Leaks        bool    `json:"leaks"`
	About        string  `json:"protocol_about"`
	EvalUsers    int     `json:"evaluated_sample,omitempty"`
	SharedFloats int     `json:"shared_parameters"`
	PrivateFloat int     `json:"private_parameters_per_device"`
	Central      bool    `json:"central,omitempty"`
	BytesUpMax   int     `json:"bytes_up_at_most"`
	BytesDown    int     `json:"bytes_down"`
	Memory       int     `json:"memory_estimate_bytes"`
	Seconds      float64 `json:"seconds_estimate"` // of all seeds, with the two below
	RefSeconds   float64 `json:"seconds_estimate_references"`
	FigSeconds   float64 `json:"seconds_estimate_figures"`
	Seeds        int     `json:"seeds"`
	Rounds       int     `json:"rounds"`

	Privacy *privacyCard `json:"privacy,omitempty"`
}

// privacyCard is the guarantee of a run with --dp.
type privacyCard struct {
	Epsilon   any      `json:"epsilon_at_most"`
	Delta     float64  `json:"delta"`
	Against   string   `json:"against"`
	Guarantee string   `json:"holds"`
	Adjacency string   `json:"adjacency"`
	Sampler   string   `json:"sampler"`
	Q         float64  `json:"q"`
	Mechanism string   `json:"mechanism"`
	Noise     float64  `json:"noise"`
	Uneven    bool     `json:"uneven,omitempty"`
	Clip      float64  `json:"clip"`
	Rounds    int      `json:"rounds"`
	Whole     any      `json:"epsilon_of_all_rounds"`
	Device    []string `json:"stages_on_the_device"`
	Then      []string `json:"stages_at_the_coordinator"`
	Caveats   []string `json:"caveats"`
}

// perSample and perWeight are rough costs on one core in seconds, for the estimate: of a training
// sample, and of each weight of a network that it passes through.
const perSample, perWeight = 30e-9, 0.25e-9

func cardOf(e experiment.Started) cardData {
	j, p, in := e.Job, e.Run.Plan(), e.Split.Source.Info()
	users, items := e.Split.Users(), e.Split.Items()
	rows := experiment.Rows(e.Split.Source)
	c := cardData{
		Method: j.Method, Data: in.Name, Users: users, Items: items, Rows: rows,
		Sparsity: 1 - float64(rows)/float64(users)/float64(items),
		Hash:     in.Hash, Left: in.FilteredOut, Columns: in.Columns, Notes: in.Notes,
		Split:    splitText(e.Split, j.TimeCut),
		TestRows: testRowsText(e.Split),
		Protocol: j.Protocol, Leaks: e.Split.Leaks(),
		About: e.Split.About, Rounds: j.Rounds,
		BytesDown: int(p.MeanBytesDown(p.Rounds)), BytesUpMax: p.MaxBytesUp(), Central: p.Central(),
	}
	if set, ok := e.Split.Source.(*data.Set); ok {
		c.Sparsity = data.Describe(set).Sparsity // repeated pairs count once
	}
	if n := j.EvalUsers.Of(e.Split); n < users {
		c.EvalUsers = n
	}
	if j.Preset != nil {
		c.Preset = j.Preset.Name()
	}
	if g := e.Run.Stack(); g != nil {
		c.Privacy = privacyCardOf(g)
	}
	c.SharedFloats, c.PrivateFloat = p.Sizes()
	cores := float64(max(j.Jobs, 1))
	c.Seeds = max(j.SeedOf-j.SeedAt+1, j.Seeds)
	c.RefSeconds, c.FigSeconds = j.ReferenceSeconds(e.Split)/cores, j.FigureSeconds(e.Run)/cores
	c.Memory = memory(e, rows)
	c.Seconds = estimate(e, float64(rows))*float64(c.Seeds) + c.RefSeconds + c.FigSeconds
	return c
}

// memory estimates the peak of a run without references and figures, in bytes. A test checks it
// within a factor of 1.5.
func memory(e experiment.Started, rows int) int {
	const program = 32 << 20 // the program and the Go runtime
	users, p := e.Split.Users(), e.Run.Plan()
	perUser := 200 + 4*p.PlainSize() + p.TableBytes()*3/2 // bookkeeping and state; tables grow row by row
	n := program + e.Run.Memory().Bytes() + perUser*users + roundBytes(p, e.Job.Jobs)
	if _, held := e.Split.Source.(*data.Set); held {
		n += 48 * rows // and what reading left behind
	}
	if p.Central() {
		n += 80 * p.MaxSamples(rows) // the pooled samples
	}
	return n
}

// roundBytes is the memory of a round beside the values and the sums of the shards: the copy of the model
// before the server step, the sum over the shards, and what each worker copies of a plain slot.
func roundBytes(p *local.Plan, workers int) (n int) {
	for _, s := range p.Slots {
		size := 4 * s.Rows * vec.Pad(s.Dim)
		shared := s.Scope == method.Shared
		if s.Scope == method.Server || shared && s.Upload != method.Sum {
			n += size
		}
		if shared && s.Upload != method.Broadcast {
			n += size
			if !s.PerItem && !s.Sparse {
				n += 3 * workers * size
			}
		}
	}
	return n
}

func privacyCardOf(g *privacy.Stack) *privacyCard {
	p := &privacyCard{
		Epsilon: finite(g.Total.Epsilon), Delta: g.Delta, Against: string(g.Trust), Guarantee: g.Against(),
		Adjacency: string(g.Adjacency),
		Sampler:   "none", Q: 1, Mechanism: string(g.Mechanism), Noise: g.Noise, Uneven: g.VariesByRound(),
		Clip:   g.Clip,
		Rounds: g.Rounds, Whole: finite(g.Total.Epsilon), Caveats: g.Caveats(),
	}
	if e, err := g.Events(g.Noise, 1); err == nil {
		p.Sampler, p.Q = string(e[0].Sampler), e[0].Q
	}
	if g.Epsilon > 0 && !(g.Total.Epsilon <= g.Epsilon) {
		p.Epsilon = g.Epsilon
	}
	p.Device, p.Then = g.Steps()
	return p
}

// finite is a number, or "inf", because JSON has no infinity.
func finite(x float64) any {
	if math.IsInf(x, 1) {
		return "inf"
	}
	return x
}

// write prints the guarantee.
func (p *privacyCard) write(w io.Writer) {
	fmt.Fprintf(w, "privacy   epsilon at most %s at delta %g, adjacency %s, trust %s; protects from %s\n",
		format.Epsilon(p.Epsilon), p.Delta, p.Adjacency, p.Against, p.Guarantee)
	if p.Epsilon != p.Whole {
		fmt.Fprintf(w, "          all %d rounds would cost %s: training stops before it exceeds the budget\n", p.Rounds,
			format.Epsilon(p.Whole))
	}
	sampler := "no amplification by sampling"
	if p.Sampler != "none" {
		sampler = fmt.Sprintf("sampler %s with q %.4g", p.Sampler, p.Q)
	}
	where := ""
	if p.Uneven {
		where = " in a round with the mean budget"
	}
	fmt.Fprintf(w, "          %s noise of %.5g times the sensitivity%s; updates clipped to %.4g; %s; %s\n",
		p.Mechanism, p.Noise, where, p.Clip, sampler, format.Plural(p.Rounds, "round"))
	fmt.Fprintf(w, "          stages: %s on the device; %s at the coordinator\n", strings.Join(p.Device, ", "),
		strings.Join(p.Then, ", "))
	for _, c := range p.Caveats {
		fmt.Fprintf(w, "          note: %s\n", c)
	}
}

// estimate is a rough time for training and evaluation of one seed in seconds, without references and figures.
func estimate(e experiment.Started, rows float64) float64 {
	j, users := e.Job, float64(e.Split.Users())
	cohort := j.Cohort.Expected(e.Split.Users()) / users
	measured := users / float64(j.EvalEvery)
	if n := j.EvalUsers.Of(e.Split); n > 0 {
		measured = min(measured, float64(n)/float64(j.EvalEvery))
	}
	per := float64(2*e.Split.Sampled) * 10e-9
	if e.Split.Full {
		per += float64(e.Split.Items()) * 6e-9
	}
	plan, weights := e.Run.Plan(), 0
	for _, s := range plan.Slots {
		if !s.PerItem && !s.PerUser && s.Rows > 1 {
			weights += s.Rows * s.Dim
		}
	}
	all, visit, inPasses := experiment.PassSeconds(j.Params, e.Split.Source, j.Rounds, cohort*users)
	if inPasses {
		per += visit
	} else if e.Split.Full {
		per += float64(e.Split.Items()*weights) * perWeight / 2
	}
	passes := 1.0
	for _, key := range []string{"epochs", "recon"} {
		if n, ok := param.Values(j.Params)[key].(int); ok {
			passes += float64(n - 1)
		}
	}
	train := float64(plan.MaxSamples(1)) * rows * cohort * passes * (perSample + float64(weights)*perWeight)
	if !plan.Central() { // central training uses one goroutine
		train /= float64(max(j.Jobs, 1))
	}
	if inPasses {
		train = all / float64(max(j.Jobs, 1)) / float64(max(j.Rounds, 1))
	}
	return float64(j.Rounds) * (train + measured*per/float64(max(j.Jobs, 1)))
}

// card prints what is known of a run before it starts.
func card(w io.Writer, e experiment.Started) {
	c := cardOf(e)
	leak := "does not leak"
	if c.Leaks {
		leak = "LEAKS"
	}
	preset := ""
	if c.Preset != "" {
		preset = ", preset " + c.Preset
		if f := e.Job.Preset.File; f != "" {
			preset += " (" + f + ")"
		}
	}
	fmt.Fprintf(w, "data      %s: %d users, %d items, %d interactions, sparsity %.2f%%, hash %.12s\n", c.Data, c.Users,
		c.Items, c.Rows, 100*c.Sparsity, c.Hash)
	if c.Columns != "" && e.Job.Preset == nil {
		fmt.Fprintf(w, "          columns: %s\n", c.Columns)
	}
	if c.Left != "" {
		fmt.Fprintf(w, "          dropped: %s\n", c.Left)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(w, "          note: %s\n", n)
	}
	if c.Split != "" {
		fmt.Fprintf(w, "split     %s\n", c.Split)
	}
	if c.TestRows != "" {
		fmt.Fprintf(w, "test rows %s\n", c.TestRows)
	}
	fmt.Fprintf(w, "protocol  %s (%s): %s\n", c.Protocol, leak, c.About)
	if c.EvalUsers > 0 {
		fmt.Fprintf(w, "          evaluated on a sample of %d of %d users (--eval-users all evaluates all)\n",
			c.EvalUsers, c.Users)
	}
	if c.Central {
		fmt.Fprintf(w,
			"method    %s%s: trained centrally, not federated: every history leaves its device\n", c.Method,
			preset)
	} else {
		fmt.Fprintf(w, "method    %s%s: %d shared numbers, %d private numbers per device\n", c.Method, preset,
			c.SharedFloats, c.PrivateFloat)
		fmt.Fprintf(w, "traffic   %s down, at most %s up, per device and round\n", size(float64(c.BytesDown)),
			size(float64(c.BytesUpMax)))
	}
	if c.Privacy != nil {
		c.Privacy.write(w)
	}
	rounds := format.Plural(c.Rounds, "round")
	if c.Seeds > 1 {
		rounds += fmt.Sprintf(" for each of %d seeds", c.Seeds)
	}
	fmt.Fprintf(w, "estimate  %s, about %s of memory and %s%s\n", rounds, size(float64(c.Memory)), roughly(c.Seconds),
		c.others())
}

// others says how much of the estimate is not training, and which flags skip it.
func (c *cardData) others() string {
	var parts []string
	if c.RefSeconds >= 1 {
		parts = append(parts, roughly(c.RefSeconds)+" for reference rows (--no-references)")
	}
	if c.FigSeconds >= 1 {
		parts = append(parts, roughly(c.FigSeconds)+" for figures (--no-figures)")
	}
	if len(parts) == 0 {
		return ""
	}
	return ", of which " + strings.Join(parts, " and ")
}

// testRowsText says how many test rows are ranked, if a user may have several.
func testRowsText(s *data.Split) string {
	if s.AllTest {
		return "all test rows of a user are ranked together"
	}
	if _, in := s.Source.(*data.Set); !in { // generated user by user
		return ""
	}
	rows, ranked := 0, 0
	var p data.Part
	for u := range s.Users() {
		s.User(u, &p)
		if _, tests := p.HeldOutRows(); p.Test != data.None {
			rows, ranked = rows+len(tests), ranked+1
		}
	}
	if rows == ranked {
		return ""
	}
	return fmt.Sprintf("%d of %d test rows are ranked, the first of each user (--test-rows all ranks all)", ranked,
		rows)
}

// splitText says in words how the user chose to split the data; empty if the protocol splits it.
func splitText(s *data.Split, cut string) string {
	if in := s.Source.Info(); in.Split != "" {
		return in.Split
	}
	if cut == "" {
		return ""
	}
	return "by time: validation and test start at " + strings.ReplaceAll(cut, ",", " and ")
}

// dryRun prints the card without running anything.
func (a *app) dryRun(j *experiment.Job) error {
	split, err := j.Split(j.Source)
	if err != nil {
		return err
	}
	j.Options.Name = j.Method
	run, err := sim.New(j.Params, split, j.Options, j.Seed, j.Jobs)
	if err != nil {
		return input(err, "")
	}
	e := experiment.Started{Job: j, Run: run, Split: split}
	return a.result(cardOf(e), func(w io.Writer) error { card(w, e); return nil })
}

// roughly writes an estimate of seconds without false precision.
func roughly(s float64) string {
	switch {
	case s < 1:
		return "a second"
	case s < 100:
		return fmt.Sprintf("%.0f s", s)
	case s > 3*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return fmt.Sprintf("%.0f min", s/60)
}
