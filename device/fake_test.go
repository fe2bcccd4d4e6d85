package device

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// fakeCoordinator is a coordinator in memory: every device is in every round, and a round ends when all
// devices were counted.
type fakeCoordinator struct {
	fakeMasking
	fakeFaults
	mu      sync.Mutex
	t       testing.TB
	key     ed25519.PrivateKey
	fed     []byte
	run     []byte
	plan    *local.Plan
	mem     *local.Memory
	spec    *pb.Plan
	items   []*pb.Item
	popular []uint32
	bound   *pb.Bound
	devices int
	kind    pb.Kind
	piece   int

	version uint64
	round   uint32
	signed  *pb.SignedManifest
	blobs   map[[32]byte][]byte
	ids     map[string]uint32            // device IDs by key
	parts   map[string][]byte            // pieces of reports by key
	counted map[string]map[uint32][]byte // digests by kind and round, and by device ID
	digests map[string]map[string]bool   // every digest by kind, round and device ID
	sum     []int64
	sums    [][]int64      // of finished rounds
	left    int            // devices that left the federation
	last    *pb.LastReport // of the last check-in
}

// fakeMasking is the masked round of a fakeCoordinator.
type fakeMasking struct {
	masking    bool
	active     bool
	attempt    uint32
	server     *secagg.Server
	serverStep int
	arrived    [5]map[uint32]bool
	summed     bool
}

// fakeFaults makes a fakeCoordinator behave in unusual ways, and counts downloads.
type fakeFaults struct {
	asks      bool                 // ask for the manifest that a device has
	state     string               // of the coordinator
	request   *pb.CheckInRequest   // the last one
	enrolment *pb.EnrolRequest     // the last one
	noTokens  bool                 // refuse to enrol
	idle      bool                 // assign no tasks
	closes    bool                 // answer that reports are not counted
	lost      bool                 // lose the next counted report
	repeats   bool                 // assign a masked attempt again to a device that has started it
	edit      func(m *pb.Manifest) // called before signing; may be nil
	why       string               // reason of waits
	name      string
	rollbacks uint32
	number    uint32 // of the run, from 0
	period    uint32 // budget period, from 0
	fetched   int    // calls of Fetch
	bytes     int    // downloaded bytes
}

func refusal(word string) error { return rpc.Refuse(word, connect.CodeFailedPrecondition, "refused") }

