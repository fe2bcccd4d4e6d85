package wire

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// Marshal is the form of a plan, a catalogue, features or a manifest that holds to the limits:
// the same bytes each time.
func Marshal(m proto.Message) ([]byte, error) {
	var err error
	limit := maxSmallBytes
	switch m := m.(type) {
	case *pb.Plan:
		err = checkPlan(m)
	case *pb.Catalogue:
		limit = MaxBlobBytes
		err = checkCatalogue(m)
	case *pb.Features:
		limit = MaxBlobBytes
		_, err = decodeFeatures(m)
	case *pb.Manifest:
		err = checkManifest(m)
	default:
		panic("wire: Marshal is for plans, catalogues, features and manifests")
	}
	if err != nil {
		return nil, err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err == nil && len(b) > limit {
		return nil, fmt.Errorf("wire: %s has %d bytes: want at most %d", m.ProtoReflect().Descriptor().Name(), len(b),
			limit)
	}
	return b, err
}

func unmarshal(b []byte, limit int, m proto.Message) error {
	name := m.ProtoReflect().Descriptor().Name()
	if len(b) > limit {
		return fmt.Errorf("wire: %s has %d bytes: want at most %d", name, len(b), limit)
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return fmt.Errorf("wire: %s: %w", name, err)
	}
	return nil
}

// ReadPlan reads a plan and checks it against the limits.
func ReadPlan(b []byte) (*pb.Plan, error) {
	p := &pb.Plan{}
	if err := unmarshal(b, maxSmallBytes, p); err != nil {
		return nil, err
	}
	return p, checkPlan(p)
}

// ReadCatalogue reads a catalogue of so many items, as the plan says. They are counted
// before memory is taken for them.
func ReadCatalogue(b []byte, items int) (*pb.Catalogue, error) {
	if items < 1 || items > maxItems || len(b) > MaxBlobBytes {
		return nil, fmt.Errorf("wire: a catalogue of %d items in %d bytes: want 1 to %d items in at most %d bytes",
			items, len(b), maxItems, MaxBlobBytes)
	}
	const field = 2 // Catalogue.items
	n := 0
	for rest := b; len(rest) > 0; {
		num, _, size := protowire.ConsumeField(rest)
		if size < 0 {
			return nil, fmt.Errorf("wire: a catalogue: %w", protowire.ParseError(size))
		}
		if num == field {
			n++
		}
		rest = rest[size:]
	}
	if n != items {
		return nil, fmt.Errorf("wire: a catalogue of %d items: want %d", n, items)
	}
	c := &pb.Catalogue{}
	if err := unmarshal(b, MaxBlobBytes, c); err != nil {
		return nil, err
	}
	return c, checkCatalogue(c)
}

// text checks a text from outside: it may be shown on a terminal or a page, so that
// what moves a cursor or turns a line around is refused. Lines may end where many are allowed.
func text(s, what string, most int, lines bool) error {
	if len(s) > most {
		return fmt.Errorf("wire: %s has %d bytes: want at most %d", what, len(s), most)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("wire: %s is not UTF-8", what)
	}
	for _, r := range s {
		if lines && r == '\n' {
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("wire: %s has the control character %U", what, r)
		}
	}
	return nil
}

func checkPlan(p *pb.Plan) error {
	switch {
	case p.Items < 1 || p.Items > maxItems:
		return fmt.Errorf("wire: a plan for %d items: want 1 to %d", p.Items, maxItems)
	case p.Users < 1 || p.Users > MaxDevices:
		return fmt.Errorf("wire: a plan for %d users: want 1 to %d", p.Users, MaxDevices)
	case p.Rounds < 1 || p.Rounds > maxRounds:
		return fmt.Errorf("wire: a plan of %d rounds: want 1 to %d", p.Rounds, maxRounds)
	case p.ReportEvery > maxRounds:
		return fmt.Errorf("wire: a plan of one answer in %d rounds: want at most %d", p.ReportEvery, maxRounds)
	case p.Bits > 0 && p.Policy != "" && p.Policy != "none":
		return fmt.Errorf("wire: sums of %d bits under a promise, which has its own", p.Bits)
	case p.Bits > secagg.MaxBits:
		return fmt.Errorf("wire: sums of %d bits: want at most %d", p.Bits, secagg.MaxBits)
	case p.Batch > 1<<20:
		return fmt.Errorf("wire: batches of %d: want at most %d", p.Batch, 1<<20)
	case p.Negatives > 1<<10:
		return fmt.Errorf("wire: %d negatives for each positive: want at most %d", p.Negatives, 1<<10)
	case p.Method == "":
		return errors.New("wire: a plan without a method")
	case len(p.Params) > maxSlots || len(p.Features) > maxSlots:
		return fmt.Errorf("wire: a plan with %d parameters and %d features: want at most %d of each", len(p.Params),
			len(p.Features), maxSlots)
	}
	if _, err := numbers(p); err != nil {
		return err
	}
	texts := []string{p.Method, p.Keep, p.Cover}
	for _, s := range p.Params {
		texts = append(texts, s.GetKey(), s.GetValue())
	}
	for _, s := range append(texts, p.Features...) {
		if err := text(s, "a text of the plan", maxTextBytes, false); err != nil {
			return err
		}
	}
	if err := text(p.Policy, "the promise of the plan", 8*maxTextBytes, true); err != nil {
		return err
	}
	return text(p.Guarantee, "what the promise holds against", 8*maxTextBytes, true)
}

// numbers is how many numbers all slots of a plan have.
func numbers(p *pb.Plan) (uint64, error) {
	if len(p.Shape) == 0 || len(p.Shape)%2 != 0 || len(p.Shape) > 2*maxSlots {
		return 0, fmt.Errorf("wire: a plan with %d numbers as its shape: want rows and width of 1 to %d slots",
			len(p.Shape), maxSlots)
	}
	total := uint64(0)
	for i := 0; i < len(p.Shape); i += 2 {
		rows, width := p.Shape[i], p.Shape[i+1]
		if rows > maxLength || width > maxLength || total+rows*width > maxLength {
			return 0, fmt.Errorf("wire: slot %d has %d rows of %d numbers: want at most %d numbers in all slots", i/2,
				rows, width, maxLength)
		}
		total += rows * width
	}
	return total, nil
}

func checkCatalogue(c *pb.Catalogue) error {
	if len(c.Items) < 1 || len(c.Items) > maxItems {
		return fmt.Errorf("wire: a catalogue of %d items: want 1 to %d", len(c.Items), maxItems)
	}
	for i, it := range c.Items {
		if it.GetId() == "" {
			return fmt.Errorf("wire: item %d has no id", i)
		}
		if err := text(it.Id, "the id of an item", maxTextBytes/4, false); err != nil {
			return err
		}
		if err := text(it.Title, "a title", maxTextBytes, false); err != nil {
			return err
		}
		if len(it.Features) > 0 {
			return fmt.Errorf("wire: item %d has features of its own: a catalogue has none", i)
		}
	}
	return nil
}
