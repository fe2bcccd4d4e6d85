package models

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// Snapshot is the state of training that a version is made of.
type Snapshot struct {
	Now       time.Time
	Run       Run
	Round     int // rounds that are done
	Rollbacks int
	Items     int

	Slots  []method.Slot
	Values [][]float32
	Rules  []aggregate.State

	Plan         *pb.Plan
	Catalogue    *pb.Catalogue
	Features     *rows.Features // nil without
	Participants []byte         // nil unless devices choose when to check in
	TreeNoise    []byte         // what later rounds need of the noise of this one; nil without tree noise

	Noisy       bool // every number of a round's sum carries noise
	RolledBack  bool // the model is not trained from the newest one
	Clip        float64
	LedgerLines int
	LedgerHead  []byte // hash of the last line
	Outcome     Outcome
}

// Run is the run of a snapshot, as manifests name it.
type Run struct {
	Number       int // in the federation, from 1
	BudgetPeriod int // from 1; 0 if no run had a privacy guarantee
	InPeriod     int // runs with a privacy guarantee in the budget period, with this one if it has one
}

// Outcome is how the last round ended; zero for a version that no round made.
type Outcome struct {
	Counted   int // devices in the sum
	Cohort    int
	Idle      int // devices in the sum without training data
	Discarded bool
	Seconds   float64
}

// stored reports whether the coordinator keeps a slot's values from round to round.
func stored(s *method.Slot) bool {
	return s.Scope == method.Server || s.Scope == method.Shared && s.Upload != method.Sum
}

// broadcast reports whether devices read a slot's values.
func broadcast(s *method.Slot) bool { return s.Scope == method.Shared && s.Upload != method.Sum }

// Save makes the next version of a snapshot and publishes it. When Save returns, it is on disk.
func (m *Models) Save(s *Snapshot) (*Version, error) {
	m.mu.Lock()
	run, number := m.run, m.last+1
	m.mu.Unlock()
	manifest := &pb.Manifest{
		Federation: m.federation, Run: run, CreatedMs: s.Now.UnixMilli(), Round: uint32(s.Round), Version: number,
		RolledBack: s.RolledBack, Rollbacks: uint32(s.Rollbacks), RunNumber: uint32(s.Run.Number),
		BudgetPeriod: uint32(s.Run.BudgetPeriod), RunInPeriod: uint32(s.Run.InPeriod),
		LedgerLines: uint64(s.LedgerLines), LedgerHead: s.LedgerHead,
	}
	v := &Version{
		Version: number, Run: hex.EncodeToString(run), RunNumber: s.Run.Number, Round: s.Round,
		Items: s.Items, CreatedMs: manifest.CreatedMs,
		Clip: s.Clip, LedgerLines: s.LedgerLines, TreeNoise: s.TreeNoise,
		Counted: s.Outcome.Counted, Cohort: s.Outcome.Cohort, Idle: s.Outcome.Idle, Discarded: s.Outcome.Discarded,
		Seconds: s.Outcome.Seconds,
	}
	past, err := m.ancestry(v, s)
	if err != nil {
		return nil, err
	}
	for i := range s.Slots {
		if err := m.saveSlot(v, manifest, past, s, i); err != nil {
			return nil, err
		}
	}
	if err := m.saveRest(v, manifest, past, s); err != nil {
		return nil, err
	}
	return v, m.publish(v, manifest, s.Rollbacks)
}

func (m *Models) saveSlot(v *Version, manifest *pb.Manifest, past *ancestry, s *Snapshot, i int) error {
	slot := &s.Slots[i]
	named, name := &pb.Blob{}, ""
	if stored(slot) {
		b := wire.AppendRows(nil, s.Values[i], slot.Rows, slot.Dim, vec.Pad(slot.Dim))
		var err error
		if name, err = m.put(b); err != nil {
			return err
		}
		if broadcast(slot) {
			v.Public = append(v.Public, name)
			named = wire.HashBlob(b)
			if err := past.offerSlot(manifest, i, name, b, 4*slot.Dim); err != nil {
				return err
			}
		}
	}
	manifest.Slots = append(manifest.Slots, named)
	v.Values = append(v.Values, name)
	rule, err := m.saveRule(&s.Rules[i])
	v.Rules = append(v.Rules, rule)
	return err
}

