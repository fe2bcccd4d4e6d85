package device

import (
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// ErrTooLarge means that a plan exceeds the memory limit of the device.
var ErrTooLarge = errors.New("the plan requires more memory than this device allows")

// vetted is a plan that the device has built, and that fits the memory.
type vetted struct {
	name [2][32]byte // hashes of the plan and of the features
	spec *pb.Plan
	plan *local.Plan
	recomputed
}

func planName(m *pb.Manifest) (name [2][32]byte) {
	copy(name[0][:], m.Plan.Hash)
	copy(name[1][:], m.Features.GetHash())
	return name
}

// vet builds and checks the plan of a manifest. It needs the blobs of the plan and of the features, and
// allocates no memory for the model.
func (w *Workspace) vet(m *pb.Manifest, blob blobReader) (*vetted, error) {
	name := planName(m)
	for _, v := range w.known {
		if v != nil && v.name == name {
			return v, nil
		}
	}
	b, err := blob(m.Plan)
	if err != nil {
		return nil, err
	}
	p, err := wire.ReadPlan(b)
	if err != nil {
		return nil, err
	}
	f, err := w.features(m, p, blob)
	if err != nil {
		return nil, err
	}
	v := &vetted{name: name, spec: p}
	if v.plan, err = w.build(p, f); err != nil {
		return nil, fmt.Errorf("the coordinator's plan: %w", err)
	}
	if err := w.fits(v.plan.MemoryBytes(1, 1)); err != nil {
		return nil, err
	}
	w.known = [2]*vetted{v, w.known[0]}
	return v, nil
}

// fits returns an error if a number of bytes exceeds the memory limit.
func (w *Workspace) fits(need float64) error {
	most := w.Memory
	if most == 0 {
		most = 1 << 30
	}
	if need > most {
		return fmt.Errorf("%w: about %.0f MiB, the limit is %.0f MiB", ErrTooLarge, need/(1<<20), most/(1<<20))
	}
	return nil
}

// checkSizes checks the sizes that a manifest and its plan announce, before the device downloads
// anything but the plan.
func (w *Workspace) checkSizes(m *pb.Manifest, plan []byte) error {
	p, err := wire.ReadPlan(plan)
	if err != nil {
		return err
	}
	if err := wire.CheckSlots(m, p); err != nil {
		return err
	}
	total := 0.0
	for _, b := range blobsOf(m) {
		total += float64(b.Bytes)
	}
	return w.fits(total)
}

// setPlan allocates the memory of a plan.
func (w *Workspace) setPlan(v *vetted) (err error) {
	w.vetted = v
	if w.mem, err = local.NewMemory(w.plan, 1, 1); err != nil {
		return err
	}
	w.worker, w.catalogue = local.NewWorker(w.mem, 0), nil
	w.slots = make([][32]byte, len(w.plan.Slots))
	w.update, w.unread = make([]int64, w.plan.MaxUpdateLength()+1), false
	w.scores = make([]float32, w.plan.Items)
	return nil
}

// build makes the method and its plan.
func (w *Workspace) build(p *pb.Plan, f *rows.Features) (*local.Plan, error) {
	registry := w.Methods
	if registry == nil {
		registry = methods.Default()
	}
	e, err := registry.Lookup(p.Method)
	if err != nil {
		return nil, fmt.Errorf("%w (this program may be older than the coordinator)", err)
	}
	m := e.Build()
	for _, s := range p.Params {
		if err := param.Set(m, s.Key, s.Value); err != nil {
			return nil, fmt.Errorf("method %s: %w", p.Method, err)
		}
	}
	opt := local.Options{
		Features: f, SingleDevice: f != nil && w.Features == nil, Items: int(p.Items), Users: int(p.Users),
		Rounds: int(p.Rounds), Batch: int(p.Batch), Negatives: int(p.Negatives),
		Seed: p.Seed, Integers: true, Dense: true, Bits: int(p.Bits),
	}
	if p.Keep != "" {
		if opt.Keep, err = rows.ParsePrecision(p.Keep); err != nil {
			return nil, err
		}
	}
	if p.Cover != "" {
		if opt.Cover, err = (privacy.Policy{Cover: p.Cover}).Covers(); err != nil {
			return nil, err
		}
	}
	if err := checkColumns(f, p.Features); err != nil {
		return nil, err
	}
	plan, err := local.NewPlan(m, opt)
	if err != nil {
		return nil, err
	}
	if plan.Central() {
		return nil, fmt.Errorf("method %s is trained centrally, without devices", p.Method)
	}
	return plan, sameShape(plan, p.Shape)
}

// sameShape checks that the coordinator and this program have the same slots.
func sameShape(p *local.Plan, shape []uint64) error {
	if len(shape) != 2*len(p.Slots) {
		return fmt.Errorf("it has %d slots, but this program's method has %d: update the older program",
			len(shape)/2, len(p.Slots))
	}
	for i := range p.Slots {
		if s := &p.Slots[i]; uint64(s.Rows) != shape[2*i] || uint64(s.Dim) != shape[2*i+1] {
			return fmt.Errorf("slot %q has %d rows of %d, but this program makes %d rows of %d: update the older "+
				"program",
				s.Name, shape[2*i], shape[2*i+1], s.Rows, s.Dim)
		}
	}
	return nil
}

// checkColumns checks that the device has the feature columns of a plan.
func checkColumns(f *rows.Features, names []string) error {
	known := map[string]bool{}
	if f != nil {
		for _, columns := range [][]rows.Column{f.User, f.Item, f.Row} {
			for i := range columns {
				known[columns[i].Name] = true
			}
		}
	}
	for _, name := range names {
		if !known[name] {
			return fmt.Errorf("it requires the feature %q, which this device does not have", name)
		}
	}
	return nil
}
