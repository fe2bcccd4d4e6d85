package wire

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/privacy/secagg"
)

// EncodeBound is a bound as it travels: with the deviation of the noise that each device
// adds to an integer and to the clipping bit, and the largest magnitude of one.
func EncodeBound(b privacy.Bound, noise, bitNoise, most int64) *pb.Bound {
	if b.MaxInteger > 0 {
		return &pb.Bound{PerSlot: true, Max: b.MaxInteger}
	}
	return &pb.Bound{
		Clip: b.Clip, Levels: b.Levels, Row: b.RowClip, L1: b.L1, Bit: b.Bit, Late: b.BitAfterClip,
		Noise: noise, BitNoise: bitNoise, Max: most,
	}
}

// DecodeBound checks a bound that came over the wire: every number of it is finite and in
// a range where integers are exact.
func DecodeBound(b *pb.Bound) (privacy.Bound, error) {
	const large = 1 << 60
	positive := func(x, most float64) bool { return x > 0 && x <= most && x >= 1/most }
	switch {
	case b == nil:
		return privacy.Bound{}, errors.New("wire: a task without a bound")
	case b.PerSlot:
		return decodePerSlotBound(b)
	case !positive(b.Clip, large):
		return privacy.Bound{}, fmt.Errorf("wire: a clip of %g: want 2^-60 to 2^60", b.Clip)
	case !(b.Levels >= 1 && b.Levels <= maxMagnitude):
		return privacy.Bound{}, fmt.Errorf("wire: %g levels: want 1 to 2^52", b.Levels)
	case b.Row != 0 && !positive(b.Row, large):
		return privacy.Bound{}, fmt.Errorf("wire: a bound of %g on rows: want 2^-60 to 2^60, or 0 for none", b.Row)
	case b.Max < 1 || b.Max > maxMagnitude:
		return privacy.Bound{}, fmt.Errorf("wire: integers up to %d: want 1 to 2^52", b.Max)
	case b.Noise < 0 || b.Noise > maxMagnitude || b.BitNoise < 0 || b.BitNoise > maxMagnitude:
		return privacy.Bound{}, fmt.Errorf("wire: noise of %d and %d: want 0 to 2^52", b.Noise, b.BitNoise)
	}
	return privacy.Bound{Clip: b.Clip, L1: b.L1, RowClip: b.Row, Levels: b.Levels, Bit: b.Bit, BitAfterClip: b.Late},
		nil
}

// decodePerSlotBound checks a bound that is the reach of each slot.
func decodePerSlotBound(b *pb.Bound) (privacy.Bound, error) {
	switch {
	case b.Clip != 0 || b.Levels != 0 || b.Row != 0 || b.L1 || b.Bit || b.Late || b.Noise != 0 || b.BitNoise != 0:
		return privacy.Bound{}, errors.New("wire: a bound by the reach of each slot, and another beside it")
	case b.Max < 1 || b.Max > math.MaxInt32:
		return privacy.Bound{}, fmt.Errorf("wire: integers up to %d: want 1 to 2^31-1", b.Max)
	}
	return privacy.Bound{MaxInteger: b.Max}, nil
}

// EncodeMasking is a round of secure aggregation as it travels to the device of an id.
func EncodeMasking(r *secagg.Round, id int) *pb.Masking {
	return &pb.Masking{
		Id: uint32(id), Devices: uint32(r.Devices), Length: uint64(r.Length), Max: r.Max, Bits: uint32(r.Bits),
		Degree: uint32(r.Degree), Threshold: uint32(r.Threshold), MinDevices: uint32(r.MinDevices), Active: r.Active,
		Model: append([]byte{}, r.Model[:]...), Number: r.Number, Seed: append([]byte{}, r.Seed[:]...),
	}
}

