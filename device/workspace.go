package device

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// Workspace is what devices of one process can share: the plan, the values of the model and
// room to train in. A real device has one of its own. Devices that share one take turns.
type Workspace struct {
	// Features are those of devices that are played together: columns of users are by seat,
	// those of interactions as their sources number them. Set them before the first use. Nil
	// means that the one device there is has its own, from its owner.
	Features *rows.Features
	// Memory bounds, in bytes, what a plan may need; one that needs more is refused before
	// anything is allocated. 0 means 1 GiB.
	Memory float64
	// Methods are the methods that the device can train. Nil means methods.Default().
	Methods *method.Registry

	manifests manifestCache

	mu            sync.Mutex
	loaded        [2][32]byte // hashes of the plan and of the features
	spec          *pb.Plan
	plan          *local.Plan
	mem           *local.Memory
	worker        *local.Worker
	slots         [][32]byte // hashes of the values that are loaded
	catalogue     *Catalogue
	catalogueHash [32]byte
	vector        []int64
	unread        bool // a visit has begun, and its vector was not taken
	scores        []float32
}

// manifestCache are the manifests that were verified last: one that devices have, and one that they
// are offered. The same bytes under the same key have the same answer, so that a device that
// looks at its manifest often verifies it once.
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

// verify is wire.Verify. What it returns is shared, and not to be changed.
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

// ErrTooLarge is wrapped by the error for a plan that a device has no room for.
var ErrTooLarge = errors.New("agent: the plan needs more memory than this device gives")

// blobReader returns a blob that a manifest names, checked.
type blobReader func(b *pb.Blob) ([]byte, error)

// load makes the host ready for a model: whatever has not changed stays.
func (h *Workspace) load(m *pb.Manifest, blob blobReader) error {
	name := [2][32]byte{[32]byte(m.Plan.Hash)}
	copy(name[1][:], m.Features.GetHash())
	if h.plan == nil || name != h.loaded {
		if err := h.setPlan(m, blob); err != nil {
			h.plan = nil
			return err
		}
		h.loaded = name
	}
	if err := wire.CheckSlots(m, h.spec); err != nil {
		return err
	}
	if name := [32]byte(m.Catalogue.Hash); h.catalogue == nil || name != h.catalogueHash {
		b, err := blob(m.Catalogue)
		if err != nil {
			return err
		}
		if h.catalogue, err = readCatalogue(b, h.plan.Items); err != nil {
			return err
		}
		h.catalogueHash = name
	}
	for i := range h.plan.Slots {
		if err := h.setSlot(i, m.Slots[i], blob); err != nil {
			return err
		}
	}
	return nil
}

// setSlot loads the values of a slot. One that does not travel keeps what it has.
func (h *Workspace) setSlot(i int, b *pb.Blob, blob blobReader) error {
	if len(b.GetHash()) == 0 || h.slots[i] == [32]byte(b.Hash) {
		return nil
	}
	data, err := blob(b)
	if err != nil {
		return err
	}
	s := &h.plan.Slots[i]
	h.slots[i] = [32]byte{} // what follows may stop half-way
	if err := wire.ReadRows(data, h.mem.Value(i), s.Rows, s.Dim, vec.Pad(s.Dim)); err != nil {
		return fmt.Errorf("slot %q of the model: %w", s.Name, err)
	}
	h.slots[i] = [32]byte(b.Hash)
	return nil
}

// setPlan builds a plan as the coordinator describes it, and checks that both mean the
// same.
func (h *Workspace) setPlan(m *pb.Manifest, blob blobReader) error {
	b, err := blob(m.Plan)
	if err != nil {
		return err
	}
	p, err := wire.ReadPlan(b)
	if err != nil {
		return err
	}
	f, err := h.features(m, p, blob)
	if err != nil {
		return err
	}
	if h.plan, err = h.build(p, f); err != nil {
		return fmt.Errorf("agent: the coordinator's plan: %w", err)
	}
	most := h.Memory
	if most == 0 {
		most = 1 << 30
	}
	if need := h.plan.MemoryBytes(1, 1); need > most {
		return fmt.Errorf("%w: about %.0f MiB, and the limit is %.0f MiB", ErrTooLarge, need/(1<<20), most/(1<<20))
	}
	if h.mem, err = local.NewMemory(h.plan, 1, 1); err != nil {
		return err
	}
	h.spec, h.worker, h.catalogue = p, local.NewWorker(h.mem, 0), nil
	h.slots = make([][32]byte, len(h.plan.Slots))
	h.vector, h.unread = make([]int64, h.plan.MaxUpdateLength()+1), false
	h.scores = make([]float32, h.plan.Items)
	return nil
}

// build makes the method by its name and parameters.
func (h *Workspace) build(p *pb.Plan, f *rows.Features) (*local.Plan, error) {
	registry := h.Methods
	if registry == nil {
		registry = methods.Default()
	}
	e, err := registry.Lookup(p.Method)
	if err != nil {
		return nil, fmt.Errorf("%w (is this program older than the coordinator's?)", err)
	}
	m := e.Build()
	for _, s := range p.Params {
		if err := param.Set(m, s.Key, s.Value); err != nil {
			return nil, fmt.Errorf("method %s: %w", p.Method, err)
		}
	}
	opt := local.Options{
		Features: f, SingleDevice: f != nil && h.Features == nil, Items: int(p.Items), Users: int(p.Users),
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
		return nil, fmt.Errorf("method %s is trained in one place, and no device takes part in that", p.Method)
	}
	return plan, sameShape(plan, p.Shape)
}