func newFake(t testing.TB, method string, devices int, set ...string) *fakeCoordinator {
	t.Helper()
	f := &fakeCoordinator{
		t: t, devices: devices, kind: pb.Kind_TRAIN, piece: 4096, blobs: map[[32]byte][]byte{},
		ids: map[string]uint32{}, parts: map[string][]byte{},
		counted: map[string]map[uint32][]byte{}, digests: map[string]map[string]bool{}, fed: make([]byte, 16),
		run: make([]byte, 16),
	}
	copy(f.fed, "a federation....")
	copy(f.run, "a run...........")
	f.key = ed25519.NewKeyFromSeed(make([]byte, 32))
	const items = 60
	f.spec = &pb.Plan{
		Method: method, Items: items, Users: uint32(devices), Rounds: 50, Batch: 16, Negatives: 2,
		Seed: 11, Keep: "f32", Policy: "none", Cohort: "all", ServerRate: 1, Runs: 1,
	}
	e, err := methods.Default().Lookup(method)
	if err != nil {
		t.Fatal(err)
	}
	m := e.Build()
	for i := 0; i < len(set); i += 2 {
		f.spec.Params = append(f.spec.Params, &pb.Setting{Key: set[i], Value: set[i+1]})
		if err := param.Set(m, set[i], set[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if f.plan, err = local.NewPlan(m, local.Options{
		Items: items, Users: devices, Rounds: 50, Batch: 16, Negatives: 2,
		Seed: 11, Integers: true,
	}); err != nil {
		t.Fatal(err)
	}
	if f.mem, err = local.NewMemory(f.plan, 1, 1); err != nil {
		t.Fatal(err)
	}
	for i := range f.plan.Slots {
		f.spec.Shape = append(f.spec.Shape, uint64(f.plan.Slots[i].Rows), uint64(f.plan.Slots[i].Dim))
	}
	for i := range items {
		f.items = append(f.items, &pb.Item{Id: fmt.Sprintf("i%d", i), Title: fmt.Sprintf("Title %d", i)})
	}
	b := privacy.WideBound(devices)
	f.bound = wire.EncodeBound(b, 0, 0, int64(b.Levels)+1)
	f.sum = make([]int64, f.plan.MaxUpdateLength()+1)
	return f
}

// protect gives the plan a privacy policy, and the tasks what an honest coordinator sets.
func (f *fakeCoordinator) protect(policy, cohort string) *privacy.Stack {
	f.t.Helper()
	f.spec.Policy, f.spec.Cohort = policy, cohort
	v := &vetted{spec: f.spec, plan: f.plan}
	k, err := v.guarantee()
	if err != nil {
		f.t.Fatal(err)
	}
	f.bound = honestBound(k, int(f.round))
	return k
}

// honestBound is the bound of a training task in a round.
func honestBound(k *privacy.Stack, round int) *pb.Bound {
	noise, bitNoise := int64(0), int64(0)
	if k.Drawn {
		if noise = k.NoiseShare(round); k.Adaptive != "off" {
			bitNoise = k.CountNoiseShare(round)
		}
	}
	return wire.EncodeBound(k.Bound(round), noise, bitNoise, k.MaxInteger(round))
}

// publish makes the current values the newest version.
func (f *fakeCoordinator) publish() {
	f.version++
	m := &pb.Manifest{
		Federation: f.fed, Run: f.run, Version: f.version, Round: f.round, CreatedMs: 1_000_000,
		Rollbacks: f.rollbacks, RunNumber: f.number + 1, BudgetPeriod: f.period + 1, RunInPeriod: f.number + 1,
	}
	put := func(b []byte, err error) *pb.Blob {
		if err != nil {
			f.t.Fatal(err)
		}
		f.blobs[sha256.Sum256(b)] = b
		return wire.HashBlob(b)
	}
	m.Plan = put(wire.Marshal(f.spec))
	m.Catalogue = put(wire.Marshal(&pb.Catalogue{Version: 1, Items: f.items, Popular: f.popular}))
	for i := range f.plan.Slots {
		s := &f.plan.Slots[i]
		if s.Scope != 0 { // method.Shared
			m.Slots = append(m.Slots, &pb.Blob{})
			continue
		}
		m.Slots = append(m.Slots, put(wire.AppendRows(nil, f.mem.Value(i), s.Rows, s.Dim, vec.Pad(s.Dim)), nil))
	}
	if f.edit != nil {
		f.edit(m)
	}
	var err error
	if f.signed, err = wire.SignManifest(f.key, m); err != nil {
		f.t.Fatal(err)
	}
}

// conn is the connection of one device. crash, if set, is called before and after each call.
type conn struct {
	f    *fakeCoordinator
	key  string
	dead func(what string) error
}

var errDead = errors.New("the process was killed")

func (c *conn) do(what string, call func() error) error {
	if err := c.dead("before " + what); err != nil {
		return err
	}
	c.f.mu.Lock()
	err := call()
	c.f.mu.Unlock()
	if gone := c.dead("after " + what); gone != nil {
		return gone
	}
	return err
}

func (c *conn) Hello(context.Context, *pb.HelloRequest) (out *pb.HelloResponse, err error) {
	return out, c.do("hello", func() error {
		out = &pb.HelloResponse{
			Version: wire.NewestVersion, Federation: c.f.fed, Name: "films" + c.f.name,
			Key: c.f.key.Public().(ed25519.PublicKey), Deterministic: true,
			Limits: &pb.Limits{BodyBytes: 1 << 20, PieceBytes: uint32(c.f.piece)},
		}
		return nil
	})
}

func (c *conn) Enrol(_ context.Context, r *pb.EnrolRequest) (out *pb.EnrolResponse, err error) {
	return out, c.do("enrol", func() error {
		if c.f.enrolment = r; c.f.noTokens {
			return refusal("bad_token")
		}
		id, again := c.f.ids[c.key]
		if !again {
			if id = uint32(len(c.f.ids)); r.WantsDeviceId {
				id = r.DeviceId
			}
			c.f.ids[c.key] = id
		}
		out = &pb.EnrolResponse{DeviceId: id, AlreadyEnrolled: again}
		return nil
	})
}

func (f *fakeCoordinator) roundOf(k pb.Kind) string { return fmt.Sprint(k, f.round) }

func (c *conn) CheckIn(_ context.Context, r *pb.CheckInRequest) (out *pb.CheckInResponse, err error) {
	f := c.f
	return out, c.do("check-in", func() error {
		f.last, f.request = r.LastReport, r
		id, ok := f.ids[c.key]
		if !ok {
			return refusal("unknown_key")
		}
		out = &pb.CheckInResponse{ShowHeld: f.asks}
		if r.ModelVersion != f.version {
			out.Manifest = f.signed
		}
		if f.idle || f.counted[f.roundOf(f.kind)][id] != nil || f.masking && !f.repeats && f.arrived[0][id] {
			wait := &pb.Wait{AfterMs: 50, Reason: "others are not done" + f.why, State: f.state}
			out.Action = &pb.CheckInResponse_Wait{Wait: wait}
			return nil
		}
		t := &pb.Task{
			Kind: f.kind, Run: f.run, Round: f.round, Attempt: f.attempt, Bound: f.bound, ModelVersion: f.version,
			RemainingMs: 60000, Length: uint64(len(f.sum)),
		}
		t.Length = uint64(f.numbers())
		if f.masking {
			r := f.maskRound()
			t.Masking = wire.EncodeMasking(&r, int(id))
		}
		out.Action = &pb.CheckInResponse_Task{Task: t}
		return nil
	})
}

func (c *conn) Fetch(_ context.Context, r *pb.FetchRequest) (out *pb.FetchResponse, err error) {
	return out, c.do("fetch", func() error {
		b := c.f.blobs[[32]byte(r.Hash)]
		if r.Offset >= uint64(len(b)) {
			return refusal("no_such_blob")
		}
		c.f.fetched++
		out = &pb.FetchResponse{Data: b[r.Offset:min(r.Offset+uint64(c.f.piece), uint64(len(b)))]}
		c.f.bytes += len(out.Data)
		return nil
	})
}

func (c *conn) Report(_ context.Context, r *pb.ReportRequest) (out *pb.ReportResponse, err error) {
	return out, c.do("report", func() (err error) {
		out, err = c.f.report(c.key, r)
		return err
	})
}

func (f *fakeCoordinator) report(key string, r *pb.ReportRequest) (*pb.ReportResponse, error) {
	id := f.ids[key]
	name := fmt.Sprint(r.Kind, r.Round)
	who := fmt.Sprint(name, " ", id)
	if f.digests[who] == nil {
		f.digests[who] = map[string]bool{}
	}
	f.digests[who][string(r.Digest)] = true
	if f.counted[name][id] != nil {
		return &pb.ReportResponse{State: pb.ReportState_COUNTED}, nil
	}
	if r.Round != f.round || r.Kind != f.kind || f.closes {
		return &pb.ReportResponse{State: pb.ReportState_CLOSED}, nil
	}
	part := f.parts[key]
	if r.Offset == 0 {
		part = nil
	}
	if r.Offset != uint64(len(part)) {
		return &pb.ReportResponse{State: pb.ReportState_MORE, Next: uint64(len(part))}, nil
	}
	part = append(part, r.Data...)
	if f.parts[key] = part; uint64(len(part)) < r.Bytes {
		return &pb.ReportResponse{State: pb.ReportState_MORE, Next: uint64(len(part))}, nil
	}
	delete(f.parts, key)
	if d := sha256.Sum256(part); string(d[:]) != string(r.Digest) {
		return nil, refusal("bad_digest")
	}
	n := f.numbers()
	if wire.ReadUpdate(part, 0, 1, nil) == nil { // no training data
		n = 0
	}
	if err := wire.ReadUpdate(part, n, f.bound.Max, f.sum[:n]); err != nil {
		return nil, refusal("malformed")
	}
	if f.counted[name] == nil {
		f.counted[name] = map[uint32][]byte{}
	}
	f.counted[name][id] = r.Digest
	if f.lost { // the report and its part of the sum are lost
		f.lost = false
		delete(f.counted[name], id)
		clear(f.sum)
		return &pb.ReportResponse{State: pb.ReportState_COUNTED}, nil
	}
	f.close(name)
	return &pb.ReportResponse{State: pb.ReportState_COUNTED}, nil
}

// numbers returns the length of a report.
func (f *fakeCoordinator) numbers() int {
	switch f.kind {
	case pb.Kind_EVALUATE:
		return metrics.EvaluationLength
	case pb.Kind_COUNT:
		return f.plan.Items
	}
	return f.plan.UpdateLength(int(f.round)) + 1
}

// close ends the round when all devices are counted: the server step adds the mean.
func (f *fakeCoordinator) close(name string) {
	if len(f.counted[name]) < f.devices {
		return
	}
	f.sums = append(f.sums, slices.Clone(f.sum))
	if f.kind == pb.Kind_TRAIN {
		f.apply()
		f.round++
	}
	clear(f.sum)
	f.publish()
}

func (f *fakeCoordinator) apply() {
	unit := f.bound.Clip / f.bound.Levels
	for _, i := range f.plan.SentSlots() {
		got := make([]float32, len(f.mem.Value(i)))
		f.plan.Decode(int(f.round), i, f.sum, unit, got)
		vec.Axpy(1/float32(f.devices), got, f.mem.Value(i))
	}
}

func (c *conn) Leave(context.Context, *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	return &pb.LeaveResponse{}, c.do("leave", func() error {
		delete(c.f.ids, c.key)
		c.f.left++
		return nil
	})
}

// crashingStore calls crash before and after each save.
type crashingStore struct {
	Store
	dead func(what string) error
}

func (v *crashingStore) Save(b []byte) error {
	if err := v.dead("before save"); err != nil {
		return err
	}
	if err := v.Store.Save(slices.Clone(b)); err != nil {
		return err
	}
	return v.dead("after save")
}

// seedEvents returns the events of device n: six items.
func seedEvents(n int) []Event {
	var out []Event
	for k := range 6 {
		out = append(out, Event{Item: fmt.Sprintf("i%d", (n*7+k*k*3)%60), Time: int64(k)})
	}
	return out
}

// testDevice is a device and the state that survives a restart.
type testDevice struct {
	f         *fakeCoordinator
	id        uint32
	store     Store
	blobs     Blobs
	workspace *Workspace
	crash     func(string) error
	change    func(*Options)
}

func (f *fakeCoordinator) device(id int) *testDevice {
	r := &testDevice{
		f: f, id: uint32(id), store: &memoryStore{}, blobs: NewMemoryBlobs(), workspace: &Workspace{},
		crash: func(string) error { return nil },
	}
	d := r.open()
	if err := d.Replace(seedEvents(id)); err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (r *testDevice) tryOpen() (*Device, error) {
	opt := Options{
		Store: &crashingStore{r.store, r.crash}, Blobs: r.blobs, Workspace: r.workspace, Deterministic: true,
		HoldOut:  true,
		DeviceID: &r.id,
		Dial: func(key ed25519.PrivateKey) (Conn, error) {
			return &conn{r.f, string(key.Public().(ed25519.PublicKey)), r.crash}, nil
		},
		Sleep: func(ctx context.Context, _ time.Duration) error {
			if r.f.masking { // other goroutines need the processor
				time.Sleep(100 * time.Microsecond)
			}
			return ctx.Err()
		},
	}
	if r.change != nil {
		r.change(&opt)
	}
	return Open(opt)
}

func (r *testDevice) open() *Device {
	r.f.t.Helper()
	d, err := r.tryOpen()
	if err != nil {
		r.f.t.Fatal(err)
	}
	return d
}
