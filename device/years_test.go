package device

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// A device compares the sizes that the manifest and the plan announce with its memory before it downloads
// anything large.
func TestTooLargeModelIsNotDownloaded(t *testing.T) {
	const offered = 256 << 20
	for what, edit := range map[string]func(f *fakeCoordinator, m *pb.Manifest){
		"catalogue": func(_ *fakeCoordinator, m *pb.Manifest) { m.Catalogue.Bytes = offered },
		"features": func(_ *fakeCoordinator, m *pb.Manifest) {
			m.Features = &pb.Blob{Hash: m.Plan.Hash, Bytes: offered}
		},
		"slots": func(f *fakeCoordinator, m *pb.Manifest) { // a plan of that size
			const dim = offered / 4 / 60
			f.spec.Params[0].Value = "1024"
			f.spec.Shape[1] = dim
			b, err := wire.Marshal(f.spec)
			if err != nil {
				t.Fatal(err)
			}
			m.Plan = wire.HashBlob(b)
			f.blobs[[32]byte(m.Plan.Hash)] = b
			m.Slots[0].Bytes = 4 * 60 * dim
		},
	} {
		f := newFake(t, "pfedrec", 1, "dim", "4")
		f.edit = func(m *pb.Manifest) { edit(f, m) }
		f.publish()
		dev := f.device(0)
		dev.workspace.Memory = 1 << 20
		_, err := dev.open().Step(context.Background())
		if !errors.Is(err, ErrTooLarge) || f.bytes > 4096 {
			t.Errorf("%s: %v after %d bytes", what, err, f.bytes)
		}
	}
}

// A run that continues the model keeps the private state; one that does not begins with a new one.
func TestPrivateStateSurvivesARunThatContinues(t *testing.T) {
	for _, continues := range []bool{false, true} {
		f, members := start(t, "pfedrec", 1, "dim", "4")
		f.rounds(3, members)
		before := string(members[0].open().record.state)
		f.number, f.run, f.round = 1, []byte("another run....."), 0
		f.spec.Continues = continues
		f.idle = true
		f.publish()
		d := members[0].open()
		if _, err := d.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		w := members[0].workspace
		m, err := d.loadNewest()
		if err != nil {
			t.Fatal(err)
		}
		st, err := w.privateState(d.record, m.Run)
		if err != nil {
			t.Fatal(err)
		}
		if kept := string(w.plan.AppendState(nil, &st)) == before; kept != continues {
			t.Errorf("the plan continues: %v, and the state is kept: %v", continues, kept)
		}
	}
}

// A coordinator that was restored from a backup asks for the proof that a newer version exists.
func TestShowsItsManifestWhenAsked(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.edit = func(m *pb.Manifest) { m.LedgerLines, m.LedgerHead = 7, bytes.Repeat([]byte{7}, 32) }
	f.version = 0
	f.publish()
	d := members[0].open()
	step := func() {
		t.Helper()
		if _, err := d.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	f.idle = true
	step()
	if f.request.Held != nil || !strings.HasPrefix(f.request.Software, "tacit") {
		t.Errorf("it sends %v", f.request)
	}
	f.asks = true
	if err := d.opt.Blobs.Keep(nil); err != nil { // the state file was copied without the folder of the model
		t.Fatal(err)
	}
	f.blobs = map[[32]byte][]byte{} // and the restored coordinator does not have that version
	step()
	held := f.request.Held
	m, err := wire.VerifyManifest(d.record.CoordinatorKey, f.fed, held)
	if err != nil || m.Version != f.request.ModelVersion || m.Version != 1 {
		t.Errorf("it shows %v, %v", m, err)
	}
	f.asks = false
	step()
	if f.request.Held != nil {
		t.Error("it shows its manifest without being asked")
	}
	if f.request.LedgerLines != m.LedgerLines || !bytes.Equal(f.request.LedgerHead, m.LedgerHead) ||
		m.LedgerLines == 0 {
		t.Errorf("it names line %d of the ledger, its model line %d", f.request.LedgerLines, m.LedgerLines)
	}
}

// A coordinator whose folder is older than the enrolment does not know the device. The device enrols again, with
// its proof, and keeps its key and its history; a device without a token says that it loses nothing.
func TestEnrolsAgainWithItsHistory(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.idle = true
	d := members[0].open()
	if _, err := d.Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	key, model, events := d.Key(), d.record.Manifest, len(d.record.History.Events)
	clear(f.ids)
	f.noTokens = true
	if _, err := d.Step(context.Background()); err == nil || !strings.Contains(err.Error(), "keeps its history") {
		t.Errorf("without a token: %v", err)
	}
	f.noTokens = false
	if out, err := d.Step(context.Background()); err != nil || out.Action != "waited" {
		t.Fatalf("%+v, %v", out, err)
	}
	if f.enrolment.Held == nil || !bytes.Equal(f.enrolment.Held.Body, model) {
		t.Errorf("it enrols with %v", f.enrolment)
	}
	if !key.Equal(d.Key()) || len(d.record.History.Events) != events || events == 0 {
		t.Errorf("key %x after %x, %d events after %d", d.Key(), key, len(d.record.History.Events), events)
	}
}

// The owner of a device sees the state of the coordinator.
func TestShowsTheStateOfTheCoordinator(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.idle, f.state = true, "disk-full"
	d := members[0].open()
	out, err := d.Step(context.Background())
	if err != nil || out.Coordinator != "disk-full" {
		t.Fatalf("%+v, %v", out, err)
	}
	about, err := members[0].open().About() // another process
	if err != nil || about.Coordinator != "disk-full" {
		t.Errorf("%+v, %v", about, err)
	}
}

// A device waits as long as the coordinator asks, for hours. A suspended computer, or a clock that was set,
// does not make it wait much longer.
func TestWaitsForHoursWhateverTheClockDoes(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"steady": 0, "suspended for two hours": 2 * time.Hour, "set back by a day": -24 * time.Hour,
	} {
		now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
		slept := time.Duration(0)
		d := &Device{record: &record{}, opt: Options{
			Now: func() time.Time { return now },
			Sleep: func(_ context.Context, wait time.Duration) error {
				slept += wait
				if now = now.Add(wait); slept == 10*time.Minute {
					now = now.Add(step)
				}
				return nil
			},
		}}
		if err := d.sleepUntil(context.Background(), 6*time.Hour); err != nil {
			t.Fatal(err)
		}
		if want := 6*time.Hour - max(step, 0); slept < want || slept > want+sleepSlice {
			t.Errorf("%s: it slept %v, want %v", name, slept, want)
		}
	}
}
