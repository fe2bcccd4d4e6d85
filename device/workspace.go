package device

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// Workspace holds a loaded model and the memory to train in. Simulated devices of one process may
// share one, and then compute one after the other.
type Workspace struct {
	// Features are the feature columns of simulated devices: user columns by device ID, interaction
	// columns as their sources number them. Nil means that each device has the features that its
	// owner sets with Describe.
	Features *rows.Features
	// Memory limits the bytes that a plan may need. The device refuses a larger plan before it
	// allocates anything. 0 means 1 GiB.
	Memory float64
	// Methods are the methods that the device can train. Nil means methods.Default().
	Methods *method.Registry

	manifests manifestCache

	mu            sync.Mutex
	known         [2]*vetted // plans that were checked last, the newer first
	*vetted                  // the loaded plan; nil if none is
	mem           *local.Memory
	worker        *local.Worker
	slots         [][32]byte // hashes of the loaded values
	catalogue     *catalogue
	catalogueHash [32]byte
	update        []int64
	unread        bool // local training started, and its update was not read
	scores        []float32
}

// manifestCache holds the two manifests that were verified last: the devices' current one and the
// one that they are offered. It saves verifying the same bytes again.
type manifestCache struct {
	mu   sync.Mutex
	last [2]verifiedManifest // the newer first
}

type verifiedManifest struct {
	key, federation, body, signature []byte
	manifest                         *pb.Manifest
}

func (v *verifiedManifest) matches(key, federation []byte, s *pb.SignedManifest) bool {
	return v.manifest != nil && bytes.Equal(v.body, s.Body) && bytes.Equal(v.signature, s.Signature) &&
		bytes.Equal(v.key, key) && bytes.Equal(v.federation, federation)
}

// verify is wire.VerifyManifest. Callers must not change the result.
func (k *manifestCache) verify(key, federation []byte, s *pb.SignedManifest) (*pb.Manifest, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.last {
		if k.last[i].matches(key, federation, s) {
			return k.last[i].manifest, nil
		}
	}
	m, err := wire.VerifyManifest(key, federation, s)
	if err == nil {
		k.last[1] = k.last[0]
		k.last[0] = verifiedManifest{
			bytes.Clone(key), bytes.Clone(federation), bytes.Clone(s.Body), bytes.Clone(s.Signature),
			m,
		}
	}
	return m, err
}

// blobReader returns a blob of a manifest, checked against its hash.
type blobReader func(b *pb.Blob) ([]byte, error)

// load loads the parts of a model that have changed.
func (w *Workspace) load(m *pb.Manifest, blob blobReader) error {
	v, err := w.vet(m, blob)
	if err != nil {
		return err
	}
	if w.vetted != v {
		if err := w.setPlan(v); err != nil {
			w.vetted = nil
			return err
		}
	}
	if err := wire.CheckSlots(m, w.spec); err != nil {
		return err
	}
	if name := [32]byte(m.Catalogue.Hash); w.catalogue == nil || name != w.catalogueHash {
		b, err := blob(m.Catalogue)
		if err != nil {
			return err
		}
		if w.catalogue, err = readCatalogue(b, w.plan.Items); err != nil {
			return err
		}
		w.catalogueHash = name
	}
	for i := range w.plan.Slots {
		if err := w.setSlot(i, m.Slots[i], blob); err != nil {
			return err
		}
	}
	return nil
}

// setSlot loads the values of a slot, unless devices do not read it.
func (w *Workspace) setSlot(i int, b *pb.Blob, blob blobReader) error {
	if len(b.GetHash()) == 0 || w.slots[i] == [32]byte(b.Hash) {
		return nil
	}
	data, err := blob(b)
	if err != nil {
		return err
	}
	s := &w.plan.Slots[i]
	w.slots[i] = [32]byte{} // the values are incomplete until ReadRows returns
	if err := wire.ReadRows(data, w.mem.Value(i), s.Rows, s.Dim, vec.Pad(s.Dim)); err != nil {
		return fmt.Errorf("slot %q of the model: %w", s.Name, err)
	}
	w.slots[i] = [32]byte(b.Hash)
	return nil
}

// stateShape describes the layout of the private state. A state with another layout is discarded.
func (w *Workspace) stateShape() string {
	p := w.plan
	s := fmt.Sprintf("%s %d %d", w.spec.Method, p.Keep, p.PlainSize())
	for k := range w.mem.NewState(nil).Tables {
		s += fmt.Sprintf(" %d", p.TableStride(k))
	}
	return s
}

// privateState returns the private state of a run, or a new one. A run that continues the model of the
// run before keeps the state of earlier runs if its layout fits.
func (w *Workspace) privateState(r *record, run []byte) (local.State, error) {
	st := w.mem.NewState(nil)
	if len(r.state) == 0 || !bytes.Equal(r.Run, run) && !w.spec.Continues || r.Shape != w.stateShape() {
		return st, nil
	}
	in := bytes.NewReader(r.state)
	if err := w.plan.ReadState(in, &st); err != nil {
		return st, err
	}
	if in.Len() > 0 {
		return st, errors.New("the state file is corrupt: extra bytes after the private state")
	}
	return st, nil
}

// prepare fills the local task of a device with training data from src, and checks it. It returns
// the held-out item, if any.
func (w *Workspace) prepare(src source, r *record, round int) (*local.Task, uint32, bool, error) {
	id := r.DeviceID
	t := &local.Task{Device: id, Round: round}
	held, ok := src.fill(w.catalogue, t)
	for _, list := range [][]uint32{t.Train, t.Hide[0], t.Hide[1], {held}} {
		for _, item := range list {
			if int(item) >= w.plan.Items {
				return nil, 0, false, fmt.Errorf("item %d: must be below %d, the size of the catalogue", item,
					w.plan.Items)
			}
		}
	}
	if t.Rating != nil && len(t.Rating) != len(t.Train) || t.Rows != nil && len(t.Rows) != len(t.Train) {
		return nil, 0, false, fmt.Errorf("%d items with %d ratings and %d feature rows: the numbers must agree",
			len(t.Train), len(t.Rating),
			len(t.Rows))
	}
	if w.plan.Features != nil && w.plan.SingleDevice {
		if err := w.fillFeatures(r, src, t); err != nil {
			return nil, 0, false, err
		}
	} else if f := w.plan.Features; f != nil {
		for i := range f.User {
			if int(id) >= f.User[i].Len() {
				return nil, 0, false, fmt.Errorf("feature %q has no value for device %d", f.User[i].Name, id)
			}
		}
	}
	return t, held, ok, nil
}

// score fills w.scores with the scores that the device recommends by. It may change the state.
func (w *Workspace) score(st *local.State, t *local.Task) {
	if w.plan.Serves(method.ServeLocal) {
		w.worker.Visit(st, t, local.NotCounted, false)
	} else {
		w.worker.Prepare(st, t)
	}
	w.worker.ScoreAll(w.scores)
}
