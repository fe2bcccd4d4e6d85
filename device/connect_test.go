package device

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// The address of another coordinator is refused, and nothing of the state file changes.
func TestRefusedCoordinatorChangesNothing(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	dev := members[0]
	settings := func(url string) {
		dev.change = func(o *Options) { o.Settings = map[string]string{"server": url, "pin": "pin of " + url} }
	}
	settings("https://first")
	f.rounds(1, members)
	before, _ := dev.store.Load()
	other := newFake(t, "pfedrec", 1, "dim", "4")
	other.fed, other.name = []byte("another one....."), " of others"
	other.publish()
	dev.f = other
	settings("https://other")
	d := dev.open()
	for name, do := range map[string]func() error{
		"check": func() error { return d.Check(context.Background()) },
		"step":  func() error { _, err := d.Step(context.Background()); return err },
		"run":   func() error { return d.Run(context.Background(), nil) },
	} {
		if err := do(); !errors.Is(err, ErrWrongCoordinator) || !strings.Contains(err.Error(), `"films of others"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, _ := dev.store.Load(); !bytes.Equal(before, after) {
		t.Error("the refused coordinator has changed the state file")
	}
	dev.f = f // it has moved
	settings("https://moved")
	if err := dev.open().Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	if about, err := dev.open().About(); err != nil || about.Settings["server"] != "https://moved" {
		t.Errorf("%v, %v", about.Settings, err)
	}
}

// failingHello answers Hello with an error.
type failingHello struct {
	Conn
	err   error
	calls *int
}

func (c failingHello) Hello(context.Context, *pb.HelloRequest) (*pb.HelloResponse, error) {
	*c.calls++
	return nil, c.err
}

// A wrong pin, or a certificate that nobody vouches for, stops a device that has never reached its
// coordinator. A device that has keeps trying: it may be in a hotel's network. Neither saves anything.
func TestWrongCertificateStopsANewDevice(t *testing.T) {
	unknown := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	for _, failure := range []error{fmt.Errorf("%w: it has another", rpc.ErrPin), unknown} {
		for _, enrolled := range []bool{false, true} {
			f, members := start(t, "pfedrec", 1, "dim", "4")
			dev := members[0]
			dev.change = func(o *Options) { o.Settings = map[string]string{"pin": "right"} }
			if enrolled {
				f.rounds(1, members)
			}
			before, _ := dev.store.Load()
			calls := 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			dev.change = func(o *Options) {
				o.Settings = map[string]string{"pin": "right"}
				o.Dial = func(ed25519.PrivateKey) (Conn, error) { return failingHello{nil, failure, &calls}, nil }
				o.Sleep = func(context.Context, time.Duration) error {
					if calls == 3 {
						cancel()
					}
					return ctx.Err()
				}
			}
			err := dev.open().Run(ctx, func(out StepResult, err error) {
				if !errors.Is(err, ErrPin) && !errors.Is(err, ErrCertificate) || strings.Contains(err.Error(), "x509") {
					t.Errorf("it says %v", err)
				}
			})
			if stopped := !errors.Is(err, context.Canceled); stopped == enrolled || enrolled && calls != 3 {
				t.Errorf("enrolled %v: after %d calls: %v", enrolled, calls, err)
			}
			if after, _ := dev.store.Load(); !bytes.Equal(before, after) {
				t.Errorf("enrolled %v: the state file has changed", enrolled)
			}
			cancel()
		}
	}
}

// A device that was excluded tells its owner, and asks again in an hour: it may be readmitted.
func TestExcludedDeviceAsksAgainLater(t *testing.T) {
	_, members := start(t, "pfedrec", 1, "dim", "4")
	calls := 0
	members[0].change = func(o *Options) {
		o.Dial = func(ed25519.PrivateKey) (Conn, error) {
			return failingHello{nil, refusal(rpc.Excluded), &calls}, nil
		}
	}
	d := members[0].open()
	out, err := d.Step(context.Background())
	if !errors.Is(err, ErrExcluded) || out.After < time.Hour || d.fatal(err) {
		t.Errorf("%+v, %v", out, err)
	}
}
