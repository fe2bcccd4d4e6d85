package wire

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
)

func TestPlansAndCataloguesRoundTrip(t *testing.T) {
	b := must2(t)(Marshal(aPlan()))
	if got, err := ReadPlan(b); err != nil || !proto.Equal(got, aPlan()) {
		t.Errorf("a plan comes back as %v, %v", got, err)
	}
	if again := must2(t)(Marshal(aPlan())); !bytes.Equal(again, b) {
		t.Error("a plan has two forms")
	}
	c := must2(t)(Marshal(aCatalogue()))
	if got, err := ReadCatalogue(c, 3); err != nil || !proto.Equal(got, aCatalogue()) {
		t.Errorf("a catalogue comes back as %v, %v", got, err)
	}
	if _, err := ReadCatalogue(c, 4); err == nil {
		t.Error("a catalogue of 3 items is one of 4")
	}
}

func TestRefusesPlansOverALimit(t *testing.T) {
	for what, change := range map[string]func(*pb.Plan){
		"items": func(p *pb.Plan) { p.Items = maxItems + 1 }, "no items": func(p *pb.Plan) { p.Items = 0 },
		"users":      func(p *pb.Plan) { p.Users = 0 },
		"many users": func(p *pb.Plan) { p.Users = MaxDevices + 1 }, "rounds": func(p *pb.Plan) {
			p.Rounds = maxRounds +
				1
		}, "batch": func(p *pb.Plan) { p.Batch = 1 << 30 },
		"negatives": func(p *pb.Plan) { p.Negatives = 1 << 20 }, "method": func(p *pb.Plan) { p.Method = "" },
		"escape": func(p *pb.Plan) { p.Method = "a\x1b[2J" },
		"bidi":   func(p *pb.Plan) { p.Keep = "a\u202eb" }, "utf8": func(p *pb.Plan) { p.Params[0].Value = "\xff" },
		"long":      func(p *pb.Plan) { p.Cover = strings.Repeat("x", maxTextBytes+1) },
		"odd shape": func(p *pb.Plan) { p.Shape = p.Shape[1:] }, "no shape": func(p *pb.Plan) { p.Shape = nil },
		"large shape":      func(p *pb.Plan) { p.Shape = []uint64{1 << 27, 3} },
		"shape that wraps": func(p *pb.Plan) { p.Shape = []uint64{1 << 63, 2} },
		"many slots":       func(p *pb.Plan) { p.Shape = make([]uint64, 2*maxSlots+2) },
		"features":         func(p *pb.Plan) { p.Features = make([]string, maxSlots+1) },
		"params":           func(p *pb.Plan) { p.Params = make([]*pb.Setting, maxSlots+1) },
		"policy":           func(p *pb.Plan) { p.Policy = "a\rb" },
	} {
		p := aPlan()
		if change(p); checkPlan(p) == nil {
			t.Errorf("%s: a plan is let through", what)
		}
		if _, err := Marshal(p); err == nil {
			t.Errorf("%s: a plan is written", what)
		}
		if b, err := proto.Marshal(p); err == nil {
			if _, err := ReadPlan(b); err == nil {
				t.Errorf("%s: a plan is read", what)
			}
		}
	}
	for what, change := range map[string]func(*pb.Catalogue){
		"none": func(c *pb.Catalogue) { c.Items = nil }, "no id": func(c *pb.Catalogue) { c.Items[1].Id = "" },
		"title":      func(c *pb.Catalogue) { c.Items[1].Title = "a\nb" },
		"long title": func(c *pb.Catalogue) { c.Items[1].Title = strings.Repeat("x", maxTextBytes+1) },
		"long id":    func(c *pb.Catalogue) { c.Items[1].Id = strings.Repeat("x", maxTextBytes) },
	} {
		c := aCatalogue()
		if change(c); checkCatalogue(c) == nil {
			t.Errorf("%s: a catalogue is let through", what)
		}
	}
}

// An item may take two bytes: the reader must not allocate for more items than the plan has.
func TestCountsItemsBeforeAllocating(t *testing.T) {
	b := bytes.Repeat([]byte{0x12, 0}, 1<<16)
	if n := testing.AllocsPerRun(5, func() { _, _ = ReadCatalogue(b, 3) }); n > 8 {
		t.Errorf("%.0f allocations for a catalogue of 65536 items where 3 are wanted", n)
	}
}

