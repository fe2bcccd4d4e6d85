package device

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/method"
)

// Options configure a device.
type Options struct {
	// Server is the coordinator. A device that only recommends needs none.
	Server Server
	// Dial, if set, makes the connection instead of Server. It is called once, in the first Step.
	Dial func(key ed25519.PrivateKey) (Conn, error)
	// Settings of the program that runs the device, such as the coordinator's address, are saved when the
	// coordinator has proven to be the one that the device knows, and not before. See About.
	Settings map[string]string
	// Token is the enrolment token. A device that is enrolled needs none.
	Token string

	// Store keeps the private record, Blobs the model. OpenFile sets both. Nil means in memory.
	Store Store
	Blobs Blobs
	// Passphrase encrypts the state file of OpenFile. It is called at most once; isNew says that
	// the file does not exist yet. Nil, or an empty passphrase for a new file, means no encryption.
	Passphrase func(isNew bool) ([]byte, error)
	// Keyring makes OpenFile encrypt a new state file with a key in the system's keyring.
	Keyring bool

	// Methods are the methods that the device can train; nil means methods.Default().
	Methods *method.Registry
	// Memory limits the bytes that a plan may need; 0 means 1 GiB.
	Memory float64
	// Workspace, if set, is shared with other devices of the process. Its own Methods and Memory
	// apply then. Nil means a workspace for this device alone.
	Workspace *Workspace

	// Software is the name and the version of the program, which the operator of the coordinator sees. Empty
	// means tacit and its version.
	Software string

	// HoldOut keeps the newest item out of training, for evaluation. Without it a device
	// contributes zeros to evaluations.
	HoldOut bool
	// Duty bounds the fraction of time that is spent computing: after 1 s of work a device with
	// 0.25 asks for 3 s of rest. 0 means 1.
	Duty float64
	// Eligible says whether the device may take part now, for instance because it is charging.
	// The reason stays on the device. Nil means always.
	Eligible func() (ok bool, reason string)

	// Source replaces the recorded events of a simulated device: it sets Train, Rating, Rows and Hide
	// of a task, and returns the held-out item, if any. Nil means the events of Add.
	Source func(t *local.Task) (heldOut uint32, ok bool)
	// DeviceID asks for a device ID; nil means any.
	DeviceID *uint32
	// Deterministic lets the device take part in a federation whose randomness is derived from a
	// public seed, and in no other: tests only.
	Deterministic bool
	// Now and Sleep are the clock; nil means the system's.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Device is one device of a federation. Only one goroutine may use a Device. Other Devices, in this
// or another process, may add events to the same Store and read its log.
type Device struct {
	opt  Options
	conn Conn

	limits    *pb.Limits
	connected bool          // Hello was answered on this connection
	greeted   bool          // Hello was answered in this step
	restAfter time.Duration // pause that the coordinator asked for after the last report

	record *record // as last loaded or saved; nil if it must be loaded
	saved  []byte  // encoded record; nil if unknown

	downloaded      uint64 // bytes that are not counted in the record yet
	verifiedVersion uint64 // model version whose blobs match their hashes
	checkedFeatures string // model version and user features that fit together
}

// Errors that a program may handle.
var (
	ErrNoModel       = errors.New("the device has no model yet; it receives one when it checks in")
	ErrDeterministic = errors.New("the federation is deterministic: its randomness is public, so only test " +
		"devices may take part")
	ErrWrongCoordinator = errors.New("this is not the coordinator that the device enrolled with: its key or " +
		"federation ID differs")
	// ErrPin and ErrCertificate mean that the answer did not come from the coordinator that the address and
	// the pin name. Run stops if the device has never reached it.
	ErrPin         = rpc.ErrPin
	ErrCertificate = errors.New("the coordinator's certificate is not signed by an authority that this device " +
		"trusts, so it must be named by its pin")
	ErrRevoked  = errors.New("the coordinator has revoked this device")
	ErrExcluded = errors.New("the coordinator has excluded this device")
	ErrFeatures = errors.New("the features do not match the model")
)

// Open opens the device of opt.Store, or creates one with a new key. It writes only if the store is
// empty, and makes no calls. It returns a device with every error, so that Forget can delete it.
func Open(opt Options) (*Device, error) {
	if opt.Store == nil {
		opt.Store = &memoryStore{}
	}
	if opt.Blobs == nil {
		opt.Blobs = NewMemoryBlobs()
	}
	if opt.Workspace == nil {
		opt.Workspace = &Workspace{Methods: opt.Methods, Memory: opt.Memory}
	}
	if opt.Dial == nil && opt.Server.URL != "" {
		opt.Dial = opt.Server.dial
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Sleep == nil {
		opt.Sleep = sleep
	}
	if opt.Software == "" {
		opt.Software = software()
	}
	if !(opt.Duty > 0 && opt.Duty <= 1) {
		opt.Duty = 1
	}
	d := &Device{opt: opt}
	if err := d.refresh(); err != nil {
		return d, err
	}
	if d.saved == nil { // another process may create it at the same time: update uses that one then
		if err := d.update(func(*record) error { return nil }); err != nil {
			return d, err
		}
	}
	if d.record.Enrolled && d.record.Deterministic && !opt.Deterministic {
		return d, fmt.Errorf("%w: this state file belongs to such a federation; start with --deterministic, or "+
			"use another state file", ErrDeterministic)
	}
	return d, nil
}

// software names this program, as the operator's device list shows it.
func software() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return "tacit " + b.Main.Version
	}
	return "tacit"
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

// load reads the record, or creates one.
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

// refresh makes d.record the record of the store.
func (d *Device) refresh() error {
	b, err := d.opt.Store.Load()
	if err != nil {
		d.record = nil
		return err
	}
	if b != nil && d.record != nil && bytes.Equal(b, d.saved) {
		return nil
	}
	d.saved, d.record = nil, nil
	if b == nil {
		d.record, err = newRecord()
		return err
	}
	d.record, err = decodeRecord(b)
	if err == nil {
		d.saved = b
	}
	return err
}

// errUnchanged makes update save nothing.
var errUnchanged = errors.New("nothing has changed")

// update changes the record of the store atomically. Another process may have changed it since it
// was loaded, so change receives the newest record.
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
	if err := change(r); errors.Is(err, errUnchanged) {
		return nil
	} else if err != nil {
		return err
	}
	b, err := r.encode()
	if err != nil {
		return err
	}
	d.record, d.saved = nil, nil // unknown until Save returns
	if err := d.opt.Store.Save(b); err != nil {
		return err
	}
	d.record, d.saved = r, b
	return nil
}

// Key returns the device's public key.
func (d *Device) Key() ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(d.record.Key).Public().(ed25519.PublicKey)
}
