package enrolment

import (
	"slices"
	"testing"
	"time"
)

// enrolled is a registry of n devices that enrolled at a time.
func enrolled(n uint32, at time.Time) *Registry {
	r := newRegistry()
	for id := range n {
		r.apply(change{Op: opEnrol, ID: id, Key: key(id), At: at.Unix()})
	}
	return r
}

func (r *Registry) isActive(t *testing.T, now time.Time, want ...uint32) {
	t.Helper()
	if got := r.Active(now); !slices.Equal(got, want) {
		t.Errorf("active devices: %v, expected %v", got, want)
	}
}

// A device is active until it left, was revoked or excluded, or is overdue, and again when it returns.
func TestActiveDevices(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	r := enrolled(6, start)
	r.isActive(t, start, 0, 1, 2, 3, 4, 5)
	for id, op := range map[uint32]string{0: opLeave, 1: opRevoke, 2: opExclude} {
		r.apply(change{Op: op, ID: id, Reason: "test"})
	}
	r.isActive(t, start, 3, 4, 5)
	r.Seen(4, start, time.Hour)
	r.isActive(t, start.Add(Grace(0)), 3, 4, 5)
	r.isActive(t, start.Add(Grace(0)+1), 4)
	r.isActive(t, start.Add(time.Hour+Grace(time.Hour)), 4)
	r.isActive(t, start.Add(time.Hour+Grace(time.Hour)+1))

	later := start.Add(24 * time.Hour)
	_, changed := r.Count()
	r.Seen(5, later, time.Minute)
	select {
	case <-changed:
	default:
		t.Error("nobody is told that an overdue device returned")
	}
	r.isActive(t, later, 5)
	if got := r.Members(later); !slices.Equal(got, []uint32{3, 4, 5}) {
		t.Errorf("enrolled devices: %v, expected 3, 4 and 5", got)
	}
	r.Missed([]uint32{4, 5}, later.Add(time.Second), later.Add(time.Second)) // 5 was told to come later
	r.isActive(t, later, 5)
	r.Missed([]uint32{4, 5}, later.Add(time.Second), later.Add(time.Hour)) // neither was heard of since
	r.isActive(t, later)
	r.Seen(5, later.Add(2*time.Second), time.Minute)
	r.isActive(t, later.Add(2*time.Second), 5)
	r.Missed([]uint32{5}, later.Add(time.Second), later.Add(time.Hour))
	r.isActive(t, later.Add(2*time.Second), 5)
}

// After a start nobody knows what devices were told before: they have a bounded time to check in.
func TestDevicesCountAsActiveForAWhileAfterAStart(t *testing.T) {
	dir := t.TempDir()
	r, stop := open(t, dir)
	now := time.Now()
	token, err := r.NewToken(2, now.Add(time.Hour), "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, _, err := r.Enrol(Request{Key: key(i), Token: token, Limit: 100, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	r, stop = open(t, dir)
	defer stop()
	opened := time.Now()
	r.Seen(1, opened, 4*time.Hour)
	r.isActive(t, opened, 0, 1)
	r.isActive(t, opened.Add(RestartGrace+time.Minute), 1)
}

// Exclusion is kept across restarts, ends with Readmit only, and is not lifted by leaving and returning.
func TestExclusion(t *testing.T) {
	dir := t.TempDir()
	r, stop := open(t, dir)
	now := time.Now()
	token, err := r.NewToken(9, now.Add(time.Hour), "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, _, err := r.Enrol(Request{Key: key(i), Token: token, Limit: 100, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		r.Exclude(1, "round 3: a share is wrong\x1b[2J"), r.Leave(1), r.Exclude(2, "x"), r.Revoke(2),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stop()
	r, stop = open(t, dir)
	defer stop()
	if got := r.Excluded(); !slices.Equal(got, []ExcludedDevice{{1, "round 3: a share is wrong[2J"}}) {
		t.Errorf("excluded: %v", got)
	}
	q := Request{Key: key(1), Token: token, Limit: 100, Now: now}
	if id, again, err := r.Enrol(q); id != 1 || !again || err != nil ||
		r.Barred(1) != Excluded {
		t.Errorf("device %d, %v, %v, %q: an excluded device enrols again", id, again, err, r.Barred(1))
	}
	for _, id := range []uint32{1, 2} {
		if err := r.Readmit(id); err != nil {
			t.Fatal(err)
		}
	}
	if r.Barred(1) != "" || r.Barred(2) != Revoked {
		t.Errorf("after Readmit: %q and %q, expected nothing and revoked", r.Barred(1), r.Barred(2))
	}
	r.isActive(t, time.Now(), 0, 1)
}

// A device that left enrols again with a token, and keeps its ID: what it has contributed stays known.
func TestADeviceThatLeftReturnsWithItsID(t *testing.T) {
	r, stop := open(t, t.TempDir())
	defer stop()
	now := time.Now()
	token, err := r.NewToken(2, now.Add(time.Hour), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Enrol(Request{Key: key(0), Token: token, Limit: 100, Now: now}); err != nil {
		t.Fatal(err)
	}
	if err := r.Leave(0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Enrol(Request{Key: key(0), Token: "wrong", Limit: 100, Now: now}); err == nil {
		t.Error("a device that left returns without a token")
	}
	q := Request{Key: key(0), Token: token, Limit: 100, Now: now}
	if id, again, err := r.Enrol(q); id != 0 || !again || err != nil {
		t.Errorf("device %d, enrolled before: %v, %v", id, again, err)
	}
	if n, _ := r.Count(); n != 1 || r.Barred(0) != "" {
		t.Errorf("%d devices are enrolled; the one that returned is %q", n, r.Barred(0))
	}
}

// A device that is revoked while its return is being written stays revoked.
func TestAReturnDoesNotEndARevocation(t *testing.T) {
	r := enrolled(2, time.Now())
	r.apply(change{Op: opLeave, ID: 0})
	r.apply(change{Op: opRevoke, ID: 0})
	r.apply(change{Op: opEnrol, ID: 0, Key: key(0), At: time.Now().Unix()})
	if n, _ := r.Count(); n != 1 || r.Barred(0) != Revoked {
		t.Errorf("%d devices are enrolled; the revoked one is %q", n, r.Barred(0))
	}
}

// A check-in allocates nothing, however many devices are enrolled.
func TestACheckInAllocatesNothing(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	r := enrolled(20_000, start)
	r.Active(start)
	if n := testing.AllocsPerRun(100, func() {
		r.Seen(77, start, time.Minute)
		r.Active(start)
	}); n > 0 {
		t.Errorf("%g allocations for each check-in, expected none", n)
	}
}