func TestVerifiesManifestSignatures(t *testing.T) {
	key := testKey()
	public := key.Public().(ed25519.PublicKey)
	s, err := SignManifest(key, aManifest())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := VerifyManifest(public, id(1), s); err != nil || !proto.Equal(got, aManifest()) {
		t.Errorf("a manifest comes back as %v, %v", got, err)
	}
	if _, err := VerifyManifest(public, id(9), s); err == nil {
		t.Error("a manifest of another federation is believed")
	}
	if _, err := VerifyManifest(public[1:], id(1), s); err == nil {
		t.Error("a short key is a key")
	}
	for i := range s.Body {
		bad := &pb.SignedManifest{Body: slices.Clone(s.Body), Signature: s.Signature}
		if bad.Body[i] ^= 1; believed(public, bad) {
			t.Fatalf("a manifest with byte %d changed is believed", i)
		}
	}
	for i := range s.Signature {
		bad := &pb.SignedManifest{Body: s.Body, Signature: slices.Clone(s.Signature)}
		if bad.Signature[i] ^= 1; believed(public, bad) {
			t.Fatalf("a signature with byte %d changed is believed", i)
		}
	}
	if believed(public, nil) || believed(public, &pb.SignedManifest{}) ||
		believed(public, &pb.SignedManifest{Body: s.Body, Signature: ed25519.Sign(key, s.Body)}) {
		t.Error("a manifest without its signature is believed")
	}
	for what, change := range map[string]func(*pb.Manifest){
		"federation": func(m *pb.Manifest) { m.Federation = nil }, "run": func(m *pb.Manifest) { m.Run = id(1)[1:] },
		"version": func(m *pb.Manifest) { m.Version = 0 },
		"round":   func(m *pb.Manifest) { m.Round = maxRounds + 1 }, "plan": func(m *pb.Manifest) { m.Plan = nil },
		"large plan":          func(m *pb.Manifest) { m.Plan.Bytes = maxSmallBytes + 1 },
		"catalogue":           func(m *pb.Manifest) { m.Catalogue.Hash = m.Catalogue.Hash[1:] },
		"slots":               func(m *pb.Manifest) { m.Slots = make([]*pb.Blob, maxSlots+1) },
		"large slot":          func(m *pb.Manifest) { m.Slots[0].Bytes = MaxBlobBytes + 1 },
		"slot without a hash": func(m *pb.Manifest) { m.Slots[1].Bytes = 1 },
		"all slots": func(m *pb.Manifest) {
			m.Slots = slices.Repeat([]*pb.Blob{{
				Hash:  make([]byte, 32),
				Bytes: MaxBlobBytes,
			}}, 2)
		}, "made": func(m *pb.Manifest) { m.CreatedMs = -1 },
	} {
		m := aManifest()
		if change(m); checkManifest(m) == nil {
			t.Errorf("%s: a manifest is let through", what)
		}
		if _, err := SignManifest(key, m); err == nil {
			t.Errorf("%s: a manifest is signed", what)
		}
	}
}

func believed(key ed25519.PublicKey, s *pb.SignedManifest) bool {
	_, err := VerifyManifest(key, id(1), s)
	return err == nil
}

func TestSlotsHaveTheSizesOfThePlan(t *testing.T) {
	if err := CheckSlots(aManifest(), aPlan()); err != nil {
		t.Error(err)
	}
	m := aManifest()
	if m.Slots[0].Bytes++; CheckSlots(m, aPlan()) == nil {
		t.Error("a slot of another size fits")
	}
	if m.Slots = m.Slots[:1]; CheckSlots(m, aPlan()) == nil {
		t.Error("a manifest with a slot less fits")
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(must2(f)(Marshal(aPlan())))
	f.Add([]byte{0x12, 0, 0x12, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ReadPlan(b)
		if err != nil {
			return
		}
		again := must2(t)(Marshal(p))
		if q, err := ReadPlan(again); err != nil || !proto.Equal(p, q) {
			t.Fatalf("%v comes back as %v, %v", p, q, err)
		}
	})
}

func FuzzCatalogue(f *testing.F) {
	f.Add(must2(f)(Marshal(aCatalogue())), uint16(3))
	f.Add([]byte{0x12, 0, 0x12, 0}, uint16(2))
	f.Fuzz(func(t *testing.T, b []byte, items uint16) {
		c, err := ReadCatalogue(b, int(items))
		if err != nil {
			return
		}
		if len(c.Items) != int(items) {
			t.Fatalf("%d items, want %d", len(c.Items), items)
		}
		again := must2(t)(Marshal(c))
		if d, err := ReadCatalogue(again, int(items)); err != nil || !proto.Equal(c, d) {
			t.Fatalf("%v comes back as %v, %v", c, d, err)
		}
	})
}

// The fuzzer has the key, so its manifests are signed.
func FuzzManifest(f *testing.F) {
	key := testKey()
	f.Add(must2(f)(Marshal(aManifest())))
	f.Add([]byte{0x3a, 0, 0x3a, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &pb.SignedManifest{Body: b, Signature: ed25519.Sign(key, append([]byte(manifestHead), b...))}
		m, err := VerifyManifest(key.Public().(ed25519.PublicKey), id(1), s)
		if err != nil {
			return
		}
		_ = CheckSlots(m, aPlan())
		again, err := SignManifest(key, m)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := VerifyManifest(key.Public().(ed25519.PublicKey), id(1), again); err != nil || !proto.Equal(m, n) {
			t.Fatalf("%v comes back as %v, %v", m, n, err)
		}
	})
}
