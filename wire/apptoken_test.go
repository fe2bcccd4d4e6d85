package wire

import (
	"crypto/ed25519"
	"encoding/hex"
	"testing"
)

// The vector of docs/protocol.md, for app servers in other languages.
func TestAppTokenVector(t *testing.T) {
	seed := make([]byte, 32)
	federation := make([]byte, 16)
	var id [16]byte
	for i := range seed {
		seed[i] = byte(i)
	}
	for i := range id {
		federation[i], id[i] = byte(0x10+i), byte(0xa0+i)
	}
	key := ed25519.NewKeyFromSeed(seed)
	text := NewAppToken(key, federation, 1_800_000_000, id)
	const want = "app.AQAAAABrSdIAoKGio6SlpqeoqaqrrK2ur9mIyWJKgwv9HFood9BgEp_a" +
		"0BaOq6E5aQzVDHQ5D2VATW6CI25WW4VUQPN8mjtvCr_kPlyFlRa-lMFFoMvmcwE"
	if text != want {
		t.Errorf("the token is %q, expected %q", text, want)
	}
	if got := hex.EncodeToString(key.Public().(ed25519.PublicKey)); got !=
		"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8" {
		t.Errorf("the public key is %s", got)
	}
	token, err := ReadAppToken(text)
	if err != nil || token.ID != id || token.Expires != 1_800_000_000 ||
		!token.Verify(key.Public().(ed25519.PublicKey), federation) {
		t.Errorf("%+v, %v", token, err)
	}
	if token.Verify(key.Public().(ed25519.PublicKey), id[:]) {
		t.Error("a token for another federation is accepted")
	}
}

func TestMalformedAppTokensAreRefused(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	good := NewAppToken(key, make([]byte, 16), 1_800_000_000, [16]byte{1})
	for _, text := range []string{"", "app.", good[4:], good[:len(good)-1], good + "A", "app.Ag" + good[6:]} {
		if _, err := ReadAppToken(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	for i := 4; i < len(good); i++ { // no bit of it can be changed
		b := []byte(good)
		b[i] = "AB"[map[bool]int{true: 1, false: 0}[b[i] == 'A']]
		if token, err := ReadAppToken(string(b)); err == nil && token.Verify(key.Public().(ed25519.PublicKey),
			make([]byte, 16)) {
			t.Errorf("a changed letter %d is accepted", i)
		}
	}
}
