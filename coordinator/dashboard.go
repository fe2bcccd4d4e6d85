package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"

	"github.com/tacit-rec/tacit/coordinator/internal/dashboard"
	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/method"
)

// DashboardPath is where the dashboard is, on the address of the coordinator too.
const DashboardPath = dashboard.Prefix + "/"

// DashboardIntro is a text above the dashboard's overview, for demonstrations.
type DashboardIntro = dashboard.Intro

// Dashboard returns a handler of the dashboard for a server of its own, on a loopback address. Everybody who reaches
// it can read the overview and the catalogue; lists of devices, the audit log and changes require an operator's token.
// It answers only requests that name the host by a loopback address. The dashboard on the address of the coordinator
// requires a token for all pages. The intro is shown above the overview; it may be nil.
func (c *Coordinator) Dashboard(intro *DashboardIntro) http.Handler {
	wrong := rate.NewLimiter(0.5, 10) // all clients are on this machine
	return c.newDashboard(true, intro, func(_ *http.Request, token string) (rpc.Operator, error) {
		if wrong.Tokens() < 1 {
			return rpc.Operator{}, errors.New("too many wrong tokens: try again in 2 s")
		}
		o, ok := c.authorize(token)
		if !ok {
			wrong.Allow()
			return o, errWrongToken
		}
		return o, nil
	})
}

var errWrongToken = errors.New("no operator has this token: check it, or create one with tacit admin add-operator")

// mountedDashboard is the dashboard on the address of the coordinator.
func (c *Coordinator) mountedDashboard() rpc.Mount {
	d := c.newDashboard(false, nil, func(r *http.Request, token string) (rpc.Operator, error) {
		o, err := rpc.CheckToken(r, token)
		if rpc.Code(err) == rpc.BadToken {
			err = errWrongToken
		}
		return o, forPeople(err)
	})
	return rpc.Mount{Prefix: dashboard.Prefix, Open: true, Handler: func(w http.ResponseWriter, r *http.Request) error {
		d.ServeHTTP(w, r)
		return nil
	}}
}

func (c *Coordinator) newDashboard(open bool, intro *DashboardIntro,
	signIn func(*http.Request, string) (rpc.Operator, error),
) *dashboard.Dashboard {
	d := dashboard.New(dashboard.Options{
		Source: &dashboardSource{c: c, demo: intro != nil}, Open: open, Intro: intro,
		SignIn: func(r *http.Request, token string) (dashboard.Operator, error) {
			o, err := signIn(r, token)
			return dashboard.Operator(o), err
		},
		Valid: func(r *http.Request, token string) (dashboard.Operator, bool) {
			o, ok := c.authorize(token)
			if ok && !open {
				_, _ = rpc.CheckToken(r, token) // the server keeps connections of operators
			}
			return dashboard.Operator(o), ok
		},
	})
	context.AfterFunc(c.life, d.Close)
	return d
}

// forPeople keeps the message of an error, without its code.
func forPeople(err error) error {
	if ce := new(connect.Error); errors.As(err, &ce) {
		return errors.New(ce.Message())
	}
	return err
}

// dashboardSource is what the dashboard shows and does.
type dashboardSource struct {
	c    *Coordinator
	demo bool

	mu      sync.Mutex
	history []dashboard.Version // of the newest version
	newest  uint64
}

var _ dashboard.Source = (*dashboardSource)(nil)

// Call makes a call of the admin API, as if the operator had made it.
func (d *dashboardSource) Call(r *http.Request, o dashboard.Operator, path string, args any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	q := r.Clone(rpc.Operator(o).Context(r.Context()))
	q.URL = &url.URL{Path: rpc.AdminPrefix + path}
	q.Header = http.Header{"Content-Type": {"application/json"}}
	q.Body = io.NopCloser(bytes.NewReader(body))
	err = d.c.serveAdmin(discarded{http.Header{}}, q)
	if err != nil && !errors.As(err, new(*connect.Error)) {
		d.c.opt.Warn(fmt.Sprintf("dashboard: POST %s: %v", path, err))
		return errors.New("internal error of the coordinator; its log has the details")
	}
	return forPeople(err)
}

// discarded is the answer of a call whose outcome is enough.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header         { return d.header }
func (d discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d discarded) WriteHeader(int)             {}

// Devices lists devices from an ID on.
func (d *dashboardSource) Devices(from uint32, limit int) (out []dashboard.Device, next uint32) {
	all := d.c.Devices(from, limit)
	for _, x := range all.Devices {
		out = append(out, dashboard.Device{
			ID: x.ID, State: string(x.State), Reason: x.Reason, Enrolled: x.Enrolled, LastSeen: x.LastSeen,
			Software: x.Software, Note: x.Note, Epsilon: x.Epsilon,
		})
	}
	return out, all.Next
}

// Items lists a page of the catalogue.
func (d *dashboardSource) Items(from uint64, limit int) dashboard.Items {
	all := d.c.Items(from, limit)
	out := dashboard.Items{Version: all.Version, Count: all.Count, Waiting: all.Waiting, Next: all.Next}
	for _, it := range all.Items {
		out.List = append(out.List, dashboard.Item(it))
	}
	return out
}

