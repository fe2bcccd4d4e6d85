package coordinator

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// version is a model and all that is needed to train on from it. Every large thing is a
// blob, named by its hash.
type version struct {
	Version  uint64 `json:"version"`
	Run      string `json:"run"`
	Round    int    `json:"round"` // rounds that are in it
	Items    int    `json:"items"`
	Manifest []byte `json:"manifest"` // pb.Signed
	// by slot: hash of what devices read, or of what the coordinator keeps; else empty
	Values  []string `json:"values"`
	Shown   []string `json:"shown"`             // those of them that devices read
	Changes []string `json:"changes,omitempty"` // shorter ways to them from older ones
	// how its rows differ from those of the version before tells nothing of a cohort
	Clear     bool     `json:"clear,omitempty"`
	Rule      []memory `json:"rule"` // by slot
	Clip      float64  `json:"clip,omitempty"`
	Catalogue string   `json:"catalogue"`
	Features  string   `json:"features,omitempty"`
	Plan      string   `json:"plan"`
	Came      string   `json:"came,omitempty"` // who has had a turn in these rounds, where devices choose themselves
	Counted   int      `json:"counted"`        // devices in the last round's sum
	Asked     int      `json:"asked"`          // devices of its cohort
	Idle      int      `json:"idle"`
	Kept      bool     `json:"kept,omitempty"`
	Took      float64  `json:"seconds"`
	At        int64    `json:"at_ms"`
	Paid      int      `json:"paid,omitempty"` // lines of the ledger
}

// memory is what a server rule remembers of a slot.
type memory struct {
	M     string `json:"m,omitempty"`
	V     string `json:"v,omitempty"`
	Steps int    `json:"steps,omitempty"`
}

// keptVersions are there to go back to.
const keptVersions = 10

func versionKey(v uint64) string { return fmt.Sprintf("version.%016d", v) }

// stored reports whether the coordinator keeps a slot's values from round to round.
func stored(s *method.Slot) bool {
	return s.Scope == method.Server || s.Scope == method.Shared && s.Upload != method.Sum
}

// broadcast reports whether devices read a slot's values.
func broadcast(s *method.Slot) bool { return s.Scope == method.Shared && s.Upload != method.Sum }

// save makes the next version of the engine's values, on disk before anybody is told.
func (c *Coordinator) save(v *version) error {
	e := c.engine
	m := &pb.Manifest{
		Federation: c.id[:], Run: c.run, CreatedMs: c.now().UnixMilli(), Round: uint32(e.Next),
		RolledBack: v.Manifest != nil, Rollbacks: uint32(c.times),
	}
	v.Version, v.Run, v.Round, v.Items, v.At = c.last+1, hex.EncodeToString(c.run), e.Next, e.Plan.Items, m.CreatedMs
	m.Version, v.Values, v.Rule, v.Shown = v.Version, nil, nil, nil
	past, err := c.lineage(v)
	if err != nil {
		return err
	}
	for i := range e.Plan.Slots {
		s := &e.Plan.Slots[i]
		blob, name := &pb.Blob{}, ""
		if stored(s) {
			b := wire.AppendRows(nil, e.Value[i], s.Rows, s.Dim, vec.Pad(s.Dim))
			h, err := c.st.PutBlob(b)
			if err != nil {
				return err
			}
			if name = hex.EncodeToString(h[:]); broadcast(s) {
				v.Shown, blob = append(v.Shown, name), wire.HashBlob(b)
				err = past.offerSlot(m, i, name, b, 4*s.Dim)
			}
			if err != nil {
				return err
			}
		}
		m.Slots, v.Values = append(m.Slots, blob), append(v.Values, name)
		mem, err := c.saveRule(&e.State[i])
		if err != nil {
			return err
		}
		v.Rule = append(v.Rule, mem)
	}
	var plan, items []byte
	if v.Plan, plan, err = c.blob(c.settings.message(c.plan, c.holds())); err == nil {
		v.Catalogue, items, err = c.blob(c.catalogue)
	}
	if err == nil {
		v.Features, m.Features, err = c.saveFeatures()
	}
	if err == nil {
		err = past.offerCatalogue(m, v.Catalogue, items)
	}
	if err != nil {
		return err
	}
	m.Plan, m.Catalogue = wire.HashBlob(plan), wire.HashBlob(items)
	if v.Came, err = c.saveTurns(); err != nil {
		return err
	}
	if e.Guard != nil {
		v.Clip, v.Paid = e.Guard.Clip, c.ledger.Len()
	}
	return c.publish(v, m)
}

// publish signs a version and makes it the newest, in one synced write.
func (c *Coordinator) publish(v *version, m *pb.Manifest) error {
	signed, err := wire.SignManifest(c.key, m)
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
	if err := c.st.Put(versionKey(v.Version), b); err != nil {
		return err
	}
	if err := c.point("versioned"); err != nil {
		return err
	}
	if err := c.leave(v); err != nil {
		return err
	}
	if err := c.point("marked"); err != nil {
		return err
	}
	c.mu.Lock()
	c.last, c.newest, c.signed = v.Version, v, signed
	c.mu.Unlock()
	return c.sweep()
}

func (c *Coordinator) saveRule(s *aggregate.State) (m memory, err error) {
	if s.M == nil {
		return memory{}, nil
	}
	put := func(x []float32) (string, error) {
		h, err := c.st.PutBlob(wire.AppendRows(nil, x, 1, len(x), len(x)))
		return hex.EncodeToString(h[:]), err
	}
	if m.M, err = put(s.M); err == nil {
		m.V, err = put(s.V)
	}
	m.Steps = s.Steps
	return m, err
}

