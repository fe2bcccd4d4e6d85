package device

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// Conn is a connection to a coordinator. It signs requests with the device's key and may be used
// again after an error.
type Conn interface {
	Hello(context.Context, *pb.HelloRequest) (*pb.HelloResponse, error)
	Enrol(context.Context, *pb.EnrolRequest) (*pb.EnrolResponse, error)
	CheckIn(context.Context, *pb.CheckInRequest) (*pb.CheckInResponse, error)
	Fetch(context.Context, *pb.FetchRequest) (*pb.FetchResponse, error)
	Report(context.Context, *pb.ReportRequest) (*pb.ReportResponse, error)
	Mask(context.Context, *pb.MaskRequest) (*pb.MaskResponse, error)
	Leave(context.Context, *pb.LeaveRequest) (*pb.LeaveResponse, error)
}

// Server says how to reach a coordinator.
type Server struct {
	URL      string // https://host:port
	Pin      string // pin of the coordinator's TLS key; empty means the system's certificate authorities
	Insecure bool   // allow http://, for tests
}

func (s Server) dial(key ed25519.PrivateKey) (Conn, error) {
	return rpc.Dial(rpc.Options{URL: s.URL, Pin: s.Pin, Insecure: s.Insecure, Key: key})
}

// SetDial replaces the connection of the device.
func (d *Device) SetDial(dial func(key ed25519.PrivateKey) (Conn, error)) {
	d.opt.Dial = dial
	d.conn = nil
	d.connected = false
}

// connect dials, says Hello, and enrols a device that has no device ID. Each happens once.
func (d *Device) connect(ctx context.Context) error {
	if err := d.dial(); err != nil {
		return err
	}
	if !d.connected {
		if err := d.hello(ctx); err != nil {
			return err
		}
	}
	if d.record.Enrolled {
		return nil
	}
	return d.enrol(ctx)
}

// hello checks that the coordinator is the one that the device knows, and updates the federation's
// name, which may change when a run begins.
func (d *Device) hello(ctx context.Context) error {
	h, err := d.conn.Hello(ctx, &pb.HelloRequest{Oldest: wire.OldestVersion, Newest: wire.NewestVersion})
	if err != nil {
		return certificateError(err)
	}
	if err := wire.CheckHello(h); err != nil {
		return err
	}
	r := d.record
	known := len(r.CoordinatorKey) > 0
	switch {
	case h.Version < wire.OldestVersion || h.Version > wire.NewestVersion:
		return fmt.Errorf("the coordinator uses protocol version %d, this program %d to %d: update the older one",
			h.Version, wire.OldestVersion, wire.NewestVersion)
	case h.Deterministic && !d.opt.Deterministic:
		return ErrDeterministic
	case !h.Deterministic && d.opt.Deterministic:
		return errors.New("the federation is not deterministic: a deterministic device must not take part in it")
	case known && (!bytes.Equal(r.CoordinatorKey, h.Key) || !bytes.Equal(r.Federation, h.Federation)):
		return fmt.Errorf("%w: the state file belongs to %q (%.4x), this coordinator serves %q (%.4x)",
			ErrWrongCoordinator, r.Name, r.Federation, h.Name, h.Federation)
	}
	d.limits, d.connected, d.greeted = h.Limits, true, true
	if known && r.Name == h.Name && d.settingsSaved() {
		return nil
	}
	return d.update(func(r *record) error {
		r.Name = h.Name
		maps.Copy(r.Settings, d.opt.Settings)
		if !known {
			r.CoordinatorKey, r.Federation, r.Deterministic = h.Key, h.Federation, h.Deterministic
		}
		return nil
	})
}

// settingsSaved reports whether the coordinator that the settings name has been reached before.
func (d *Device) settingsSaved() bool {
	for k, v := range d.opt.Settings {
		if d.record.Settings[k] != v {
			return false
		}
	}
	return true
}

// Check says Hello to the coordinator, and saves nothing if it is not the one that the device knows.
func (d *Device) Check(ctx context.Context) error {
	if err := d.refresh(); err != nil {
		return err
	}
	if err := d.dial(); err != nil {
		return err
	}
	return d.hello(ctx)
}

func (d *Device) dial() error {
	if d.conn != nil {
		return nil
	}
	if d.opt.Dial == nil {
		return errors.New("the device has no coordinator: set the server's address")
	}
	conn, err := d.opt.Dial(ed25519.NewKeyFromSeed(d.record.Key))
	if err == nil {
		d.conn = conn
	}
	return err
}

// maxProof is the size of a manifest that fits into an enrolment of 4 KiB. Those of our methods have a few hundred
// bytes.
const maxProof = 3 << 10

// enrol registers the device's key. The key is saved: after a crash the device enrols again with
// the same key and receives the same device ID. If it has a model, the coordinator has lost the enrolment.
func (d *Device) enrol(ctx context.Context) error {
	req := &pb.EnrolRequest{Token: d.opt.Token, Key: d.Key()}
	if d.opt.DeviceID != nil {
		req.WantsDeviceId, req.DeviceId = true, *d.opt.DeviceID
	}
	if len(d.record.Manifest) <= maxProof {
		req.Held = d.held()
	}
	enrolled, err := d.conn.Enrol(ctx, req)
	if err != nil {
		return fmt.Errorf("cannot enrol: %w", err)
	}
	if enrolled.DeviceId >= wire.MaxDevices {
		return fmt.Errorf("the coordinator assigned device ID %d: must be below %d", enrolled.DeviceId, wire.MaxDevices)
	}
	return d.update(func(r *record) error {
		r.Enrolled, r.DeviceID = true, enrolled.DeviceId
		return nil
	})
}

// hasCode reports whether the coordinator answered with one of the error codes.
func hasCode(err error, codes ...string) bool {
	c := rpc.Code(err)
	return c != "" && slices.Contains(codes, c)
}

// removedError is ErrRevoked or ErrExcluded together with the coordinator's answer, which says the same.
type removedError struct{ known, answer error }

func (e *removedError) Error() string   { return e.known.Error() }
func (e *removedError) Unwrap() []error { return []error{e.known, e.answer} }

// refused reports whether the coordinator will never accept a report.
func refused(err error) bool {
	return hasCode(err, rpc.WrongRun, rpc.WrongRound, rpc.NotInCohort, rpc.Malformed, rpc.Oversized, rpc.OverBound,
		rpc.BadDigest, rpc.NotMasked)
}

// fatal reports whether every later step would fail too. A certificate that does not match may be that of a
// hotel's network: it is fatal only if the device has never reached the coordinator.
func (d *Device) fatal(err error) bool {
	if errors.Is(err, ErrPin) || errors.Is(err, ErrCertificate) {
		return d.record == nil || !d.record.Enrolled || !d.settingsSaved()
	}
	for _, e := range []error{ErrDeterministic, ErrWrongCoordinator, ErrRevoked, ErrTooLarge, ErrFeatures} {
		if errors.Is(err, e) {
			return true
		}
	}
	return hasCode(err, rpc.Revoked, rpc.BadToken, rpc.WrongVersion, rpc.UnknownKey)
}