// Audit returns the last entries of the audit log, the newest first.
func (d *dashboardSource) Audit(limit int) (out []dashboard.Entry, damage string, err error) {
	all, err := d.c.Audit(limit)
	if err != nil {
		return nil, "", err
	}
	for _, e := range slices.Backward(all.Entries) {
		out = append(out, dashboard.Entry{
			Time: e.Time, Call: e.Name, Args: string(e.Args), Operator: e.Operator, Remote: e.Remote,
			Outcome: e.Outcome,
		})
	}
	return out, all.Damage, nil
}

// Snapshot is what the overview shows.
func (d *dashboardSource) Snapshot() dashboard.Snapshot {
	c := d.c
	s := c.Status()
	out := dashboard.Snapshot{
		Time: c.now(), Name: s.Name, State: string(s.State), Message: s.Message, Paused: s.Paused,
		Demo:    d.demo,
		Quality: dashboard.Quality{Missed: s.EvaluationMissed},
	}
	began, before := c.admin.rounds.open()
	states, heard := c.devices.States(c.now(), began)
	out.Devices = devicesOf(&s, states)
	for _, p := range c.devices.Programs(6) {
		out.Devices.Programs = append(out.Devices.Programs, dashboard.Program(p))
	}
	out.Traffic = trafficOf(s.Counts)
	out.Traffic.Received, out.Traffic.Sent = c.admin.traffic.received.Load(), c.admin.traffic.sent.Load()
	if !c.begun() {
		return out
	}
	out.Run = dashboard.Run{
		Begun: true, Number: s.RunNumber, Method: s.Method, Round: s.Round, Rounds: s.Rounds, Version: s.Version,
		Items: s.Items, Catalogue: s.Catalogue, NextRun: s.NextRun, RollbackTo: s.RollbackTo, Masked: s.Masked,
		Deterministic: s.Deterministic, Sampled: c.sampled(),
	}
	if s.State == Evaluating || s.State == Training && !began.IsZero() {
		open := &dashboard.OpenRound{Number: s.Round + 1, Evaluation: s.State == Evaluating, Began: began}
		if open.Evaluation {
			open.Number = s.Round
		}
		spent := c.totals().since(before)
		open.Stages = dashboard.Stages{
			CheckedIn: heard, Selected: s.Expected, Reported: s.Counted, Late: spent.late, Refused: spent.refused,
		}
		out.Open = open
	}
	out.Rounds, out.Quality.Evaluations = roundsOf(c.Rounds()), evaluationsOf(s.Evaluations)
	out.Privacy = dashboard.Privacy{
		On: s.Delta != nil, Policy: s.Policy, Guarantee: s.Guarantee, Epsilon: s.Epsilon, Budget: s.BudgetEpsilon,
		Delta: s.Delta, TooLow: s.EpsilonTooLow, Period: s.BudgetPeriod, Run: s.RunInPeriod, Runs: s.Budget.Runs,
		Lines: s.LedgerLines, LedgerOK: s.LedgerOK,
	}
	out.History = d.versions(s.Version)
	c.mu.Lock()
	slots := c.plan.Slots
	c.mu.Unlock()
	out.Upload = uploadOf(slots)
	if last := len(out.Rounds) - 1; last >= 0 && !out.Run.Sampled && out.Rounds[last].Reported > 0 {
		out.Upload.Bytes = out.Rounds[last].Received / int64(out.Rounds[last].Reported)
	}
	return out
}

// uploadOf says what a device sends of the slots, and what it keeps.
func uploadOf(slots []method.Slot) (out dashboard.Upload) {
	for i := range slots {
		switch s := &slots[i]; {
		case s.Scope == method.Private || s.Scope == method.Ephemeral:
			out.Kept = append(out.Kept, s.Doc)
		case s.Scope != method.Shared || s.Upload == method.Broadcast:
		case s.Upload == method.Delta:
			out.Sent = append(out.Sent, "change of "+s.Doc)
		case s.Upload == method.Gradient:
			out.Sent = append(out.Sent, "gradient of "+s.Doc)
		default:
			out.Sent = append(out.Sent, s.Doc)
		}
	}
	return out
}

// roundsOf are the rounds of the last run that has some.
func roundsOf(all []RoundInfo) (out []dashboard.Round) {
	for _, r := range all {
		if r.RunNumber != all[len(all)-1].RunNumber {
			continue
		}
		out = append(out, dashboard.Round{
			Run: r.RunNumber, Number: r.Round, Version: r.Version, Ended: r.Ended, Seconds: r.Seconds,
			Sampled: r.Sampled, Received: r.Received, Sent: r.Sent, Discarded: r.Discarded, Rejected: r.Rejected,
			Epsilon: r.Epsilon,
			Stages: dashboard.Stages{
				CheckedIn: r.CheckedIn, Selected: r.Cohort, Reported: r.Counted, Late: r.Late, Refused: r.Refused,
			},
		})
	}
	return out
}