// DecodeMasking checks a round of secure aggregation that came over the wire, and gives the
// id of the device in it.
func DecodeMasking(m *pb.Masking) (r secagg.Round, id int, err error) {
	if m == nil {
		return r, 0, errors.New("wire: a task without masking")
	}
	for _, x := range []uint64{
		uint64(m.Id), uint64(m.Devices), m.Length, uint64(m.Bits), uint64(m.Degree),
		uint64(m.Threshold), uint64(m.MinDevices),
	} {
		if x > math.MaxInt32 {
			return r, 0, fmt.Errorf("wire: masking with %d: want numbers up to %d", x, math.MaxInt32)
		}
	}
	if len(m.Model) != len(r.Model) || len(m.Seed) != len(r.Seed) {
		return r, 0, fmt.Errorf("wire: masking with a model of %d and a seed of %d bytes: want %d", len(m.Model),
			len(m.Seed), len(r.Seed))
	}
	r.Params = secagg.Params{
		Devices: int(m.Devices), Length: int(m.Length), Max: m.Max, Bits: int(m.Bits),
		Degree: int(m.Degree), Threshold: int(m.Threshold), MinDevices: int(m.MinDevices), Active: m.Active,
	}
	r.Number = m.Number
	copy(r.Model[:], m.Model)
	copy(r.Seed[:], m.Seed)
	if err := r.Check(); err != nil {
		return r, 0, fmt.Errorf("wire: masking: %w", err)
	}
	if m.Id >= m.Devices {
		return r, 0, fmt.Errorf("wire: device %d of %d in a masked round", m.Id, m.Devices)
	}
	return r, int(m.Id), nil
}

// CheckTask sees that a task is whole, and that its parts agree.
func CheckTask(t *pb.Task) error {
	switch {
	case t == nil:
		return errors.New("wire: no task")
	case t.Kind != pb.Kind_TRAIN && t.Kind != pb.Kind_EVALUATE && t.Kind != pb.Kind_COUNT:
		return fmt.Errorf("wire: a task of kind %d: want to train, to evaluate or to count", t.Kind)
	case len(t.Run) != IDBytes:
		return fmt.Errorf("wire: a task of a run with an id of %d bytes: want %d", len(t.Run), IDBytes)
	case t.Round > maxRounds:
		return fmt.Errorf("wire: a task of round %d: want at most %d", t.Round, maxRounds)
	case t.ModelVersion < 1:
		return errors.New("wire: a task on no model")
	case t.Length < 1 || t.Length > maxLength:
		return fmt.Errorf("wire: a task with reports of %d numbers: want 1 to %d", t.Length, maxLength)
	}
	if _, err := DecodeBound(t.Bound); err != nil {
		return err
	}
	if t.Masking == nil {
		return nil
	}
	r, _, err := DecodeMasking(t.Masking)
	switch {
	case err != nil:
		return err
	case uint64(r.Length) != t.Length:
		return fmt.Errorf("wire: a masked sum of %d numbers, and reports of %d", r.Length, t.Length)
	case t.Bound.GetMax() > r.Max:
		return fmt.Errorf("wire: integers up to %d, and a masked sum that holds them up to %d", t.Bound.GetMax(),
			r.Max)
	}
	return nil
}

// CheckHello checks what a coordinator says of itself.
func CheckHello(h *pb.HelloResponse) error {
	piece, body := h.GetLimits().GetPieceBytes(), h.GetLimits().GetBodyBytes()
	switch {
	case len(h.GetFederation()) != IDBytes:
		return fmt.Errorf("wire: a federation with an id of %d bytes: want %d", len(h.GetFederation()), IDBytes)
	case len(h.Key) != ed25519.PublicKeySize:
		return fmt.Errorf("wire: a federation with a key of %d bytes: want %d", len(h.Key), ed25519.PublicKeySize)
	case piece < 1024 || piece > 1<<23 || body < piece:
		return fmt.Errorf("wire: pieces of %d bytes in bodies of %d: want 1024 to %d, and bodies that hold them",
			piece, body, 1<<23)
	}
	return text(h.Name, "the name of a federation", maxTextBytes, false)
}

// CheckWait checks the answer that there is nothing to do. Its text is for people.
func CheckWait(w *pb.Wait) error {
	const week = 7 * 24 * 60 * 60 * 1000
	if w.GetAfterMs() > week {
		return fmt.Errorf("wire: a wait of %d ms: want at most %d", w.GetAfterMs(), week)
	}
	return text(w.GetReason(), "the reason to wait", maxTextBytes, false)
}
