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

// masked runs the whole protocol of secure sums in each round. A real device sends
// its vector when it is done; here all are kept until the round's visits are.
type masked struct {
	plan    *local.Plan
	guard   *privacy.Stack // nil without a promise
	least   int            // devices of a sum
	round   int
	at      map[uint32]int // by user: place in the cohort
	vectors [][]int32      // by place; nil for who did not come
	left    []int          // by place: the first step that a device does not do
	plain   []int64        // the sum without masks, to check against
	sum     []int32
}

// mostMasked bounds the vectors that are kept: 4 GiB.
const mostMasked = 1 << 30

func newMasked(f *fleet, g *privacy.Stack) (*masked, error) {
	m := &masked{plan: f.plan, guard: g, least: privacy.MinMaskedSum}
	n, crowd := f.plan.MaxUpdateLength()+1, f.opt.Cohort.Expected(f.Count())
	if g != nil {
		m.least, crowd = g.RequiredDevices(), g.MaxCohort()
	}
	if float64(n)*crowd > mostMasked {
		return nil, fmt.Errorf("sim: secagg=on keeps the vectors of a cohort, %.0f devices with %d numbers: a "+
			"smaller cohort, or secagg=assumed", crowd, n)
	}
	return m, nil
}

// bareMasks has sums without a promise masked, where their numbers are bounded.
func (r *Run) bareMasks() (err error) {
	f := r.fleet
	if err := f.plan.CheckMaskable(); err != nil {
		return fmt.Errorf("sim: %s: %w", cmp.Or(r.Name, "this method"), err)
	}
	if n := r.Cohort.Expected(f.Count()); n < privacy.MinMaskedSum {
		return fmt.Errorf("sim: secagg = %s without dp and rounds of %.0f devices: such a sum takes %d or more; a "+
			"larger cohort", r.Secagg, n, privacy.MinMaskedSum)
	}
	if r.Secagg == "on" {
		f.masked, err = newMasked(f, nil)
	}
	return err
}

// most is the largest integer of a device.
func (m *masked) most() int64 {
	if m.guard == nil {
		return m.plan.Bound(1).MaxInteger
	}
	return m.guard.MaxInteger(m.round)
}

// begin makes room for the cohort of round t.
func (m *masked) begin(t int, cohort []uint32) {
	m.round = t
	if n := m.plan.UpdateLength(t) + 1; n != len(m.sum) {
		m.plain, m.sum = make([]int64, n), make([]int32, n)
	}
	m.at = make(map[uint32]int, len(cohort))
	for k, u := range cohort {
		m.at[u] = k
	}
	m.vectors, m.left = make([][]int32, len(cohort)), make([]int, len(cohort))
	clear(m.plain)
	clear(m.sum)
}

// took keeps the vector of user u, which worker w has just sealed. Distributed noise
// is the device's own. Without a promise the last number says that it had something to learn
// from.
func (m *masked) took(mem *local.Memory, w int, u uint32, t int, seed uint64, learnt bool) {
	n := len(m.sum)
	v, noise := make([]int32, n), make([]int64, n)
	mem.TakeUpdate(w, noise)
	for i, x := range noise {
		v[i] = int32(x)
	}
	if m.guard == nil && learnt {
		v[n-1] = 1
	}
	if m.guard != nil && m.guard.Drawn {
		clear(noise)
		from := privacy.NewSource(round.DeterministicNoise(seed, round.DeviceNode(t, int(u)), 0))
		from.AddGauss(m.guard.NoiseShare(m.round), noise[:n-1])
		if m.guard.Adaptive != "off" {
			from.AddGauss(m.guard.CountNoiseShare(m.round), noise[n-1:])
		}
		limit := m.most()
		for i, x := range noise {
			v[i] = int32(min(max(int64(v[i])+x, -limit), limit))
		}
	}
	m.vectors[m.at[u]], m.left[m.at[u]] = v, 4
}

// end plays the round. That the sum is the plain one is checked, not believed.
func (m *masked) end(t, jobs int, seed uint64, rep *round.Report, model [32]byte) error {
	if len(m.vectors) < max(1, m.least) { // too few were asked: nobody masks anything
		m.unsummed(rep)
		return nil
	}
	p, err := secagg.Plan(len(m.vectors), len(m.sum), m.most(), privacy.MaskingRisk)
	if err != nil {
		return err
	}
	p.MinDevices = max(p.MinDevices, m.least)
	s := secagg.Session{
		Round: secagg.Round{
			Params: p, Model: model, Number: uint64(t),
			Seed: sha256.Sum256(fmt.Appendf(nil, "graph %d %d", seed, t)),
		},
		Workers: jobs,
		Leave:   func(id uint32) int { return m.left[id] },
		Vector: func(id uint32, dst []int32) error {
			copy(dst, m.vectors[id])
			return nil
		},
	}
	res, err := s.Run()
	if errors.Is(err, secagg.ErrTooFew) { // a clean end: nothing is learnt, and nothing released
		m.unsummed(rep)
		rep.Devices, rep.Discarded = 0, true
		return nil
	}
	if err != nil {
		return err
	}
	for _, v := range m.vectors {
		for i, x := range v {
			m.plain[i] += int64(x)
		}
	}
	for i, x := range res.Sum {
		if int64(x) != m.plain[i] {
			return fmt.Errorf("sim: round %d: the masked sum has %d in place %d, the plain one %d", t+1, x, i,
				m.plain[i])
		}
	}
	copy(m.sum, res.Sum)
	rep.Bytes = int(res.Up)
	if m.guard == nil { // nobody else knows
		came := rep.Devices + rep.Idle
		rep.Devices = int(m.sum[len(m.sum)-1])
		rep.Idle = came - rep.Devices
	}
	return nil
}

// unsummed is a round without a promise that has no sum.
func (m *masked) unsummed(rep *round.Report) {
	if m.guard == nil {
		rep.Dropped += rep.Devices + rep.Idle
		rep.Devices, rep.Idle, rep.Discarded = 0, 0, true
	}
}

// modelHash names the model that a round's devices were given.
func (f *fleet) modelHash() [32]byte {
	h := sha256.New()
	w := bufio.NewWriter(h)
	s := &stream{w: w}
	for _, i := range f.plan.SentSlots() {
		s.floats(f.mem.Value(i))
	}
	w.Flush()
	return [32]byte(h.Sum(nil))
}
