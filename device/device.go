package device

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// Options are what a device is made of.
type Options struct {
	// Dial makes the connection, whose requests are signed with the key. It is called once,
	// in the first Step. Nil for a device that only recommends.
	Dial      func(key ed25519.PrivateKey) (Conn, error)
	Store     Store
	Blobs     Blobs
	Workspace *Workspace
	// Source is what it trains on; nil means the events that it is told.
	Source   Source
	Token    string // to enrol with
	DeviceID *uint32
	// Deterministic lets the device take part in a federation whose draws are public, and in
	// no other.
	Deterministic bool
	// HoldOut keeps the newest item of told events out of training, for evaluation. Without
	// it a device answers evaluations with nothing.
	HoldOut bool
	// Duty bounds the share of time that is spent computing: after a second of work a
	// device with 0.25 asks for three of rest. 0 means 1.
	Duty float64
	// Eligible says whether now is a good time: power, network, idleness are the device's
	// own business, and nobody is told why it stays away. Nil means always.
	Eligible func() (ok bool, why string)
	// Now and Sleep are the clock; nil means the system's.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Device is one device of a federation. It is for one goroutine, save that events may be
// told, and the log read, from other processes through the same vault.
type Device struct {
	opt             Options
	conn            Conn
	limits          *pb.Limits
	connected       bool          // it was said on this connection
	greeted         bool          // and in this step
	record          *record       // as last loaded or saved; nil when it must be loaded
	saved           []byte        // what rec was read from, or written as; nil when that is not known
	restAfter       time.Duration // what the coordinator has asked for with its last answer to a report
	checkedFeatures string        // the model, and what the owner has told, that fit together
	downloaded      uint64        // bytes that were fetched, and are not in the record yet
	verifiedVersion uint64        // version whose blobs have been checked against their hashes
}

// The errors that a program answers with more than a message.
var (
	ErrPaused        = errors.New("agent: the device is paused")
	ErrNoModel       = errors.New("agent: the device has no model yet; it gets one when it checks in")
	ErrDeterministic = errors.New("agent: the federation is a rehearsal: its draws are public, and no real device " +
		"takes " +
		"part")
	ErrWrongCoordinator = errors.New("agent: this is another coordinator than the one that the device enrolled with")
	ErrRevoked          = errors.New("agent: the coordinator has revoked the device's key")
	ErrFeatures         = errors.New("agent: the method learns from features that this device does not have")
)

// Open reads the record of a device, or makes a new one with a key of its own. Where there
// is something, it writes nothing.
func Open(opt Options) (*Device, error) {
	if opt.Store == nil || opt.Blobs == nil || opt.Workspace == nil {
		panic("agent: a device has a vault, blobs and a host")
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Sleep == nil {
		opt.Sleep = sleep
	}
	if opt.Duty <= 0 || opt.Duty > 1 {
		opt.Duty = 1
	}
	d := &Device{opt: opt}
	if err := d.refresh(); err != nil {
		return d, err
	}
	if d.saved == nil { // it is new; another process may make it too, and then it is that one
		if err := d.update(func(*record) error { return nil }); err != nil {
			return d, err
		}
	}
	if r := d.record; r.Enrolled && r.Deterministic && !opt.Deterministic {
		return d, fmt.Errorf("%w: this state file is of one; start with --rehearsal, or with another state file",
			ErrDeterministic)
	}
	return d, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// load reads the record, or makes one.
func (d *Device) load() (*record, error) {
	b, err := d.opt.Store.Load()
	if err != nil {
		return nil, err
	}
	if b == nil {
		return newRecord()
	}
	return decodeRecord(b)
}

// refresh makes d.rec what the vault has.
func (d *Device) refresh() error {
	b, err := d.opt.Store.Load()
	if err != nil {
		d.record = nil
		return err
	}
	if b != nil && d.record != nil && bytes.Equal(b, d.saved) {
		return nil
	}
	if d.saved, d.record = nil, nil; b == nil {
		d.record, err = newRecord()
		return err
	}
	if d.record, err = decodeRecord(b); err == nil {
		d.saved = b
	}
	return err
}

// update changes the record in the vault, all or nothing. Others may have changed it
// since it was loaded, so change sees the newest.
func (d *Device) update(change func(r *record) error) error {
	unlock, err := d.opt.Store.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := d.load()
	if err != nil {
		return err
	}
	if err := change(r); err != nil {
		return err
	}
	b, err := r.encode()
	if err != nil {
		return err
	}
	d.record, d.saved = nil, nil // what is in the vault is not known until Save returns
	if err := d.opt.Store.Save(b); err != nil {
		return err
	}
	d.record, d.saved = r, b
	return nil
}

// connect says hello once, and enrols a device that has no seat.
func (d *Device) connect(ctx context.Context) error {
	if d.conn == nil {
		if d.opt.Dial == nil {
			return errors.New("agent: the device has no connection")
		}
		conn, err := d.opt.Dial(ed25519.NewKeyFromSeed(d.record.Key))
		if err != nil {
			return err
		}
		d.conn = conn
	}
	if !d.connected {
		if err := d.hello(ctx); err != nil {
			return err
		}
	}
	if d.record.Enrolled {
		return nil
	}
	// The key is in the vault: after a crash it is the same one that asks again.
	key := ed25519.NewKeyFromSeed(d.record.Key).Public().(ed25519.PublicKey)
	req := &pb.EnrolRequest{Token: d.opt.Token, Key: key}
	if d.opt.DeviceID != nil {
		req.WantsDeviceId, req.DeviceId = true, *d.opt.DeviceID
	}
	seat, err := d.conn.Enrol(ctx, req)
	if err != nil {
		return fmt.Errorf("agent: enrolment: %w", err)
	}
	if seat.DeviceId >= wire.MaxDevices {
		return fmt.Errorf("agent: the coordinator gave seat %d: want one below %d", seat.DeviceId, wire.MaxDevices)
	}
	return d.update(func(r *record) error {
		r.Enrolled, r.DeviceID = true, seat.DeviceId
		return nil
	})
}

// hello checks that the coordinator is the one that the device knows, and learns what
// it is called now: before a run begins a federation has no name of its own.
func (d *Device) hello(ctx context.Context) error {
	h, err := d.conn.Hello(ctx, &pb.HelloRequest{Oldest: wire.OldestVersion, Newest: wire.NewestVersion})
	if err != nil {
		return err
	}
	if err := wire.CheckHello(h); err != nil { // its name is shown to people
		return err
	}
	r := d.record
	switch {
	case h.Version < wire.OldestVersion || h.Version > wire.NewestVersion:
		return fmt.Errorf("agent: the coordinator speaks version %d of the protocol, and this program %d to %d: "+
			"update the older one", h.Version, wire.OldestVersion, wire.NewestVersion)
	case h.Deterministic && !d.opt.Deterministic:
		return ErrDeterministic
	case !h.Deterministic && d.opt.Deterministic:
		return errors.New("agent: the federation is no rehearsal: a device that plays one must not take part in it")
	case len(r.CoordinatorKey) > 0 && (!bytes.Equal(r.CoordinatorKey, h.Key) ||
		!bytes.Equal(r.Federation, h.Federation)):
		return ErrWrongCoordinator
	}
	d.limits, d.connected, d.greeted = h.Limits, true, true
	known := len(r.CoordinatorKey) > 0
	if known && r.Name == h.Name {
		return nil
	}
	return d.update(func(r *record) error {
		if r.Name = h.Name; !known {
			r.CoordinatorKey, r.Federation, r.Deterministic = h.Key, h.Federation, h.Deterministic
		}
		return nil
	})
}

// adopt makes a new manifest the device's own, once it has all that it names.
func (d *Device) adopt(ctx context.Context, s *pb.SignedManifest) error {
	m, err := d.opt.Workspace.manifests.verify(d.record.CoordinatorKey, d.record.Federation, s)
	if err != nil {
		return err
	}
	old, err := d.manifest()
	if !d.greeted && (err != nil || !bytes.Equal(m.Run, old.Run)) { // a run has begun since they met
		if err := d.hello(ctx); err != nil {
			return err
		}
	}
	if err == nil && m.Version <= old.Version {
		same := m.Version == old.Version && bytes.Equal(s.Body, d.record.Manifest)
		if same && d.complete(m) {
			return nil
		}
		if !same {
			return fmt.Errorf("agent: the coordinator offers version %d of the model, and the device has version %d",
				m.Version, old.Version)
		}
	}
	keep := [][32]byte{}
	for _, b := range blobsOf(m) {
		keep = append(keep, [32]byte(b.Hash))
		if err := d.fetch(ctx, m, b); err != nil {
			return err
		}
	}
	err = d.update(func(r *record) error {
		r.Manifest, r.Signature = s.Body, s.Signature
		r.Downloads.add(m.Version, d.downloaded)
		return nil
	})
	if err != nil {
		return err
	}
	d.downloaded = 0
	d.verifiedVersion = m.Version
	return d.opt.Blobs.Keep(keep)
}

// complete reports whether the store has all that a manifest names: by hash when the
// device meets it for the first time, or has found damage, and else by size.
func (d *Device) complete(m *pb.Manifest) bool {
	for _, b := range blobsOf(m) {
		if d.verifiedVersion != m.Version {
			if data, err := readBlob(d.opt.Blobs, b); err != nil || data == nil {
				return false
			}
		} else if data, err := d.opt.Blobs.Get([32]byte(b.Hash)); err != nil || uint64(len(data)) != b.Bytes {
			return false
		}
	}
	d.verifiedVersion = m.Version
	return true
}

// manifest is the one that the device has. It was verified when it came; it is again
// where it is not the one that was verified last, since a state file lies about for long.
func (d *Device) manifest() (*pb.Manifest, error) {
	if len(d.record.Manifest) == 0 {
		return nil, ErrNoModel
	}
	return d.opt.Workspace.manifests.verify(d.record.CoordinatorKey, d.record.Federation, &pb.SignedManifest{
		Body:      d.record.Manifest,
		Signature: d.record.Signature,
	})
}

// blobsOf are the blobs that a manifest names.
func blobsOf(m *pb.Manifest) (out []*pb.Blob) {
	for _, b := range append([]*pb.Blob{m.Plan, m.Catalogue, m.Features}, m.Slots...) {
		if len(b.GetHash()) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// stored is get for what adopt has fetched. A blob that was damaged since then is an
// error: the model is adopted anew at the next check-in.
func (d *Device) stored(b *pb.Blob) ([]byte, error) {
	data, err := readBlob(d.opt.Blobs, b)
	if err == nil && data == nil {
		d.verifiedVersion = 0
		return nil, fmt.Errorf("agent: a part of the model is missing or damaged (%x): %w", b.Hash[:4], errBlobMissing)
	}
	return data, err
}

var errBlobMissing = errors.New("it is fetched again at the next check-in")
