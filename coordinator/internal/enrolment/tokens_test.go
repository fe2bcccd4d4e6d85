package enrolment

import (
	"crypto/ed25519"
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/wire"
)

var federation = []byte("sixteen bytes, 1")

// try enrols a new key and checks why it is refused; nil for not at all.
func (r *Registry) try(t *testing.T, name any, token string, now time.Time, want error) {
	t.Helper()
	if _, _, err := r.Enrol(Request{Key: key(name), Token: token, Limit: 1 << 20, Now: now}); !errors.Is(err, want) {
		t.Errorf("%v: %v, expected %v", name, err, want)
	}
}

func TestTokensAreListedAndRevoked(t *testing.T) {
	dir := t.TempDir()
	r, stop := open(t, dir)
	now := time.Now()
	text, err := r.NewToken(5, now.Add(time.Hour), "for the shop\x1b")
	if err != nil {
		t.Fatal(err)
	}
	r.try(t, "before", text, now, nil)
	id := r.Tokens()[0].ID
	if err := r.RevokeToken(id); err != nil {
		t.Fatal(err)
	}
	if err := r.RevokeToken("unknown"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown token is revoked: %v", err)
	}
	r.try(t, "after", text, now, ErrTokenRevoked)
	stop()
	r, stop = open(t, dir)
	defer stop()
	r.try(t, "after a restart", text, now, ErrTokenRevoked)
	all := r.Tokens()
	if len(all) != 1 || all[0].ID != id || all[0].Note != "for the shop" || all[0].Uses != 5 || all[0].Used != 1 ||
		!all[0].Revoked {
		t.Errorf("tokens: %+v", all)
	}
	if r.Barred(0) != "" {
		t.Error("the device that enrolled before is barred")
	}
}

// A command line names a token by the first letters of its hash: one that began with a dash would be read as a flag.
func TestNoTokenIDBeginsWithADash(t *testing.T) {
	for i := range 1000 {
		if hash := hashToken(strconv.Itoa(i)); hash[0] == '-' {
			t.Fatalf("token %d has the hash %q", i, hash)
		}
	}
}

// An app token lets one device enrol, once, before it expires, and only in its federation.
func TestAppTokens(t *testing.T) {
	dir := t.TempDir()
	r, stop := open(t, dir)
	now := time.Now()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	made := byte(0)
	token := func(key ed25519.PrivateKey, of []byte, life time.Duration) string {
		made++
		return wire.NewAppToken(key, of, now.Add(life).Unix(), [16]byte{made})
	}
	r.try(t, "no key is known", token(private, federation, time.Hour), now, ErrAppToken)
	id, err := r.AddAppKey(public, "the app", now)
	if err != nil {
		t.Fatal(err)
	}
	used := token(private, federation, time.Hour)
	r.try(t, "valid", used, now, nil)
	r.try(t, "used", used, now, ErrAppUsed)
	r.try(t, "of a stranger", token(stranger, federation, time.Hour), now, ErrAppToken)
	r.try(t, "of another federation", token(private, []byte("sixteen bytes, 2"), time.Hour), now, ErrAppToken)
	r.try(t, "expired", token(private, federation, -time.Minute), now, ErrAppToken)
	r.try(t, "valid for too long", token(private, federation, 25*time.Hour), now, ErrAppToken)
	r.try(t, "malformed", "app.AAAA", now, ErrAppToken)
	stop()
	r, stop = open(t, dir)
	defer stop()
	r.try(t, "used before a restart", used, now, ErrAppUsed)
	r.try(t, "another", token(private, federation, time.Hour), now, nil)
	if all := r.AppKeys(); len(all) != 1 || all[0].ID != id || all[0].Signed != 2 || all[0].Note != "the app" {
		t.Errorf("app keys: %+v", all)
	}
	r.limits.AppPerMinute = 1
	r.try(t, "the first in a minute", token(private, federation, time.Hour), now.Add(2*time.Minute), nil)
	r.try(t, "the second", token(private, federation, time.Hour), now.Add(2*time.Minute), ErrRate)
	if err := r.RemoveAppKey(id); err != nil {
		t.Fatal(err)
	}
	r.try(t, "of a removed key", token(private, federation, time.Hour), now, ErrAppToken)
}

// Open enrolment is off unless the operator allows it, and has a rate for all and for each address.
func TestOpenEnrolment(t *testing.T) {
	r, stop := open(t, t.TempDir())
	defer stop()
	now := time.Unix(1_700_000_000, 0)
	r.try(t, "without a token", "", now, ErrNoToken)
	r.limits = Limits{OpenPerMinute: 5, OpenPerAddress: 2}
	n := 0
	from := func(address string, at time.Time, want error) {
		t.Helper()
		n++
		_, _, err := r.Enrol(Request{Key: key(n), Limit: 100, Address: netip.MustParsePrefix(address), Now: at})
		if !errors.Is(err, want) {
			t.Errorf("from %s: %v, expected %v", address, err, want)
		}
	}
	for _, want := range []error{nil, nil, ErrRate} {
		from("10.0.0.1/32", now, want)
	}
	for _, want := range []error{nil, nil, ErrRate} {
		from("10.0.0.2/32", now, want)
	}
	from("10.0.0.3/32", now, nil)
	from("10.0.0.4/32", now, ErrRate)
	from("10.0.0.1/32", now.Add(time.Minute), nil)
	if all := r.Devices(now, 0, 1); all[0].Note != "open enrolment" {
		t.Errorf("device 0: %+v", all[0])
	}
}
