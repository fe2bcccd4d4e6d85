package statefile

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
	"golang.org/x/crypto/argon2"
)

// A state file is a header and a body. The header is
//
//	TACITDEV, a version byte, a byte for the kind of encryption, and
//	  by passphrase: passes, KiB (4 bytes each) and lanes (1) of Argon2id, salt (16), check (16)
//	  by keyring:    name of the key (16)
//
// An encrypted body is a nonce (12) and the output of AES-256-GCM with the header as additional
// data. An unencrypted body is the record and a SHA-256 of header and record.
const (
	magic       = "TACITDEV"
	fileVersion = 1
)

const (
	plain = iota
	byPassphrase
	byKeyring
)

const (
	saltSize  = 16
	nonceSize = 12
)

// The cost of a new passphrase is the second recommended option of RFC 9106.
const (
	passes = 3
	kib    = 64 << 10
	lanes  = 4
)

// encryption is the header of a state file and its key.
type encryption struct {
	kind   byte
	header []byte
	key    []byte // AES-256 key; nil if it is unknown or the file is not encrypted
}

// parse reads the header of a file, limits the cost of its passphrase, and returns the body.
func parse(b []byte) (*encryption, []byte, error) {
	n := len(magic) + 2
	if len(b) < n || string(b[:len(magic)]) != magic {
		return nil, nil, fmt.Errorf("%w: it does not start like a state file", ErrCorrupt)
	}
	if v := b[len(magic)]; v != fileVersion {
		return nil, nil, fmt.Errorf("the state file has version %d, this program supports version %d: update tacit",
			v, fileVersion)
	}
	e := &encryption{kind: b[len(magic)+1]}
	switch e.kind {
	case plain:
	case byPassphrase:
		n += 9 + 2*saltSize
	case byKeyring:
		n += saltSize
	default:
		return nil, nil, fmt.Errorf("%w: unknown kind of encryption", ErrCorrupt)
	}
	if len(b) < n {
		return nil, nil, fmt.Errorf("%w: it is truncated", ErrCorrupt)
	}
	e.header = b[:n:n]
	if e.kind == byPassphrase {
		t, m, p := e.cost()
		if t < 1 || t > 64 || m < 8 || m > 1<<20 || p < 1 || p > 64 {
			return nil, nil, fmt.Errorf("%w: its passphrase requires %d passes over %d KiB", ErrCorrupt, t, m)
		}
	}
	return e, b[n:], nil
}

func (e *encryption) cost() (t, m uint32, p uint8) {
	b := e.header[len(magic)+2:]
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), b[8]
}

func newPassphraseEncryption(phrase []byte, memory uint32) (*encryption, error) {
	salt, err := random(saltSize)
	if err != nil {
		return nil, err
	}
	head := append([]byte(magic), fileVersion, byPassphrase)
	head = binary.LittleEndian.AppendUint32(head, passes)
	head = binary.LittleEndian.AppendUint32(head, memory)
	head = append(append(head, lanes), salt...)
	e := &encryption{kind: byPassphrase, header: head}
	key, check := e.stretch(phrase, salt)
	e.header, e.key = append(head, check...), key
	return e, nil
}

// stretch derives a key from a passphrase, and a value that detects a wrong passphrase.
func (e *encryption) stretch(phrase, salt []byte) (key, check []byte) {
	t, m, p := e.cost()
	out := argon2.IDKey(phrase, salt, t, m, p, 32+saltSize)
	return out[:32], out[32:]
}

func (e *encryption) derive(phrase []byte) error {
	tail := e.header[len(e.header)-2*saltSize:]
	key, check := e.stretch(phrase, tail[:saltSize])
	if !hmac.Equal(check, tail[saltSize:]) {
		return ErrPassphrase
	}
	e.key = key
	return nil
}

// service is the name of Tacit's keys in the keyring.
const service = "tacit device"

func newKeyringEncryption() (*encryption, error) {
	name, err := random(saltSize)
	if err != nil {
		return nil, err
	}
	key, err := random(32)
	if err != nil {
		return nil, err
	}
	e := &encryption{kind: byKeyring, header: append(append([]byte(magic), fileVersion, byKeyring), name...), key: key}
	if err := keyring.Set(service, e.name(), base64.StdEncoding.EncodeToString(key)); err != nil {
		return nil, fmt.Errorf("cannot save a key in the system's keyring: %w", err)
	}
	return e, nil
}

// name returns the name of the key in the keyring.
func (e *encryption) name() string { return hex.EncodeToString(e.header[len(e.header)-saltSize:]) }

func (e *encryption) fromKeyring() error {
	text, err := keyring.Get(service, e.name())
	if err != nil {
		return fmt.Errorf("cannot read the key of the state file from the system's keyring: %w", err)
	}
	if e.key, err = base64.StdEncoding.DecodeString(text); err != nil || len(e.key) != 32 {
		return errors.New("the key in the system's keyring is invalid")
	}
	return nil
}

// deleteKey removes the key from the keyring, which makes the file and its copies unreadable.
func (e *encryption) deleteKey() error {
	if err := keyring.Delete(service, e.name()); err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return fmt.Errorf("cannot remove the key from the system's keyring: %w", err)
	}
	return nil
}

func (e *encryption) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(e.key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// encrypt returns the file of a record.
func (e *encryption) encrypt(b []byte) ([]byte, error) {
	out := append(make([]byte, 0, len(e.header)+len(b)+64), e.header...)
	if e.kind == plain {
		out = append(out, b...)
		return append(out, digest(out)...), nil
	}
	aead, err := e.aead()
	if err != nil {
		return nil, err
	}
	nonce, err := random(nonceSize)
	if err != nil {
		return nil, err
	}
	return aead.Seal(append(out, nonce...), nonce, b, e.header), nil
}

// decrypt returns the record of a body.
func (e *encryption) decrypt(body []byte) ([]byte, error) {
	if e.kind == plain {
		n := len(body) - 32
		if n < 0 || !hmac.Equal(digest(e.header, body[:n]), body[n:]) {
			return nil, fmt.Errorf("%w: its checksum does not match", ErrCorrupt)
		}
		return body[:n], nil
	}
	aead, err := e.aead()
	if err != nil {
		return nil, err
	}
	if len(body) < nonceSize {
		return nil, fmt.Errorf("%w: it is truncated", ErrCorrupt)
	}
	out, err := aead.Open(nil, body[:nonceSize], body[nonceSize:], e.header)
	if err != nil {
		return nil, fmt.Errorf("%w: it was changed after it was saved", ErrCorrupt)
	}
	return out, nil
}
