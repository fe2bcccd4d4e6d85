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

// A state file is its head, then what is sealed. The head is
//
//	TACITDEV, a byte of version, a byte that says how it is sealed, and
//	  by passphrase: passes, KiB (4 bytes each) and lanes (1) of Argon2id, salt (16), check (16)
//	  by keyring:    name of the key (16)
//
// A sealed body is a nonce (12) and AES-256-GCM's output, bound to the head. One that is
// not sealed is the record and a SHA-256 of head and record.
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

// The cost of a new passphrase seal is RFC 9106's second recommended option.
const (
	passes = 3
	kib    = 64 << 10
	lanes  = 4
)

type encryption struct {
	kind   byte
	header []byte
	key    []byte // of AES-256; nil where it is not known, or not sealed
}

// parse reads the head of a file, and checks that its cost can be paid.
func parse(b []byte) (*encryption, []byte, error) {
	n := len(magic) + 2
	if len(b) < n || string(b[:len(magic)]) != magic {
		return nil, nil, fmt.Errorf("%w: it is no state file of a device", ErrCorrupt)
	}
	if v := b[len(magic)]; v != fileVersion {
		return nil, nil, fmt.Errorf("local: the state file is of version %d, and this program knows %d: update tacit",
			v, fileVersion)
	}
	s := &encryption{kind: b[len(magic)+1]}
	switch s.kind {
	case plain:
	case byPassphrase:
		n += 9 + 2*saltSize
	case byKeyring:
		n += saltSize
	default:
		return nil, nil, fmt.Errorf("%w: it is sealed in a way that nobody knows", ErrCorrupt)
	}
	if len(b) < n {
		return nil, nil, fmt.Errorf("%w: it is cut off", ErrCorrupt)
	}
	s.header = b[:n:n]
	if s.kind == byPassphrase {
		t, m, p := s.cost()
		if t < 1 || t > 64 || m < 8 || m > 1<<20 || p < 1 || p > 64 {
			return nil, nil, fmt.Errorf("%w: its passphrase would cost %d passes over %d KiB", ErrCorrupt, t, m)
		}
	}
	return s, b[n:], nil
}

func (s *encryption) cost() (t, m uint32, p uint8) {
	b := s.header[len(magic)+2:]
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
	s := &encryption{kind: byPassphrase, header: head}
	key, check := s.stretch(phrase, salt)
	s.header, s.key = append(head, check...), key
	return s, nil
}

// stretch makes a key of a passphrase, and a value that tells a wrong one.
func (s *encryption) stretch(phrase, salt []byte) (key, check []byte) {
	t, m, p := s.cost()
	out := argon2.IDKey(phrase, salt, t, m, p, 32+saltSize)
	return out[:32], out[32:]
}

func (s *encryption) derive(phrase []byte) error {
	tail := s.header[len(s.header)-2*saltSize:]
	key, check := s.stretch(phrase, tail[:saltSize])
	if !hmac.Equal(check, tail[saltSize:]) {
		return ErrPassphrase
	}
	s.key = key
	return nil
}

// service is the name of this program's keys in the keyring.
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
	s := &encryption{kind: byKeyring, header: append(append([]byte(magic), fileVersion, byKeyring), name...), key: key}
	if err := keyring.Set(service, s.name(), base64.StdEncoding.EncodeToString(key)); err != nil {
		return nil, fmt.Errorf("local: the system's keyring does not take a key: %w", err)
	}
	return s, nil
}

// name is what the key of a file is called in the keyring.
func (s *encryption) name() string { return hex.EncodeToString(s.header[len(s.header)-saltSize:]) }

func (s *encryption) fromKeyring() error {
	text, err := keyring.Get(service, s.name())
	if err != nil {
		return fmt.Errorf("local: the system's keyring does not give the key of the state file: %w", err)
	}
	if s.key, err = base64.StdEncoding.DecodeString(text); err != nil || len(s.key) != 32 {
		return errors.New("local: the key in the system's keyring is none of ours")
	}
	return nil
}

// deleteKey removes the key: without it nobody reads the file again, nor copies of it.
func (s *encryption) deleteKey() error {
	if err := keyring.Delete(service, s.name()); err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return fmt.Errorf("local: the key stays in the system's keyring: %w", err)
	}
	return nil
}

func (s *encryption) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(s.key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// encrypt is the file of a record.
func (s *encryption) encrypt(b []byte) ([]byte, error) {
	out := append(make([]byte, 0, len(s.header)+len(b)+64), s.header...)
	if s.kind == plain {
		out = append(out, b...)
		return append(out, digest(out)...), nil
	}
	aead, err := s.aead()
	if err != nil {
		return nil, err
	}
	nonce, err := random(nonceSize)
	if err != nil {
		return nil, err
	}
	return aead.Seal(append(out, nonce...), nonce, b, s.header), nil
}

// decrypt is the record of a body.
func (s *encryption) decrypt(body []byte) ([]byte, error) {
	if s.kind == plain {
		n := len(body) - 32
		if n < 0 || !hmac.Equal(digest(s.header, body[:n]), body[n:]) {
			return nil, fmt.Errorf("%w: its checksum does not match", ErrCorrupt)
		}
		return body[:n], nil
	}
	aead, err := s.aead()
	if err != nil {
		return nil, err
	}
	if len(body) < nonceSize {
		return nil, fmt.Errorf("%w: it is cut off", ErrCorrupt)
	}
	out, err := aead.Open(nil, body[:nonceSize], body[nonceSize:], s.header)
	if err != nil {
		return nil, fmt.Errorf("%w: it was changed since it was saved", ErrCorrupt)
	}
	return out, nil
}
