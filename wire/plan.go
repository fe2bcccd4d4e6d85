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

// Marshal checks and encodes a plan, a catalogue, features or a manifest. The same message always has
// the same bytes.
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
		panic("wire: Marshal accepts plans, catalogues, features and manifests")
	}
	if err != nil {
		return nil, err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err == nil && len(b) > limit {
		return nil, fmt.Errorf("%s has %d bytes: must be at most %d", m.ProtoReflect().Descriptor().Name(), len(b),
			limit)
	}
	return b, err
}

func unmarshal(b []byte, limit int, m proto.Message) error {
	name := m.ProtoReflect().Descriptor().Name()
	if len(b) > limit {
		return fmt.Errorf("%s has %d bytes: must be at most %d", name, len(b), limit)
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ReadPlan decodes and checks a plan.
func ReadPlan(b []byte) (*pb.Plan, error) {
	p := &pb.Plan{}
	if err := unmarshal(b, maxSmallBytes, p); err != nil {
		return nil, err
	}
	return p, checkPlan(p)
}

// ReadCatalogue decodes and checks a catalogue with a number of items. It counts them before it allocates
// memory.
func ReadCatalogue(b []byte, items int) (*pb.Catalogue, error) {
	if items < 1 || items > maxItems || len(b) > MaxBlobBytes {
		return nil, fmt.Errorf("catalogue of %d items in %d bytes: must be 1 to %d items in at most %d bytes",
			items, len(b), maxItems, MaxBlobBytes)
	}
	const field = 2 // Catalogue.items
	n := 0
	for rest := b; len(rest) > 0; {
		num, _, size := protowire.ConsumeField(rest)
		if size < 0 {
			return nil, fmt.Errorf("catalogue: %w", protowire.ParseError(size))
		}
		if num == field {
			n++
		}
		rest = rest[size:]
	}
	if n != items {
		return nil, fmt.Errorf("catalogue of %d items: must be %d", n, items)
	}
	c := &pb.Catalogue{}
	if err := unmarshal(b, MaxBlobBytes, c); err != nil {
		return nil, err
	}
	return c, checkCatalogue(c)
}

// text checks a text that is shown to people: valid UTF-8 without control and bidirectional characters.
// lines allows newlines.
func text(s, what string, limit int, lines bool) error {
	if len(s) > limit {
		return fmt.Errorf("%s has %d bytes: must be at most %d", what, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s is not UTF-8", what)
	}
	for _, r := range s {
		if lines && r == '\n' {
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("%s contains the control character %U", what, r)
		}
	}
	return nil
}

func checkPlan(p *pb.Plan) error {
	switch {
	case p.Items < 1 || p.Items > maxItems:
		return fmt.Errorf("plan for %d items: must be 1 to %d", p.Items, maxItems)
	case p.Users < 1 || p.Users > MaxDevices:
		return fmt.Errorf("plan for %d users: must be 1 to %d", p.Users, MaxDevices)
	case p.Rounds < 1 || p.Rounds > maxRounds:
		return fmt.Errorf("plan of %d rounds: must be 1 to %d", p.Rounds, maxRounds)
	case p.ReportEvery > maxRounds:
		return fmt.Errorf("plan with one report in %d rounds: must be at most %d", p.ReportEvery, maxRounds)
	case p.Bits > 0 && p.Policy != "" && p.Policy != "none":
		return fmt.Errorf("plan with a privacy policy and sums of %d bits: the policy sets the bits", p.Bits)
	case p.Bits > secagg.MaxBits:
		return fmt.Errorf("sums of %d bits: must be at most %d", p.Bits, secagg.MaxBits)
	case p.Runs > maxRuns:
		return fmt.Errorf("plan with a privacy guarantee for %d runs: must be at most %d", p.Runs, maxRuns)
	case p.Evaluations > maxRounds:
		return fmt.Errorf("plan of %d evaluations: must be at most %d", p.Evaluations, maxRounds)
	case p.GroupSize > MaxDevices:
		return fmt.Errorf("plan with masked sums of %d devices: must be at most %d", p.GroupSize, MaxDevices)
	case !(p.ServerRate >= 0 && p.ServerRate <= 1e12):
		return fmt.Errorf("plan with a server rate of %g: must be 0 to 1e12", p.ServerRate)
	case p.Batch > 1<<20:
		return fmt.Errorf("batches of %d: must be at most %d", p.Batch, 1<<20)
	case p.Negatives > 1<<10:
		return fmt.Errorf("%d negatives per positive: must be at most %d", p.Negatives, 1<<10)
	case p.Method == "":
		return errors.New("plan without a method")
	case len(p.Params) > maxSlots || len(p.Features) > maxSlots:
		return fmt.Errorf("plan with %d parameters and %d features: must be at most %d of each", len(p.Params),
			len(p.Features), maxSlots)
	}
	if _, err := numbers(p); err != nil {
		return err
	}
	texts := []string{p.Method, p.Keep, p.Cover, p.Cohort}
	for _, s := range p.Params {
		texts = append(texts, s.GetKey(), s.GetValue())
	}
	for _, s := range append(texts, p.Features...) {
		if err := text(s, "a text of the plan", maxTextBytes, false); err != nil {
			return err
		}
	}
	return text(p.Policy, "the privacy policy of the plan", 8*maxTextBytes, true)
}

// numbers returns the total size of all slots of a plan.
func numbers(p *pb.Plan) (uint64, error) {
	if len(p.Shape) == 0 || len(p.Shape)%2 != 0 || len(p.Shape) > 2*maxSlots {
		return 0, fmt.Errorf("plan with a shape of %d numbers: must be rows and width of 1 to %d slots",
			len(p.Shape), maxSlots)
	}
	total := uint64(0)
	for i := 0; i < len(p.Shape); i += 2 {
		rows, width := p.Shape[i], p.Shape[i+1]
		if rows > maxLength || width > maxLength || total+rows*width > maxLength {
			return 0, fmt.Errorf("slot %d has %d rows of %d numbers: must be at most %d numbers in all slots", i/2,
				rows, width, maxLength)
		}
		total += rows * width
	}
	return total, nil
}

func checkCatalogue(c *pb.Catalogue) error {
	if len(c.Items) < 1 || len(c.Items) > maxItems {
		return fmt.Errorf("catalogue of %d items: must be 1 to %d", len(c.Items), maxItems)
	}
	for i, it := range c.Items {
		if it.GetId() == "" {
			return fmt.Errorf("item %d has no ID", i)
		}
		if err := text(it.Id, "an item ID", maxTextBytes/4, false); err != nil {
			return err
		}
		if err := text(it.Title, "a title", maxTextBytes, false); err != nil {
			return err
		}
		if len(it.Features) > 0 {
			return fmt.Errorf("item %d has features: catalogue items have none", i)
		}
	}
	return nil
}
