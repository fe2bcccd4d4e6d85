package sim

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// masked runs the secure aggregation protocol in each round. It keeps the updates of a cohort
// until all of its devices have trained.
type masked struct {
	plan       *local.Plan
	stack      *privacy.Stack // nil without differential privacy
	minDevices int            // fewest devices in a sum
	round      int
	at         map[uint32]int // by user: index in the cohort
	updates    [][]int32      // by index; nil if the device dropped out
	left       []int          // by index: the first step that the device misses
	plain      []int64        // the sum without masks, for comparison
	sum        []int32
}

// mostMasked bounds the integers that are kept: 4 GiB.
const mostMasked = 1 << 30

func newMasked(f *devices, g *privacy.Stack) (*masked, error) {
	m := &masked{plan: f.plan, stack: g, minDevices: privacy.MinMaskedSum}
	n, crowd := f.plan.MaxUpdateLength()+1, f.opt.Cohort.Expected(f.Count())
	if g != nil {
		m.minDevices, crowd = g.RequiredDevices(), g.MaxCohort()
	}
	if float64(n)*crowd > mostMasked {
		return nil, fmt.Errorf("secagg = on keeps %.0f updates of %d numbers in memory, which is too much; use a "+
			"smaller "+
			"cohort, or secagg=assumed", crowd, n)
	}
	return m, nil
}

// bareMasks prepares masked sums without noise, if the method bounds its numbers.
func (r *Run) bareMasks() (err error) {
	f := r.fleet
	if err := f.plan.CheckMaskable(); err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(r.Name, "this method"), err)
	}
	if err := r.DP.CheckMaskedGroup("secagg = "+r.Secagg, int(r.Cohort.Expected(f.Count()))); err != nil {
		return err
	}
	if r.Secagg == "on" {
		f.masked, err = newMasked(f, nil)
	}
	return err
}

// maxInteger is the largest integer of an update.
func (m *masked) maxInteger() int64 {
	if m.stack == nil {
		return m.plan.RoundMaxInteger(m.round)
	}
	return m.stack.MaxInteger(m.round)
}

// begin prepares round t for a cohort.
func (m *masked) begin(t int, cohort []uint32) {
	m.round = t
	if n := m.plan.UpdateLength(t) + 1; n != len(m.sum) {
		m.plain, m.sum = make([]int64, n), make([]int32, n)
	}
	m.at = make(map[uint32]int, len(cohort))
	for k, u := range cohort {
		m.at[u] = k
	}
	m.updates, m.left = make([][]int32, len(cohort)), make([]int, len(cohort))
	clear(m.plain)
	clear(m.sum)
}

// add keeps the update of user u, which worker w has just encoded. With distributed noise the
// device adds its share. Without differential privacy the last number tells that the device has
// training data.
func (m *masked) add(mem *local.Memory, w int, u uint32, t int, seed uint64, learnt bool) {
	n := len(m.sum)
	v, noise := make([]int32, n), make([]int64, n)
	mem.TakeUpdate(w, noise)
	for i, x := range noise {
		v[i] = int32(x)
	}
	if m.stack == nil && learnt {
		v[n-1] = 1
	}
	if m.stack != nil && m.stack.Drawn {
		clear(noise)
		from := privacy.NewSource(round.DeterministicNoise(seed, round.DeviceNode(t, int(u)), 0))
		from.AddGauss(m.stack.NoiseShare(m.round), noise[:n-1])
		if m.stack.Adaptive != "off" {
			from.AddGauss(m.stack.CountNoiseShare(m.round), noise[n-1:])
		}
		limit := m.maxInteger()
		for i, x := range noise {
			v[i] = int32(min(max(int64(v[i])+x, -limit), limit))
		}
	}
	m.updates[m.at[u]], m.left[m.at[u]] = v, 4
}

// end runs the protocol and checks that the masked sum equals the plain one.
func (m *masked) end(t, jobs int, seed uint64, rep *round.Report, model [32]byte) error {
	if len(m.updates) < max(1, m.minDevices) { // too few devices for a masked sum
		m.discard(rep)
		return nil
	}
	p, err := secagg.Plan(len(m.updates), len(m.sum), m.maxInteger(), privacy.MaskingRisk)
	if err != nil {
		return err
	}
	p.MinDevices = max(p.MinDevices, m.minDevices)
	s := secagg.Session{
		Round: secagg.Round{
			Params: p, Model: model, Number: uint64(t),
			Seed: sha256.Sum256(fmt.Appendf(nil, "graph %d %d", seed, t)),
		},
		Workers: jobs,
		Leave:   func(id uint32) int { return m.left[id] },
		Vector: func(id uint32, dst []int32) error {
			copy(dst, m.updates[id])
			return nil
		},
	}
	res, err := s.Run()
	if errors.Is(err, secagg.ErrTooFew) { // too many dropouts: nothing is released
		m.discard(rep)
		rep.Devices, rep.Discarded = 0, true
		return nil
	}
	if err != nil {
		return err
	}
	for _, v := range m.updates {
		for i, x := range v {
			m.plain[i] += int64(x)
		}
	}
	for i, x := range res.Sum {
		if int64(x) != m.plain[i] {
			return fmt.Errorf("round %d: the masked sum is %d at index %d, the plain sum %d", t+1, x, i,
				m.plain[i])
		}
	}
	copy(m.sum, res.Sum)
	rep.Bytes = int(res.Up)
	if m.stack == nil { // only the sum tells
		came := rep.Devices + rep.Idle
		rep.Devices = int(m.sum[len(m.sum)-1])
		rep.Idle = came - rep.Devices
	}
	return nil
}

// discard counts all devices as dropped if a round without differential privacy has no sum.
func (m *masked) discard(rep *round.Report) {
	if m.stack == nil {
		rep.Dropped += rep.Devices + rep.Idle
		rep.Devices, rep.Idle, rep.Discarded = 0, 0, true
	}
}

// modelHash is the hash of the model that the devices of a round train.
func (f *devices) modelHash() [32]byte {
	h := sha256.New()
	w := bufio.NewWriter(h)
	s := &stream{w: w}
	for _, i := range f.plan.SentSlots() {
		s.floats(f.mem.Value(i))
	}
	w.Flush()
	return [32]byte(h.Sum(nil))
}