// blob stores a message, and names it.
func (c *Coordinator) blob(p proto.Message) (name string, b []byte, err error) {
	if b, err = wire.Marshal(p); err != nil {
		return "", nil, err
	}
	h, err := c.st.PutBlob(b)
	return hex.EncodeToString(h[:]), b, err
}

func hashOf(name string) (h store.Hash) {
	hex.Decode(h[:], []byte(name))
	return h
}

// versions lists those that are there, the oldest first.
func (c *Coordinator) versions() ([]*version, error) {
	var out []*version
	keys := c.st.Keys("version.")
	slices.Sort(keys)
	for _, k := range keys {
		b, err := c.st.Get(k)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was swept away just now
		}
		if err != nil {
			return nil, err
		}
		v := &version{}
		if err := json.Unmarshal(b, v); err != nil {
			return nil, fmt.Errorf("coord: %s: %w", k, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// sweep forgets versions, and what only they need.
func (c *Coordinator) sweep() error {
	all, err := c.versions()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for i, v := range all {
		if i < len(all)-keptVersions {
			if err := c.st.Delete(versionKey(v.Version)); err != nil {
				return err
			}
			continue
		}
		for _, h := range slices.Concat([]string{v.Plan, v.Catalogue, v.Features, v.Came}, v.Values, v.Changes) {
			used[h] = true
		}
		for _, m := range v.Rule {
			used[m.M], used[m.V] = true, true
		}
	}
	for h := range c.st.Blobs() {
		if !used[hex.EncodeToString(h[:])] {
			if err := c.st.DropBlob(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// load puts a version's values into the engine.
func (c *Coordinator) load(v *version) error {
	e := c.engine
	if len(v.Values) != len(e.Plan.Slots) || len(v.Rule) != len(e.Plan.Slots) {
		return fmt.Errorf("coord: version %d has %d slots and %s has %d", v.Version, len(v.Values), c.settings.Method,
			len(e.Plan.Slots))
	}
	e.Prepare()
	for i := range e.Plan.Slots {
		s := &e.Plan.Slots[i]
		if v.Values[i] != "" {
			if err := c.read(v.Values[i], e.Value[i], s.Rows, s.Dim, vec.Pad(s.Dim)); err != nil {
				return fmt.Errorf("coord: version %d, slot %s: %w", v.Version, s.Name, err)
			}
		}
		e.State[i] = aggregate.State{}
		if m := v.Rule[i]; m.M != "" {
			n := len(e.Value[i])
			e.State[i] = aggregate.State{M: make([]float32, n), V: make([]float32, n), Steps: m.Steps}
			if err := errors.Join(c.read(m.M, e.State[i].M, 1, n, n), c.read(m.V, e.State[i].V, 1, n, n)); err != nil {
				return fmt.Errorf("coord: version %d, slot %s: %w", v.Version, s.Name, err)
			}
		}
	}
	if c.settings.Cohort.Come() {
		came, err := c.st.Blob(hashOf(v.Came))
		if err != nil || len(came) != (c.settings.Devices+7)/8 {
			return fmt.Errorf("coord: version %d does not say who had a turn: %w", v.Version, err)
		}
		c.mu.Lock()
		c.came = came
		c.mu.Unlock()
	}
	if e.Next = v.Round; e.Guard != nil && v.Clip > 0 {
		e.Guard.Clip = v.Clip
	}
	return nil
}

func (c *Coordinator) read(name string, dst []float32, rows, dim, stride int) error {
	b, err := c.st.Blob(hashOf(name))
	if err != nil {
		return err
	}
	return wire.ReadRows(b, dst, rows, dim, stride)
}

// loadCatalogue reads the catalogue of a version.
func (c *Coordinator) loadCatalogue(v *version) error {
	b, err := c.st.Blob(hashOf(v.Catalogue))
	if err != nil {
		return err
	}
	items, err := wire.ReadCatalogue(b, v.Items)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// an older one: devices are asked once
	if was := c.catalogue.GetPopular(); len(items.Popular) == 0 && len(was) > 0 {
		items.Popular = slices.DeleteFunc(slices.Clone(was), func(i uint32) bool { return int(i) >= v.Items })
	}
	c.catalogue, c.counted = items, c.counted || len(items.Popular) > 0
	return nil
}

// grow makes room for a larger catalogue: new rows begin as they would have.
func (c *Coordinator) grow(items int) error {
	old, oldPlan := c.engine, c.plan
	if items == oldPlan.Items {
		return nil
	}
	if c.isTree() {
		return errors.New("mechanism=tree spreads its noise over rounds, and more items would take it apart: they " +
			"have to wait for another run")
	}
	if err := c.makeEngine(items); err != nil {
		return err
	}
	for i := range c.plan.Slots {
		was, is := &oldPlan.Slots[i], &c.plan.Slots[i]
		if was.Dim != is.Dim || was.Rows != is.Rows && !is.PerItem {
			c.install(old, oldPlan)
			return fmt.Errorf("slot %s of %s has another shape with %d items: they have to wait for another run",
				is.Name, c.settings.Method, items)
		}
	}
	c.engine.Prepare()
	for i := range c.plan.Slots {
		copy(c.engine.Value[i], old.Value[i])
		if s := old.State; s != nil && s[i].M != nil {
			c.engine.State[i] = s[i].Grown(len(c.engine.Value[i]))
		}
	}
	if c.engine.Next = old.Next; old.Guard != nil {
		c.engine.Guard.Clip = old.Guard.Clip
	}
	return nil
}
