package coordinator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// desk answers an operator.
type desk struct{ *Coordinator }

var _ pbconnect.AdminHandler = desk{}

// Status is what an operator sees.
type Status struct {
	Name      string           `json:"name"`
	State     string           `json:"state"`
	Method    string           `json:"method"`
	Run       string           `json:"run"`
	Round     int              `json:"round"` // rounds that are done
	Rounds    int              `json:"rounds"`
	Version   uint64           `json:"version"`
	Items     int              `json:"items"`
	Catalogue uint64           `json:"catalogue"`
	Devices   int              `json:"devices"`
	Enrolled  int              `json:"enrolled"`
	Counted   int              `json:"counted"` // reports of the round in progress
	Asked     int              `json:"asked"`
	Paused    bool             `json:"paused"`
	Rehearsal bool             `json:"rehearsal"`
	Masked    bool             `json:"masked"`
	Epsilon   *float64         `json:"epsilon"` // spent; null without a promise
	Promise   string           `json:"promise"`
	Holds     string           `json:"holds,omitempty"`
	LedgerOK  bool             `json:"ledger_ok"` // true without a promise too
	Lost      int              `json:"lost"`      // reports that were answered and are in no sum
	Counts    map[string]int64 `json:"counts"`    // of calls and refusals
	Synced    store.Stats      `json:"synced"`
	SyncAll   bool             `json:"sync_always"`
	Readouts  []Readout        `json:"readouts"`
	// why the last one, or popularity in it, could not be had
	Missed string `json:"readout_missed,omitempty"`
}

// Status is how things are.
func (c *Coordinator) Status() Status {
	n, _ := c.devices.Count()
	if !c.begun() {
		return Status{
			State: "waiting for a run: tacit admin begin, or tacit fleet", Enrolled: n, Synced: c.st.Stats(),
			SyncAll: true, Counts: map[string]int64{},
		}
	}
	text, _ := c.settings.DP.MarshalText()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{
		Name: c.settings.Name, State: c.state, Method: c.settings.Method, Run: fmt.Sprintf("%x", c.run),
		Rounds: c.settings.Rounds, Version: c.models.Last(),
		Devices: c.settings.Devices, Enrolled: n, Paused: c.paused, Rehearsal: c.settings.Rehearsal,
		Masked: c.settings.Masked, Promise: string(text),
		LedgerOK: c.ledgerOK(), Lost: len(c.lost), Counts: map[string]int64{}, Synced: c.st.Stats(), SyncAll: true,
		Readouts: slices.Clone(c.readouts), Missed: c.missed,
	}
	if v := c.models.Newest(); v != nil {
		s.Round, s.Items = v.Round, v.Items
	}
	s.Catalogue = c.catalogue.Current().GetVersion()
	if c.place != nil {
		s.Counted, s.Asked = c.place.progress()
	}
	for k, v := range c.counts {
		s.Counts[k] = v
	}
	if c.refused != nil {
		for k, v := range c.refused() {
			s.Counts["refused_"+k] = int64(v)
		}
	}
	if c.settings.DP.On() {
		e := c.epsilon()
		s.Epsilon, s.Holds = &e, c.holds()
	}
	return s
}

func (d desk) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) { return d.told() }

func (d desk) told() (*pb.StatusResponse, error) {
	b, err := json.Marshal(d.Coordinator.Status())
	return &pb.StatusResponse{Json: string(b)}, err
}

// Refusals tells where a server counts what it refuses, by code.
func (c *Coordinator) Refusals(by func() map[string]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = by
}

// Begin begins a run.
func (d desk) Begin(_ context.Context, r *pb.BeginRequest) (*pb.StatusResponse, error) {
	var s Settings
	dec := json.NewDecoder(strings.NewReader(r.Json))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, refusal(connect.CodeInvalidArgument, fmt.Errorf("the settings: %w", err))
	}
	if r.Features != nil {
		b, err := wire.Marshal(r.Features)
		if err == nil {
			s.Features, err = wire.ReadFeatures(b, len(r.Items))
		}
		if err != nil {
			return nil, refusal(connect.CodeInvalidArgument, err)
		}
	}
	if err := d.Coordinator.Begin(s, r.Items); err != nil {
		return nil, refusal(connect.CodeFailedPrecondition, err)
	}
	return d.told()
}

var errNoRun = refusal(connect.CodeFailedPrecondition, errors.New("no run has begun: tacit admin begin"))

// refusal is an error whose text an operator reads. One without a word would be taken for
// a fault of ours, and its text not travel.
func refusal(code connect.Code, err error) error {
	word := rpc.Malformed
	if code == connect.CodeFailedPrecondition {
		word = rpc.NotNow
	}
	return rpc.Refuse(word, code, "%v", err)
}

// Token makes a token that lets so many devices enrol within so long.
func (c *Coordinator) Token(uses int, last time.Duration, note string) (string, error) {
	if uses < 1 || last <= 0 {
		return "", fmt.Errorf("a token for %d devices and %v: both must be above 0", uses, last)
	}
	return c.devices.NewToken(uses, c.now().Add(last), note)
}

