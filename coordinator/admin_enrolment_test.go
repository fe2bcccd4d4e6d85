package coordinator

import (
	"context"
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// Operators see the state, program, last check-in and token of each device.
func TestOperatorsListDevices(t *testing.T) {
	ctx := context.Background()
	s := small(4)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	if _, err := d[0].CheckIn(ctx, &pb.CheckInRequest{Software: "shop 2.1\x1b[1m"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.admin.Revoke(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := r.c.devices.Exclude(2, "round 1: a share is wrong"); err != nil {
		t.Fatal(err)
	}
	list, err := r.admin.Devices(ctx, 0)
	if err != nil || len(list.Devices) != 4 || list.Next != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []enrolment.State{enrolment.Active, enrolment.Revoked, enrolment.Excluded, enrolment.Active} {
		if got := list.Devices[i]; got.State != want || got.Note != "test" {
			t.Errorf("device %d: %+v, expected state %s", i, got, want)
		}
	}
	first := list.Devices[0]
	if first.Software != "shop 2.1[1m" || first.LastSeen == nil || list.Devices[2].Reason == "" {
		t.Errorf("%+v", list.Devices)
	}
	if page := r.c.Devices(1, 2); len(page.Devices) != 2 || page.Next != 3 {
		t.Errorf("a page of 2 devices from 1 on: %+v", page)
	}
}

// A token that leaked is revoked by its ID, and an installation of an app enrols with a token of its server.
func TestTokensAndAppKeysOfOperators(t *testing.T) {
	ctx := context.Background()
	s := small(4)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	all, err := r.admin.Tokens(ctx)
	if err != nil || len(all) != 1 || all[0].Note != "test" || strings.Contains(r.token, all[0].ID) {
		t.Fatalf("tokens: %+v, %v", all, err)
	}
	if _, err := r.admin.RevokeToken(ctx, all[0].ID); err != nil {
		t.Fatal(err)
	}
	_, err = r.newDevice(0).enrol(r.token)
	r.refused(err, rpc.BadToken)
	_, err = r.newDevice(0).enrol("")
	r.refused(err, rpc.BadToken)
	if _, err := r.admin.RevokeToken(ctx, "unknown"); rpc.Code(err) == "" || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("an unknown token: %v", err)
	}

	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.admin.AddAppKey(ctx, public, "Android")
	if err != nil {
		t.Fatal(err)
	}
	federation, _, err := r.admin.AppKeys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	token := wire.NewAppToken(private, federation, time.Now().Add(time.Hour).Unix(), [16]byte{1})
	if _, err := r.newDevice(0).enrol(token); err != nil {
		t.Fatal(err)
	}
	_, err = r.newDevice(1).enrol(token)
	r.refused(err, rpc.Quota)
	if list, err := r.admin.Devices(ctx, 0); err != nil || list.Devices[0].Note != "Android" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := r.admin.RemoveAppKey(ctx, id); err != nil {
		t.Error(err)
	}
}

// A token is not valid for longer than 10 years, and hours that overflow a time make no token.
func TestTheHoursOfATokenAreBounded(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	for hours, ok := range map[int]bool{
		-1: false, 0: false, 1: true, maxTokenHours: true, maxTokenHours + 1: false, 1 << 53: false, 5_124_096: false,
	} {
		if _, err := r.admin.MakeToken(context.Background(), 1, hours, "test"); (err == nil) != ok {
			t.Errorf("%d hours: %v", hours, err)
		}
	}
}
