package wire

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
)

const manifestHead = "tacit manifest 1\n"

// SignManifest checks a manifest and signs it.
func SignManifest(key ed25519.PrivateKey, m *pb.Manifest) (*pb.SignedManifest, error) {
	body, err := Marshal(m)
	if err != nil {
		return nil, err
	}
	return &pb.SignedManifest{Body: body, Signature: ed25519.Sign(key, append([]byte(manifestHead), body...))}, nil
}

// VerifyManifest is the manifest that the key of a federation has signed. It holds to the
// limits, and is of that federation.
func VerifyManifest(key ed25519.PublicKey, federation []byte, s *pb.SignedManifest) (*pb.Manifest, error) {
	body := s.GetBody()
	switch {
	case len(key) != ed25519.PublicKeySize:
		return nil, fmt.Errorf("wire: a key of %d bytes: want %d", len(key), ed25519.PublicKeySize)
	case len(body) > maxSmallBytes:
		return nil, fmt.Errorf("wire: a manifest of %d bytes: want at most %d", len(body), maxSmallBytes)
	case !ed25519.Verify(key, append([]byte(manifestHead), body...), s.GetSignature()):
		return nil, errors.New("wire: the signature of a manifest is not of the federation's key")
	}
	m := &pb.Manifest{}
	if err := unmarshal(body, maxSmallBytes, m); err != nil {
		return nil, err
	}
	if err := checkManifest(m); err != nil {
		return nil, err
	}
	if string(m.Federation) != string(federation) {
		return nil, fmt.Errorf("wire: a manifest of federation %x: want %x", m.Federation, federation)
	}
	return m, nil
}

func checkManifest(m *pb.Manifest) error {
	switch {
	case len(m.Federation) != IDBytes || len(m.Run) != IDBytes:
		return fmt.Errorf("wire: a manifest with ids of %d and %d bytes: want %d", len(m.Federation), len(m.Run),
			IDBytes)
	case m.Version < 1:
		return errors.New("wire: a manifest of version 0: want 1 or more")
	case m.Round > maxRounds:
		return fmt.Errorf("wire: a manifest of round %d: want at most %d", m.Round, maxRounds)
	case len(m.Slots) > maxSlots:
		return fmt.Errorf("wire: a manifest of %d slots: want at most %d", len(m.Slots), maxSlots)
	case m.CreatedMs < 0:
		return fmt.Errorf("wire: a manifest was made at %d: want milliseconds since 1970", m.CreatedMs)
	}
	if err := checkBlob(m.Plan, "the plan"); err != nil {
		return err
	}
	if m.Plan.Bytes > maxSmallBytes {
		return fmt.Errorf("wire: the plan has %d bytes: want at most %d", m.Plan.Bytes, maxSmallBytes)
	}
	if err := checkBlob(m.Catalogue, "the catalogue"); err != nil {
		return err
	}
	if m.Features != nil {
		if err := checkBlob(m.Features, "the features"); err != nil {
			return err
		}
	}
	total := uint64(0)
	for i, s := range m.Slots {
		if len(s.GetHash()) == 0 && s.GetBytes() == 0 {
			continue
		}
		if err := checkBlob(s, fmt.Sprintf("slot %d", i)); err != nil {
			return err
		}
		if total += s.Bytes; total > 4*maxLength {
			return fmt.Errorf("wire: the slots have over %d bytes", 4*maxLength)
		}
	}
	return checkPatches(m)
}

// checkPatches sees that each change leads to something that the manifest names.
func checkPatches(m *pb.Manifest) error {
	if len(m.Patches) > MaxPatches {
		return fmt.Errorf("wire: a manifest of %d changes: want at most %d", len(m.Patches), MaxPatches)
	}
	named := map[string]bool{string(m.Catalogue.Hash): true}
	for _, s := range m.Slots {
		named[string(s.GetHash())] = true
	}
	for i, c := range m.Patches {
		if err := checkBlob(c.GetBase(), fmt.Sprintf("the base of change %d", i)); err != nil {
			return err
		}
		if err := checkBlob(c.Patch, fmt.Sprintf("change %d", i)); err != nil {
			return err
		}
		if len(c.Target) != HashBytes || !named[string(c.Target)] {
			return fmt.Errorf("wire: change %d leads to %x, which the manifest does not name", i, c.Target)
		}
	}
	return nil
}

// CheckSlots sees that the slots of a manifest have the sizes of the plan that it names. What
// a device will need is known before it fetches.
func CheckSlots(m *pb.Manifest, p *pb.Plan) error {
	if len(p.Shape) != 2*len(m.Slots) {
		return fmt.Errorf("wire: a manifest of %d slots: the plan has %d", len(m.Slots), len(p.Shape)/2)
	}
	for i, s := range m.Slots {
		if want := 4 * p.Shape[2*i] * p.Shape[2*i+1]; len(s.GetHash()) != 0 && s.Bytes != want {
			return fmt.Errorf("wire: slot %d has %d bytes: want %d", i, s.Bytes, want)
		}
	}
	return nil
}