func (m *Models) saveRule(s *aggregate.State) (r ruleState, err error) {
	if s.M == nil {
		return ruleState{}, nil
	}
	r.Steps = s.Steps
	if r.M, err = m.put(wire.AppendRows(nil, s.M, 1, len(s.M), len(s.M))); err != nil {
		return r, err
	}
	r.V, err = m.put(wire.AppendRows(nil, s.V, 1, len(s.V), len(s.V)))
	return r, err
}

func (m *Models) saveRest(v *Version, manifest *pb.Manifest, past *ancestry, s *Snapshot) (err error) {
	var b []byte
	if v.Plan, b, err = m.Put(s.Plan); err != nil {
		return err
	}
	manifest.Plan = wire.HashBlob(b)
	var items []byte
	if v.Catalogue, items, err = m.Put(s.Catalogue); err != nil {
		return err
	}
	manifest.Catalogue = wire.HashBlob(items)
	if v.Features, manifest.Features, err = m.PutFeatures(s.Features); err != nil {
		return err
	}
	if err := past.offerCatalogue(manifest, v.Catalogue, items); err != nil {
		return err
	}
	if s.Participants != nil {
		v.Participants, err = m.put(s.Participants)
	}
	return err
}

// PutFeatures stores features as devices read them; empty and nil without features.
func (m *Models) PutFeatures(f *rows.Features) (name string, blob *pb.Blob, err error) {
	if f == nil {
		return "", nil, nil
	}
	name, b, err := m.Put(wire.EncodeFeatures(f))
	return name, wire.HashBlob(b), err
}

// publish signs a version and makes it the newest.
func (m *Models) publish(v *Version, manifest *pb.Manifest, rollbacks int) error {
	signed, err := wire.SignManifest(m.signer, manifest)
	if err != nil {
		return err
	}
	if v.Manifest, err = proto.Marshal(signed); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := m.store.Put(key(v.Version), b); err != nil {
		return err
	}
	if err := m.fault("versioned"); err != nil {
		return err
	}
	if err := m.WritePublished(v, rollbacks); err != nil {
		return err
	}
	if err := m.fault("published"); err != nil {
		return err
	}
	m.mu.Lock()
	m.last, m.newest, m.signed = v.Version, v, signed
	m.mu.Unlock()
	return m.prune()
}

// Load reads a version's values and the memory of its server rules into the given slices, which
// have the shapes of the slots.
func (m *Models) Load(v *Version, slots []method.Slot, values [][]float32, rules []aggregate.State) error {
	if len(v.Values) != len(slots) || len(v.Rules) != len(slots) {
		return fmt.Errorf("version %d has %d slots, the method has %d", v.Version, len(v.Values), len(slots))
	}
	for i := range slots {
		s := &slots[i]
		if v.Values[i] != "" {
			if err := m.readRows(v.Values[i], values[i], s.Rows, s.Dim, vec.Pad(s.Dim)); err != nil {
				return fmt.Errorf("version %d, slot %s: %w", v.Version, s.Name, err)
			}
		}
		rules[i] = aggregate.State{}
		r := v.Rules[i]
		if r.M == "" {
			continue
		}
		n := len(values[i])
		rules[i] = aggregate.State{M: make([]float32, n), V: make([]float32, n), Steps: r.Steps}
		err := errors.Join(m.readRows(r.M, rules[i].M, 1, n, n), m.readRows(r.V, rules[i].V, 1, n, n))
		if err != nil {
			return fmt.Errorf("version %d, slot %s: %w", v.Version, s.Name, err)
		}
	}
	return nil
}

func (m *Models) readRows(name string, dst []float32, rows, dim, stride int) error {
	b, err := m.Read(name)
	if err != nil {
		return err
	}
	return wire.ReadRows(b, dst, rows, dim, stride)
}

// LoadCatalogue reads the catalogue of a version.
func (m *Models) LoadCatalogue(v *Version) (*pb.Catalogue, error) {
	b, err := m.Read(v.Catalogue)
	if err != nil {
		return nil, err
	}
	return wire.ReadCatalogue(b, v.Items)
}