// maxEvaluationsShown is how many evaluations the overview shows.
const maxEvaluationsShown = 200

// evaluationsOf are the last evaluations of the last run that has some.
func evaluationsOf(all []Evaluation) (out []dashboard.Evaluation) {
	for _, e := range all {
		if e.Run != all[len(all)-1].Run {
			continue
		}
		out = append(out, dashboard.Evaluation{
			Run: e.Run, Round: e.Round, HR10: e.HR10, NDCG10: e.NDCG10, Popular: e.Popular, PopHR10: e.PopHR10,
			PopNDCG10: e.PopNDCG10, Devices: e.Devices, NoiseFraction: e.Share,
		})
	}
	return out[max(0, len(out)-maxEvaluationsShown):]
}

// versions lists the model versions, the newest first. It reads them once for each newest version.
func (d *dashboardSource) versions(newest uint64) []dashboard.Version {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.newest == newest && d.history != nil {
		return d.history
	}
	all, err := d.c.History()
	if err != nil { // the folder cannot be read at the moment, which the state says
		return d.history
	}
	d.newest, d.history = newest, nil
	for i, v := range slices.Backward(all) {
		d.history = append(d.history, dashboard.Version{
			Number: v.Version, Run: int(v.RunNumber), Round: int(v.Round), Created: v.Created,
			RolledBack: v.RolledBack, Newest: i == len(all)-1,
		})
	}
	return d.history
}

// maxExcludedShown is how many excluded devices the overview lists.
const maxExcludedShown = 10

func devicesOf(s *Status, states map[enrolment.State]int) dashboard.Devices {
	out := dashboard.Devices{
		Planned: s.Devices, Enrolled: s.Enrolled, Active: states[enrolment.Active], Overdue: states[enrolment.Overdue],
		Left: states[enrolment.Left], Revoked: states[enrolment.Revoked], Excluded: len(s.Excluded), Lost: s.Lost,
	}
	for _, e := range s.Excluded[:min(maxExcludedShown, len(s.Excluded))] {
		out.List = append(out.List, dashboard.Excluded(e))
	}
	return out
}

func trafficOf(counts map[string]int64) dashboard.Traffic {
	out := dashboard.Traffic{
		CheckIns: counts[checkInCounter], Rounds: counts["rounds"], Late: counts["late"],
		Discarded: counts["rounds_discarded"], AttemptsEnded: counts["attempts_ended"],
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if code, ok := strings.CutPrefix(key, refusedPrefix); ok {
			out.Refusals = append(out.Refusals, dashboard.Refusal{Code: code, Count: counts[key]})
		}
	}
	slices.SortStableFunc(out.Refusals, func(a, b dashboard.Refusal) int { return cmp.Compare(b.Count, a.Count) })
	out.Refusals = out.Refusals[:min(6, len(out.Refusals))]
	return out
}

// Vectors returns rows of the newest model: those of the most popular items, or of every n-th one if popularity is
// unknown. Devices have the same rows.
func (d *dashboardSource) Vectors(limit int) (*dashboard.Vectors, error) {
	c := d.c
	v := c.models.Newest()
	if !c.begun() || v == nil {
		return nil, errors.New("no model yet: the map appears when a run has begun")
	}
	c.mu.Lock()
	slots := c.plan.Slots
	c.mu.Unlock()
	widest := -1
	for i := range slots {
		s := &slots[i]
		shared := s.Scope == method.Shared && s.Upload != method.Sum && s.PerItem && s.Dim >= 2
		if shared && i < len(v.Values) && v.Values[i] != "" && (widest < 0 || s.Dim > slots[widest].Dim) {
			widest = i
		}
	}
	if widest < 0 {
		return nil, fmt.Errorf("%s has no item vectors to draw", c.settings().Method)
	}
	table, err := c.models.Read(v.Values[widest])
	if err != nil {
		return nil, errors.New("the newest model cannot be read at the moment")
	}
	items, dim := c.catalogue.Current(), slots[widest].Dim
	out := &dashboard.Vectors{
		Version: v.Version, Table: slots[widest].Name, Dim: dim, Items: len(items.GetItems()),
		Popular: len(items.GetPopular()) > 0,
	}
	for _, i := range mapped(items, limit) {
		if 4*(i+1)*dim > len(table) { // added since the version was made
			continue
		}
		row := make([]float32, dim)
		if _, err := binary.Decode(table[4*i*dim:], binary.LittleEndian, row); err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, row...)
		out.Titles = append(out.Titles, cmp.Or(items.Items[i].Title, items.Items[i].Id))
	}
	return out, nil
}

// mapped are the positions of the items that the map shows.
func mapped(items *pb.Catalogue, limit int) (out []int) {
	all := items.GetItems()
	add := func(i int) {
		if i < len(all) && !all[i].Retired && len(out) < limit {
			out = append(out, i)
		}
	}
	if popular := items.GetPopular(); len(popular) > 0 {
		for _, i := range popular {
			add(int(i))
		}
		return out
	}
	step := max(1, len(all)/max(1, limit))
	for i := 0; i < len(all); i += step {
		add(i)
	}
	return out
}