// sameShape sees that both sides have the same slots.
func sameShape(p *local.Plan, shape []uint64) error {
	if len(shape) != 2*len(p.Slots) {
		return fmt.Errorf("it has %d slots, and this program makes %d of its method; the versions differ",
			len(shape)/2, len(p.Slots))
	}
	for i := range p.Slots {
		if s := &p.Slots[i]; uint64(s.Rows) != shape[2*i] || uint64(s.Dim) != shape[2*i+1] {
			return fmt.Errorf("slot %q has %d rows of %d, and this program makes %d of %d; the versions differ",
				s.Name, shape[2*i], shape[2*i+1], s.Rows, s.Dim)
		}
	}
	return nil
}

// checkColumns sees that the device has the features that a plan names.
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
			return fmt.Errorf("it needs the feature %q, which this device does not have", name)
		}
	}
	return nil
}

// stateShape names the form of the private slots: states of another form are of no use.
func (h *Workspace) stateShape() string {
	p := h.plan
	s := fmt.Sprintf("%s %d %d", h.spec.Method, p.Keep, p.PlainSize())
	for k := range h.mem.NewState(nil).Tables {
		s += fmt.Sprintf(" %d", p.TableStride(k))
	}
	return s
}

// privateState is the private state that a record has for a run, or a new one.
func (h *Workspace) privateState(r *record, run []byte) (local.State, error) {
	st := h.mem.NewState(nil)
	if len(r.state) == 0 || !bytes.Equal(r.Run, run) || r.Shape != h.stateShape() {
		return st, nil
	}
	in := bytes.NewReader(r.state)
	if err := h.plan.ReadState(in, &st); err != nil {
		return st, err
	}
	if in.Len() > 0 {
		return st, errors.New("agent: the record is damaged: something follows the private state")
	}
	return st, nil
}

// prepare fills the task of a device, and checks what its source says.
func (h *Workspace) prepare(src Source, r *record, round int) (*local.Task, uint32, bool, error) {
	seat := r.DeviceID
	t := &local.Task{Device: seat, Round: round}
	held, ok := src.Fill(h.catalogue, t)
	for _, list := range [][]uint32{t.Train, t.Hide[0], t.Hide[1], {held}} {
		for _, item := range list {
			if int(item) >= h.plan.Items {
				return nil, 0, false, fmt.Errorf("agent: item %d, and the catalogue has %d", item, h.plan.Items)
			}
		}
	}
	if t.Rating != nil && len(t.Rating) != len(t.Train) || t.Rows != nil && len(t.Rows) != len(t.Train) {
		return nil, 0, false, fmt.Errorf("agent: %d items with %d ratings and %d rows", len(t.Train), len(t.Rating),
			len(t.Rows))
	}
	if h.plan.Features != nil && h.plan.SingleDevice {
		if err := h.fillFeatures(r, src, t); err != nil {
			return nil, 0, false, err
		}
	} else if f := h.plan.Features; f != nil {
		for i := range f.User {
			if int(seat) >= f.User[i].Len() {
				return nil, 0, false, fmt.Errorf("agent: feature %q has no value for seat %d", f.User[i].Name, seat)
			}
		}
	}
	return t, held, ok, nil
}

// score fills h.scores as the device would recommend: with its tuned copy where the
// method has one. The state may be changed.
func (h *Workspace) score(st *local.State, t *local.Task) {
	if h.plan.Serves(method.ServeLocal) {
		h.worker.Visit(st, t, local.NotCounted, false)
	} else {
		h.worker.Prepare(st, t)
	}
	h.worker.ScoreAll(h.scores)
}

// Catalogue is the items of a federation, by their place in the tables.
type Catalogue struct {
	about *pb.Catalogue
	place map[string]uint32
}

func readCatalogue(b []byte, items int) (*Catalogue, error) {
	about, err := wire.ReadCatalogue(b, items)
	if err != nil {
		return nil, err
	}
	c := &Catalogue{about: about, place: make(map[string]uint32, items)}
	for i, it := range about.Items {
		if _, twice := c.place[it.Id]; twice {
			return nil, fmt.Errorf("agent: the catalogue has two items %q", it.Id)
		}
		c.place[it.Id] = uint32(i)
	}
	seen := make([]bool, items)
	for _, i := range about.Popular {
		if int(i) >= items || seen[i] {
			return nil, fmt.Errorf("agent: item %d is popular twice, or not in the catalogue of %d", i, items)
		}
		seen[i] = true
	}
	return c, nil
}

// Index is where the item of an id stands; false for an id that is not known.
func (c *Catalogue) Index(id string) (uint32, bool) {
	i, ok := c.place[id]
	return i, ok
}

// Len is how many there are, retired ones too.
func (c *Catalogue) Len() int { return len(c.about.Items) }

// Item is the item at a place.
func (c *Catalogue) Item(at uint32) *pb.Item { return c.about.Items[at] }

// readBlob returns a blob of the store if it is what its name says.
func readBlob(store Blobs, b *pb.Blob) ([]byte, error) {
	data, err := store.Get([32]byte(b.Hash))
	if err != nil || data == nil {
		return nil, err
	}
	if c, shared := store.(*memoryBlobs); shared && uint64(len(data)) == b.Bytes &&
		c.isChecked([32]byte(b.Hash), data) {
		return data, nil
	}
	if uint64(len(data)) != b.Bytes || sha256.Sum256(data) != [32]byte(b.Hash) {
		return nil, nil // damaged: it is fetched anew
	}
	return data, nil
}
