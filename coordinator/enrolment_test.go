package coordinator

import (
	"context"
	"crypto/ed25519"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

func TestATokenHasAQuotaAndExpires(t *testing.T) {
	now := time.Now()
	s := small(4)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) { o.Now = func() time.Time { return now } })
	two, err := r.c.Token(2, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := r.newDevice(i).enrol(two); err != nil {
			t.Fatal(err)
		}
	}
	_, err = r.newDevice(2).enrol(two)
	r.refused(err, rpc.Quota)
	if a, err := r.newDevice(1).enrol(two); err != nil || !a.AlreadyEnrolled || a.DeviceId != 1 {
		t.Errorf("an enrolled key enrols again: %v, %v", a, err)
	}
	_, err = r.newDevice(2).enrol("not a token")
	r.refused(err, rpc.BadToken)
	now = now.Add(2 * time.Hour)
	_, err = r.newDevice(2).enrol(r.token)
	r.refused(err, rpc.BadToken)
	for _, bad := range []struct {
		uses int
		last time.Duration
	}{{0, time.Hour}, {1, 0}, {-1, time.Hour}} {
		if _, err := r.c.Token(bad.uses, bad.last, ""); err == nil {
			t.Errorf("a token for %d devices and %v is made", bad.uses, bad.last)
		}
	}
	if st := r.c.Status(); st.Enrolled != 2 {
		t.Errorf("%d are enrolled, want 2", st.Enrolled)
	}
}

// Seats are unique, however many enrol at once, and the same after a start.
func TestDeviceIDsAreUniqueAndStay(t *testing.T) {
	s := small(4)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	const n = 60
	owner := map[uint32]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		for range 2 { // each key twice at once
			wg.Go(func() {
				h := r.newDevice(i)
				var a *pb.EnrolResponse
				var err error
				// half of them request the same device ID
				for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					if i%2 == 0 {
						a, err = h.enrol(r.token, 3)
					} else {
						a, err = h.enrol(r.token)
					}
					if rpc.Code(err) != rpc.SlowDown {
						break
					}
				}
				if err != nil {
					t.Errorf("key %d: %v", i, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if who, taken := owner[a.DeviceId]; taken && who != i {
					t.Errorf("keys %d and %d both have device ID %d", i, who, a.DeviceId)
				}
				owner[a.DeviceId] = i
			})
		}
	}
	wg.Wait()
	if len(owner) != n {
		t.Errorf("%d keys have %d device IDs", n, len(owner))
	}
	for k := range uint32(n) {
		if _, ok := owner[k]; !ok {
			t.Errorf("no key has device ID %d", k)
		}
	}
	r.stop()
	r = open(t, dir, nil, nil)
	for k, i := range owner {
		if a, err := r.newDevice(i).enrol("no token is needed"); err != nil || a.DeviceId != k || !a.AlreadyEnrolled {
			t.Fatalf("after a start key %d has device ID %v, want %d (%v)", i, a, k, err)
		}
	}
	if a, err := r.newDevice("new").enrol(r.token); err != nil || a.DeviceId != n {
		t.Errorf("the next device gets ID %v, %v", a, err)
	}
}

// A high device ID costs nothing and delays no other device.
func TestAHighDeviceIDIsOrdinary(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	if a, err := r.newDevice(0).enrol(r.token, 1<<24-1); err != nil || a.DeviceId != 1<<24-1 {
		t.Errorf("device ID %v, %v", a, err)
	}
	if a, err := r.newDevice(1).enrol(r.token, 1<<31); err != nil || a.DeviceId != 0 {
		t.Errorf("a device ID that is too high: %v, %v", a, err)
	}
	if _, err := r.admin.Revoke(context.Background(), 1<<24-1); err != nil {
		t.Errorf("its key cannot be revoked: %v", err)
	}
}

// Devices that left, were revoked or are excluded are refused, also after a restart; others are not.
func TestLeavingAndRevoking(t *testing.T) {
	ctx := context.Background()
	s := small(4)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	d := r.enrolled(4)
	if _, err := d[0].Leave(ctx, &pb.LeaveRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.admin.Revoke(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.admin.Revoke(ctx, 4); err == nil {
		t.Error("an unknown device ID is revoked")
	}
	if err := r.c.devices.Exclude(2, "round 1: a share is wrong"); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		for i, code := range []string{rpc.UnknownKey, rpc.Revoked, rpc.Excluded} {
			_, err := r.newDevice(i).CheckIn(ctx, &pb.CheckInRequest{})
			r.refused(err, code)
			if code != rpc.UnknownKey { // a device that left may enrol again
				_, err = r.newDevice(i).enrol(r.token)
				r.refused(err, code)
			}
		}
		if _, err := r.newDevice(3).CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
			t.Error(err)
		}
		_, err := r.newDevice("nobody").CheckIn(ctx, &pb.CheckInRequest{})
		r.refused(err, rpc.UnknownKey)
	}
	check()
	r.stop()
	r = open(t, dir, nil, nil)
	check()
	if a, err := r.newDevice(0).enrol(r.token); err != nil || a.DeviceId != 0 || !a.AlreadyEnrolled {
		t.Errorf("a device that left enrols again: %v, %v", a, err)
	}
	if err := r.c.devices.Readmit(2); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} {
		if _, err := r.newDevice(i).CheckIn(ctx, &pb.CheckInRequest{}); err != nil {
			t.Errorf("device %d: %v", i, err)
		}
	}
}

// The key that signs is the key that is enrolled.
func TestADeviceCannotEnrolAnothersKey(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	h := r.newDevice("thief")
	_, err := h.Enrol(context.Background(), &pb.EnrolRequest{
		Token: r.token,
		Key:   keyOf("victim").Public().(ed25519.PublicKey),
	})
	r.refused(err, rpc.BadSignature)
	if st := r.c.Status(); st.Enrolled != 0 {
		t.Errorf("%d are enrolled", st.Enrolled)
	}
}
