package wire

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
)

const manifestHead = "tacit manifest 1\n"

// SignManifest checks and signs a manifest.
func SignManifest(key ed25519.PrivateKey, m *pb.Manifest) (*pb.SignedManifest, error) {
	body, err := Marshal(m)
	if err != nil {
		return nil, err
	}
	return &pb.SignedManifest{Body: body, Signature: ed25519.Sign(key, append([]byte(manifestHead), body...))}, nil
}

// VerifyManifest verifies the signature of a manifest and returns it if it is valid and belongs to the
// federation.
func VerifyManifest(key ed25519.PublicKey, federation []byte, s *pb.SignedManifest) (*pb.Manifest, error) {
	body := s.GetBody()
	switch {
	case len(key) != ed25519.PublicKeySize:
		return nil, fmt.Errorf("key of %d bytes: must be %d", len(key), ed25519.PublicKeySize)
	case len(body) > maxSmallBytes:
		return nil, fmt.Errorf("manifest of %d bytes: must be at most %d", len(body), maxSmallBytes)
	case !ed25519.Verify(key, append([]byte(manifestHead), body...), s.GetSignature()):
		return nil, errors.New("the signature of the manifest does not match the federation's key")
	}
	m := &pb.Manifest{}
	if err := unmarshal(body, maxSmallBytes, m); err != nil {
		return nil, err
	}
	if err := checkManifest(m); err != nil {
		return nil, err
	}
	if string(m.Federation) != string(federation) {
		return nil, fmt.Errorf("manifest of federation %x: must be %x", m.Federation, federation)
	}
	return m, nil
}

func checkManifest(m *pb.Manifest) error {
	switch {
	case len(m.Federation) != IDBytes || len(m.Run) != IDBytes:
		return fmt.Errorf("manifest with IDs of %d and %d bytes: must be %d", len(m.Federation), len(m.Run),
			IDBytes)
	case m.Version < 1:
		return errors.New("manifest of version 0: must be 1 or more")
	case m.Round > maxRounds:
		return fmt.Errorf("manifest of round %d: must be at most %d", m.Round, maxRounds)
	case len(m.Slots) > maxSlots:
		return fmt.Errorf("manifest of %d slots: must be at most %d", len(m.Slots), maxSlots)
	case m.CreatedMs < 0:
		return fmt.Errorf("manifest created at %d: must be milliseconds since 1970", m.CreatedMs)
	}
	if err := checkBlob(m.Plan, "the plan"); err != nil {
		return err
	}
	if m.Plan.Bytes > maxSmallBytes {
		return fmt.Errorf("the plan has %d bytes: must be at most %d", m.Plan.Bytes, maxSmallBytes)
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
			return fmt.Errorf("the slots exceed %d bytes", 4*maxLength)
		}
	}
	return checkPatches(m)
}

// checkPatches checks that the target of each patch is a blob of the manifest.
func checkPatches(m *pb.Manifest) error {
	if len(m.Patches) > MaxPatches {
		return fmt.Errorf("manifest of %d patches: must be at most %d", len(m.Patches), MaxPatches)
	}
	named := map[string]bool{string(m.Catalogue.Hash): true}
	for _, s := range m.Slots {
		named[string(s.GetHash())] = true
	}
	for i, c := range m.Patches {
		if err := checkBlob(c.GetBase(), fmt.Sprintf("the base of patch %d", i)); err != nil {
			return err
		}
		if err := checkBlob(c.Patch, fmt.Sprintf("patch %d", i)); err != nil {
			return err
		}
		if len(c.Target) != HashBytes || !named[string(c.Target)] {
			return fmt.Errorf("patch %d has the target %x, which the manifest does not name", i, c.Target)
		}
	}
	return nil
}

// CheckSlots checks that the slots of a manifest have the sizes of its plan, so that a device knows what
// it will need before it downloads.
func CheckSlots(m *pb.Manifest, p *pb.Plan) error {
	if len(p.Shape) != 2*len(m.Slots) {
		return fmt.Errorf("manifest of %d slots: must be %d as in the plan", len(m.Slots), len(p.Shape)/2)
	}
	for i, s := range m.Slots {
		if want := 4 * p.Shape[2*i] * p.Shape[2*i+1]; len(s.GetHash()) != 0 && s.Bytes != want {
			return fmt.Errorf("slot %d has %d bytes: must be %d", i, s.Bytes, want)
		}
	}
	return nil
}
