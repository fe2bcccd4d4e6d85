package secagg

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Limits on the sizes in a message.
const (
	maxDevices = 1 << 20
	maxLength  = 1 << 26
	maxHolders = 255 // nonzero elements of GF(256)
	MaxBits    = 32
)

// ErrTooFew is wrapped by errors that report too many dropouts: the round is over, and a new
// one may start.
var ErrTooFew = errors.New("secagg: too few devices remain")

// ErrNoSum is wrapped by errors that report inconsistent messages: the round is over, and a
// new one may start. A single device can cause it.
var ErrNoSum = errors.New("secagg: the round has no sum")

// Params are the parameters that all devices of a round and its server share. Plan chooses
// them; Check validates them.
type Params struct {
	Devices    int   // invited; their ids are 0 to Devices-1
	Length     int   // numbers in a vector
	Max        int64 // largest magnitude of a device's number, noise included
	Bits       int   // sums are taken modulo 2^Bits
	Degree     int   // neighbours per device; Devices-1 means all
	Threshold  int   // shares that reconstruct a secret
	MinDevices int   // fewest devices in a sum; with fewer, no device reveals anything
	Active     bool  // devices confirm the lists to each other before they reveal shares
}

// modulusBits is the smallest modulus in which n numbers of magnitude at most m add up
// without wrapping: n*m <= 2^(bits-1)-1. It exceeds MaxBits if none fits.
func modulusBits(n int, m int64) int {
	hi, lo := bits.Mul64(uint64(n), uint64(m))
	if hi != 0 {
		return 65
	}
	return bits.Len64(lo) + 1
}

// Check reports the first invalid parameter. Valid parameters guarantee that no sum wraps.
func (p *Params) Check() error {
	holders := p.Degree + 1
	all := p.Degree == p.Devices-1
	least := holders // on a sparse graph, fewer would not be one
	if all {
		least = p.Threshold
	}
	switch {
	case p.Devices < 1 || p.Devices > maxDevices:
		return fmt.Errorf("secagg: %d devices: must be 1 to %d", p.Devices, maxDevices)
	case p.Length < 1 || p.Length > maxLength:
		return fmt.Errorf("secagg: vectors of %d numbers: must be 1 to %d", p.Length, maxLength)
	case p.Max < 1:
		return fmt.Errorf("secagg: the largest number is %d: must be at least 1", p.Max)
	case p.Bits < 1 || p.Bits > MaxBits:
		return fmt.Errorf("secagg: modulus of %d bits: must be 1 to %d", p.Bits, MaxBits)
	case modulusBits(p.Devices, p.Max) > p.Bits:
		return fmt.Errorf("secagg: the sum of %d numbers up to %d would wrap modulo 2^%d: %s", p.Devices, p.Max,
			p.Bits, suggestion(p.Devices, p.Max, p.Bits))
	case !all && (p.Degree < 2 || p.Degree%2 != 0 || p.Degree >= p.Devices) || holders > maxHolders:
		return fmt.Errorf("secagg: %d neighbours among %d devices: must be an even number from 2 to %d, or all %d "+
			"others if those are at most %d",
			p.Degree, p.Devices, maxHolders-1, p.Devices-1, maxHolders-1)
	case p.Threshold < 1 || p.Threshold > holders:
		return fmt.Errorf("secagg: a threshold of %d of %d shares: must be 1 to %d", p.Threshold, holders, holders)
	case p.MinDevices < least || p.MinDevices > p.Devices:
		return fmt.Errorf("secagg: at least %d devices in a sum: must be %d to %d", p.MinDevices, least, p.Devices)
	case p.Active && !all:
		return fmt.Errorf("secagg: %d neighbours among %d devices: against an active server every device must be a "+
			"neighbour; make groups of at most %d", p.Degree, p.Devices, maxHolders)
	case p.Active && 3*p.Threshold <= 2*holders:
		return fmt.Errorf("secagg: a threshold of %d of %d shares: against an active server more than two thirds "+
			"are needed, %d", p.Threshold, holders, 2*holders/3+1)
	}
	return nil
}

// suggestion says what would fit instead: the smallest modulus, or the largest
// number.
func suggestion(n int, m int64, modulus int) string {
	most := (int64(1)<<(modulus-1) - 1) / int64(n)
	switch need := modulusBits(n, m); {
	case need <= MaxBits:
		return fmt.Sprintf("take a modulus of %d bits, or numbers up to %d", need, most)
	case most < 1:
		return fmt.Sprintf("at most %d devices fit", int64(1)<<(modulus-1)-1)
	default:
		return fmt.Sprintf("take numbers up to %d, or fewer devices; moduli end at %d bits",
			(int64(1)<<(MaxBits-1)-1)/int64(n), MaxBits)
	}
}

// Round identifies one sum: its parameters, model and round number.
type Round struct {
	Params
	Model  [keySize]byte // hash of the model and of the configuration it is trained with
	Number uint64        // of the round
	Seed   [keySize]byte // public; determines the graph
}

// Context is the hash that identifies the round. Every message contains it and every key is
// derived with it, so nothing of one round can be used in another.
func (r *Round) Context() [keySize]byte {
	b := append(make([]byte, 0, 256), "tacit secagg 1 context"...)
	active := 0
	if r.Active {
		active = 1
	}
	for _, v := range []int{r.Devices, r.Length, r.Bits, r.Degree, r.Threshold, r.MinDevices, active} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Max))
	b = binary.LittleEndian.AppendUint64(b, r.Number)
	b = append(b, r.Model[:]...)
	b = append(b, r.Seed[:]...)
	return sha256.Sum256(b)
}
