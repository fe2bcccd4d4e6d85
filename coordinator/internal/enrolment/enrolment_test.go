package enrolment

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/store"
)

func key(name any) []byte { return fmt.Append(nil, "key ", name) }

func open(t *testing.T, dir string) (*Registry, func()) {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(st, federation, Limits{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r, func() {
		r.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Enrolments that are being written with one token do not use up another token.
func TestConcurrentEnrolmentsCountOnlyTheirOwnToken(t *testing.T) {
	r := newRegistry()
	now := time.Now()
	textA, a := newToken(5, now.Add(time.Hour), "")
	textB, b := newToken(1, now.Add(time.Hour), "")
	r.apply(change{Op: opToken, Made: &a})
	r.apply(change{Op: opToken, Made: &b})
	for i := range 4 {
		if _, _, err := r.reserve(Request{Key: key(i), Token: textA, Limit: 100, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.reserve(Request{Key: key("b"), Token: textB, Limit: 100, Now: now}); err != nil {
		t.Errorf("an unused token is refused: %v", err)
	}
	if _, _, err := r.reserve(Request{Key: key("c"), Token: textB, Limit: 100, Now: now}); !errors.Is(err, ErrQuota) {
		t.Errorf("a token for one device admits a second while the first is written: %v", err)
	}
	if _, _, err := r.reserve(Request{Key: key("b"), Token: textA, Limit: 100, Now: now}); !errors.Is(err, ErrBusy) {
		t.Errorf("a key whose enrolment is being written enrols again: %v", err)
	}
}

func TestAnUnusedIDIsNotHeldAfterAFailedWrite(t *testing.T) {
	r := newRegistry()
	now := time.Now()
	text, token := newToken(9, now.Add(time.Hour), "")
	r.apply(change{Op: opToken, Made: &token})
	first, _, err := r.reserve(Request{Key: key(0), Token: text, Limit: 100, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	r.release(first)
	again, _, err := r.reserve(Request{Key: key(1), Token: text, Limit: 100, Now: now})
	if err != nil || again.ID != first.ID {
		t.Errorf("the next device gets ID %d, %v; expected %d", again.ID, err, first.ID)
	}
}

// A high device ID costs no memory and does not change the IDs of others.
func TestADeviceMayWantAHighID(t *testing.T) {
	r, stop := open(t, t.TempDir())
	defer stop()
	now := time.Now()
	token, err := r.NewToken(3, now.Add(time.Hour), "")
	if err != nil {
		t.Fatal(err)
	}
	high, beyond := uint32(1<<24-1), uint32(1<<31)
	q := Request{Key: key(0), Token: token, Wanted: &high, Limit: 1 << 24, Now: now}
	if id, _, err := r.Enrol(q); err != nil || id != high {
		t.Errorf("device ID %d, %v", id, err)
	}
	q = Request{Key: key(1), Token: token, Wanted: &beyond, Limit: 1 << 24, Now: now}
	if id, _, err := r.Enrol(q); err != nil || id != 0 {
		t.Errorf("a device that wants an invalid ID gets %d, %v", id, err)
	}
	if len(r.devices) != 2 {
		t.Errorf("%d keys are kept for 2 devices", len(r.devices))
	}
	if _, _, err := r.Enrol(Request{Key: key(2), Token: token, Limit: 1, Now: now}); !errors.Is(err, ErrFull) {
		t.Errorf("a federation without free IDs answers %v", err)
	}
}

func TestTheRegistrySurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	r, stop := open(t, dir)
	now := time.Now()
	token, err := r.NewToken(3, now.Add(time.Hour), "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, _, err := r.Enrol(Request{Key: key(i), Token: token, Limit: 100, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Revoke(1); err != nil {
		t.Fatal(err)
	}
	if err := r.Revoke(7); err != nil || r.Enrolled(7) {
		t.Errorf("revoking an unused ID: %v, enrolled %v", err, r.Enrolled(7))
	}
	stop()
	r, stop = open(t, dir)
	defer stop()
	if id, known, revoked := r.Lookup(key(1)); id != 1 || !known || revoked != Revoked {
		t.Errorf("the revoked device is %d, known %v, revoked %v", id, known, revoked)
	}
	again := Request{Key: key(0), Token: "no token is needed", Limit: 100, Now: now}
	if id, again, err := r.Enrol(again); id != 0 || !again || err != nil {
		t.Errorf("a known key enrols as %d, again %v, %v", id, again, err)
	}
	if id, _, err := r.Enrol(Request{Key: key(2), Token: token, Limit: 100, Now: now}); id != 2 || err != nil {
		t.Errorf("the third device gets %d, %v", id, err)
	}
	if _, _, err := r.Enrol(Request{Key: key(3), Token: token, Limit: 100, Now: now}); !errors.Is(err, ErrQuota) {
		t.Errorf("a used token is accepted after a restart: %v", err)
	}
	if n, _ := r.Count(); n != 2 {
		t.Errorf("%d devices are enrolled, expected 2: one was revoked", n)
	}
}

func TestDevicesSeenRecently(t *testing.T) {
	r := newRegistry()
	start := time.Now()
	for id, at := range map[uint32]time.Duration{5: 0, 2: time.Second, 9: 2 * time.Second} {
		r.apply(change{Op: opEnrol, ID: id, Key: key(id)})
		r.Seen(id, start.Add(at), 0)
	}
	if got := r.SeenSince(start.Add(time.Second)); !slices.Equal(got, []uint32{2, 9}) {
		t.Errorf("devices %v, expected 2 and 9", got)
	}
}
