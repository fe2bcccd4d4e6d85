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

// EncodeBound returns the message of a bound, with the standard deviation of the noise that each device
// adds to integers and to the clipping bit, and the largest magnitude of an integer.
func EncodeBound(b privacy.Bound, noise, bitNoise, most int64) *pb.Bound {
	if b.MaxInteger > 0 {
		return &pb.Bound{PerSlot: true, Max: b.MaxInteger}
	}
	return &pb.Bound{
		Clip: b.Clip, Levels: b.Levels, Row: b.RowClip, L1: b.L1, Bit: b.Bit, Late: b.BitAfterClip,
		Noise: noise, BitNoise: bitNoise, Max: most,
	}
}

// DecodeBound checks and returns the bound of a message. All its numbers are finite and in a range in
// which integers are exact.
func DecodeBound(b *pb.Bound) (privacy.Bound, error) {
	const large = 1 << 60
	positive := func(x, most float64) bool { return x > 0 && x <= most && x >= 1/most }
	switch {
	case b == nil:
		return privacy.Bound{}, errors.New("task without a bound")
	case b.PerSlot:
		return decodePerSlotBound(b)
	case !positive(b.Clip, large):
		return privacy.Bound{}, fmt.Errorf("clipping bound of %g: must be 2^-60 to 2^60", b.Clip)
	case !(b.Levels >= 1 && b.Levels <= maxMagnitude):
		return privacy.Bound{}, fmt.Errorf("%g levels: must be 1 to 2^52", b.Levels)
	case b.Row != 0 && !positive(b.Row, large):
		return privacy.Bound{}, fmt.Errorf("row bound of %g: must be 2^-60 to 2^60, or 0 for none", b.Row)
	case b.Max < 1 || b.Max > maxMagnitude:
		return privacy.Bound{}, fmt.Errorf("integers up to %d: must be 1 to 2^52", b.Max)
	case b.Noise < 0 || b.Noise > maxMagnitude || b.BitNoise < 0 || b.BitNoise > maxMagnitude:
		return privacy.Bound{}, fmt.Errorf("noise of %d and %d: must be 0 to 2^52", b.Noise, b.BitNoise)
	}
	return privacy.Bound{Clip: b.Clip, L1: b.L1, RowClip: b.Row, Levels: b.Levels, Bit: b.Bit, BitAfterClip: b.Late},
		nil
}

// decodePerSlotBound is DecodeBound for a bound that is the range of each slot.
func decodePerSlotBound(b *pb.Bound) (privacy.Bound, error) {
	switch {
	case b.Clip != 0 || b.Levels != 0 || b.Row != 0 || b.L1 || b.Bit || b.Late || b.Noise != 0 || b.BitNoise != 0:
		return privacy.Bound{}, errors.New("bound per slot with other bounds: only the largest integer may be set")
	case b.Max < 1 || b.Max > math.MaxInt32:
		return privacy.Bound{}, fmt.Errorf("integers up to %d: must be 1 to 2^31-1", b.Max)
	}
	return privacy.Bound{MaxInteger: b.Max}, nil
}

// EncodeMasking returns the message of a masked round for the device with an ID in it.
func EncodeMasking(r *secagg.Round, id int) *pb.Masking {
	return &pb.Masking{
		Id: uint32(id), Devices: uint32(r.Devices), Length: uint64(r.Length), Max: r.Max, Bits: uint32(r.Bits),
		Degree: uint32(r.Degree), Threshold: uint32(r.Threshold), MinDevices: uint32(r.MinDevices), Active: r.Active,
		Model: append([]byte{}, r.Model[:]...), Number: r.Number, Seed: append([]byte{}, r.Seed[:]...),
	}
}

// DecodeMasking checks and returns the masked round of a message and the device's ID in it.
func DecodeMasking(m *pb.Masking) (r secagg.Round, id int, err error) {
	if m == nil {
		return r, 0, errors.New("task without masking")
	}
	for _, x := range []uint64{
		uint64(m.Id), uint64(m.Devices), m.Length, uint64(m.Bits), uint64(m.Degree),
		uint64(m.Threshold), uint64(m.MinDevices),
	} {
		if x > math.MaxInt32 {
			return r, 0, fmt.Errorf("masking with the number %d: must be at most %d", x, math.MaxInt32)
		}
	}
	if len(m.Model) != len(r.Model) || len(m.Seed) != len(r.Seed) {
		return r, 0, fmt.Errorf("masking with a model of %d and a seed of %d bytes: must be %d", len(m.Model),
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
		return r, 0, fmt.Errorf("masking: %w", err)
	}
	if m.Id >= m.Devices {
		return r, 0, fmt.Errorf("device %d in a masked round of %d devices: IDs start at 0", m.Id, m.Devices)
	}
	return r, int(m.Id), nil
}

// CheckTask checks that a task is complete and consistent.
func CheckTask(t *pb.Task) error {
	switch {
	case t == nil:
		return errors.New("the task is missing")
	case t.Kind != pb.Kind_TRAIN && t.Kind != pb.Kind_EVALUATE && t.Kind != pb.Kind_COUNT:
		return fmt.Errorf("task of kind %d: must be train, evaluate or count", t.Kind)
	case len(t.Run) != IDBytes:
		return fmt.Errorf("task with a run ID of %d bytes: must be %d", len(t.Run), IDBytes)
	case t.Round > maxRounds:
		return fmt.Errorf("task of round %d: must be at most %d", t.Round, maxRounds)
	case t.ModelVersion < 1:
		return errors.New("task without a model version")
	case t.Length < 1 || t.Length > maxLength:
		return fmt.Errorf("task with reports of %d numbers: must be 1 to %d", t.Length, maxLength)
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
		return fmt.Errorf("masked sum of %d numbers for reports of %d: must be equal", r.Length, t.Length)
	case t.Bound.GetMax() > r.Max:
		return fmt.Errorf("integers up to %d in a masked sum for integers up to %d", t.Bound.GetMax(),
			r.Max)
	}
	return nil
}

// CheckHello checks the answer to Hello.
func CheckHello(h *pb.HelloResponse) error {
	piece, body := h.GetLimits().GetPieceBytes(), h.GetLimits().GetBodyBytes()
	switch {
	case len(h.GetFederation()) != IDBytes:
		return fmt.Errorf("federation ID of %d bytes: must be %d", len(h.GetFederation()), IDBytes)
	case len(h.Key) != ed25519.PublicKeySize:
		return fmt.Errorf("federation key of %d bytes: must be %d", len(h.Key), ed25519.PublicKeySize)
	case piece < 1024 || piece > 1<<23 || body < piece:
		return fmt.Errorf("pieces of %d bytes in bodies of %d: must be 1024 to %d and fit a body",
			piece, body, 1<<23)
	}
	return text(h.Name, "the name of the federation", maxTextBytes, false)
}

// CheckWait checks the answer of a coordinator that has no task.
func CheckWait(w *pb.Wait) error {
	const week = 7 * 24 * 60 * 60 * 1000
	if w.GetAfterMs() > week {
		return fmt.Errorf("wait of %d ms: must be at most %d", w.GetAfterMs(), week)
	}
	if err := text(w.GetState(), "the state of the coordinator", maxTextBytes, false); err != nil {
		return err
	}
	return text(w.GetReason(), "the reason to wait", maxTextBytes, false)
}