func (d desk) MakeToken(_ context.Context, r *pb.MakeTokenRequest) (*pb.MakeTokenResponse, error) {
	text, err := d.Token(int(r.Uses), time.Duration(r.Hours)*time.Hour, r.Note)
	if err != nil {
		return nil, refusal(connect.CodeInvalidArgument, err)
	}
	return &pb.MakeTokenResponse{Token: text}, nil
}

func (d desk) Pause(_ context.Context, r *pb.PauseRequest) (*pb.StatusResponse, error) {
	if !d.begun() {
		return nil, errNoRun
	}
	if err := d.want("paused", r.Pause, func() { d.paused = r.Pause }); err != nil {
		return nil, err
	}
	return d.told()
}

// Rollback asks for an older model, from the next round on.
func (d desk) Rollback(_ context.Context, r *pb.RollbackRequest) (*pb.StatusResponse, error) {
	if !d.begun() {
		return nil, errNoRun
	}
	v, err := d.models.Find(r.Version)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, refusal(connect.CodeNotFound, fmt.Errorf("version %d is not on disk: tacit admin history lists "+
			"the versions that are", r.Version))
	}
	if d.settings.DP.On() && d.settings.DP.Mechanism == privacy.Tree {
		return nil, refusal(connect.CodeFailedPrecondition, errors.New("mechanism=tree spreads its noise over "+
			"the rounds and cannot be rolled back; start a new run"))
	}
	if d.settings.Cohort.ByCheckIn() {
		return nil, refusal(connect.CodeFailedPrecondition, errors.New("cohort=checkin: devices decline rounds that "+
			"they have seen, so the run cannot be rolled back; start a new run"))
	}
	if err := d.want("back", r.Version, func() { d.back = r.Version }); err != nil {
		return nil, err
	}
	return d.told()
}

// want keeps an operator's wish and wakes the loop. What is on disk and what is in memory
// are the same wish, whoever else has one now.
func (c *Coordinator) want(key string, v any, set func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.put(key, v); err != nil {
		return err
	}
	set()
	c.stir()
	return nil
}

// rollback goes back to an older model, as a new version. What was spent stays spent, and
// no noise is used again.
func (c *Coordinator) rollback() error {
	c.mu.Lock()
	to := c.back
	c.mu.Unlock()
	if to == 0 {
		return nil
	}
	v, err := c.models.Find(to)
	if err != nil {
		return err
	}
	if v == nil {
		c.opt.Warn(fmt.Sprintf("cannot roll back: version %d is no longer on disk", to))
		return c.wentBack(to)
	}
	if err := c.turn(); err != nil {
		return err
	}
	if err := c.loadItems(v); err != nil {
		return err
	}
	if err := c.makeEngine(v.Items); err != nil {
		return err
	}
	if err := c.load(v); err != nil {
		return err
	}
	if err := c.dropGroups(); err != nil {
		return err
	}
	c.spent = false
	if err := c.save(models.Outcome{}, true); err != nil {
		return err
	}
	return c.wentBack(to)
}

// wentBack forgets a wish that was fulfilled, and not one that came meanwhile.
func (c *Coordinator) wentBack(to uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.back != to {
		return nil
	}
	c.back = 0
	return c.put("back", 0)
}

// turn begins another turn: what was drawn for rounds that come again is not used again.
func (c *Coordinator) turn() error {
	reach := max(c.reach, c.engine.Next+1)
	if err := errors.Join(c.put("reach", reach), c.put("times", c.times+1)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reach = reach
	c.times++
	return nil
}

func (d desk) History(context.Context, *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	all, err := d.models.Manifests()
	return &pb.HistoryResponse{Manifests: all}, err
}

func (d desk) Revoke(_ context.Context, r *pb.RevokeRequest) (*pb.StatusResponse, error) {
	if !d.devices.Enrolled(r.DeviceId) {
		return nil, refusal(connect.CodeNotFound, fmt.Errorf("device %d is not enrolled", r.DeviceId))
	}
	if err := d.devices.Revoke(r.DeviceId); err != nil {
		return nil, err
	}
	return d.told()
}

// Counted lists who is in a round's sum.
func (d desk) Counted(_ context.Context, r *pb.CountedRequest) (*pb.CountedResponse, error) {
	out := &pb.CountedResponse{}
	err := d.st.Replay(closedLog(r.Round), func(b []byte) error {
		var over closedRound
		if err := json.Unmarshal(b, &over); err != nil {
			return err
		}
		if over.Round == r.Round {
			out = &pb.CountedResponse{Closed: true, DeviceIds: over.Seats}
			for _, x := range over.Digests {
				out.Digests = append(out.Digests, binary.LittleEndian.AppendUint64(nil, x))
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return out, err
}

// ledgerOK reports whether the ledger holds at least what the rounds that are in the
// model cost.
func (c *Coordinator) ledgerOK() bool {
	v := c.models.Newest()
	if c.budget == nil || v == nil {
		return true
	}
	paid := int64(0)
	for _, e := range c.budget.All() {
		if !c.engine.Stack.IsMetric(e) {
			paid += e.Rounds
		}
	}
	if c.engine.Stack.Mechanism == privacy.Tree {
		return paid > 0 || v.Round == 0
	}
	return paid >= int64(v.Round)
}
