package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
)

// AppendUpdate appends the form of v, which package rows says.
func AppendUpdate(dst []byte, v []int64) []byte { return rows.AppendUpdate(dst, v) }

// MaxUpdateBytes is the most bytes that a vector of so many numbers can take, with
// magnitudes up to most: what a coordinator lets a report have.
func MaxUpdateBytes(numbers int, most int64) int {
	width := max(8, rows.BitWidth(most)) // below 8 the heads of runs weigh more than the zeros between them
	return 64 + (numbers*width+7)/8 + 4*(numbers/rows.UpdateBlock+1) + numbers/32
}

// run is n numbers of a vector from a place on.
type run struct {
	at, n, width int
	data         []byte
}

var (
	errTruncated = errors.New("wire: a vector ends too early")
	errForm      = errors.New("wire: a vector is not in its one form: it was damaged, or not made by this protocol")
)

// uvarint reads a number of at most most, in its shortest form.
func uvarint(b []byte, most int) (int, []byte, error) {
	x, n := binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, nil, errTruncated
	case n < 0 || x > uint64(most):
		return 0, nil, fmt.Errorf("wire: a count is over %d", most)
	case n > 1 && b[n-1] == 0:
		return 0, nil, errForm
	}
	return int(x), b[n:], nil
}

// nextRun reads a run that follows the number before from, and returns what is behind it.
func nextRun(b []byte, from, numbers int) (r run, skip int, rest []byte, err error) {
	if skip, b, err = uvarint(b, numbers-from); err != nil {
		return r, 0, nil, err
	}
	r.at = from + skip
	if r.n, b, err = uvarint(b, numbers-r.at); err != nil {
		return r, 0, nil, err
	}
	if len(b) == 0 {
		return r, 0, nil, errTruncated
	}
	r.width, b = int(b[0]), b[1:]
	if r.n == 0 || r.width < 1 || r.width > 64 {
		return r, 0, nil, errForm
	}
	size, left := (r.n*r.width+7)/8, r.n*r.width%8
	if len(b) < size {
		return r, 0, nil, errTruncated
	}
	if left > 0 && b[size-1]>>left != 0 {
		return r, 0, nil, errForm
	}
	r.data = b[:size]
	return r, skip, b[size:], nil
}

// number is the i-th of a run.
func (r *run) number(i int) int64 {
	from := i * r.width
	b, low, shift := r.data[from>>3:], from&7, 64-r.width
	if len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b) >> low
		if low > shift {
			x |= uint64(b[8]) << (64 - low)
		}
		return int64(x<<shift) >> shift
	}
	var x uint64
	for j, c := range b {
		x |= uint64(c) << (8 * j)
	}
	return int64(x>>low<<shift) >> shift
}

// ReadUpdate checks the form of a vector of so many numbers, each of a magnitude up
// to most, and adds it to dst. It is all or nothing: with an error dst stays as it
// was. Nothing is allocated, and a dst of nil only checks.
func ReadUpdate(b []byte, numbers int, most int64, dst []int64) error {
	if dst != nil && len(dst) != numbers {
		panic("wire: a vector is read into a slice of another length")
	}
	if err := checkUpdate(b, numbers, most); err != nil || dst == nil {
		return err
	}
	return eachRun(b, numbers, func(r run) {
		to := dst[r.at : r.at+r.n]
		for i := range to {
			to[i] += r.number(i)
		}
	})
}

// runs is what follows the head of a vector.
func runs(b []byte, numbers int) ([]byte, error) {
	if numbers < 0 || numbers > maxLength {
		return nil, fmt.Errorf("wire: a vector of %d numbers: want at most %d", numbers, maxLength)
	}
	if len(b) == 0 {
		return nil, errTruncated
	}
	if b[0] != rows.UpdateVersion {
		return nil, fmt.Errorf("wire: a vector of version %d: want %d", b[0], rows.UpdateVersion)
	}
	n, rest, err := uvarint(b[1:], maxLength)
	if err == nil && n != numbers {
		err = fmt.Errorf("wire: a vector of %d numbers: want %d", n, numbers)
	}
	return rest, err
}

// eachRun visits the runs of a vector that was checked.
func eachRun(b []byte, numbers int, visit func(run)) error {
	b, err := runs(b, numbers)
	for at := 0; err == nil && len(b) > 0; {
		var r run
		if r, _, b, err = nextRun(b, at, numbers); err == nil {
			visit(r)
			at = r.at + r.n
		}
	}
	return err
}

func checkUpdate(b []byte, numbers int, most int64) error {
	b, err := runs(b, numbers)
	if err != nil {
		return err
	}
	var at, start, last, zeros int // end of the last run, start of its stretch, its width, zeros at its end
	for first := true; len(b) > 0; first = false {
		r, skip, rest, err := nextRun(b, at, numbers)
		if err != nil {
			return err
		}
		if !first && skip == 0 {
			if (at-start)%rows.UpdateBlock != 0 || r.width == last {
				return errForm
			}
		} else {
			if !first && skip < rows.UpdateGap || zeros != 0 || r.number(0) == 0 {
				return errForm
			}
			start = r.at
		}
		if zeros, err = r.check(zeros, most); err != nil {
			return err
		}
		at, last, b = r.at+r.n, r.width, rest
	}
	if zeros != 0 {
		return errForm
	}
	return nil
}

// check looks at the numbers of a run that so many zeros precede, and returns how
// many end it.
func (r *run) check(zeros int, most int64) (int, error) {
	for from := 0; from < r.n; from += rows.UpdateBlock {
		var all uint64
		for i := from; i < min(from+rows.UpdateBlock, r.n); i++ {
			x := r.number(i)
			if x > most || x < -most {
				return 0, fmt.Errorf("wire: a vector has %d at %d: want magnitudes up to %d", x, r.at+i, most)
			}
			all |= uint64(x ^ x>>63)
			if zeros++; x != 0 {
				zeros = 0
			}
			if zeros == rows.UpdateGap {
				return 0, errForm
			}
		}
		if bits.Len64(all)+1 != r.width {
			return 0, errForm
		}
	}
	return zeros, nil
}

// CheckNorm sees that a vector, which ReadVector has checked, is no longer than its
// bound lets it be, and that its clipping bit, the last number where there is one,
// is whole. Noise that a device adds has no such bound, and is let through.
func CheckNorm(b []byte, numbers int, bound *pb.Bound) error {
	p, err := DecodeBound(bound)
	// each number has its own, which was checked
	if err != nil || bound.Noise != 0 || bound.BitNoise != 0 || bound.PerSlot {
		return err
	}
	end := numbers
	if p.Bit {
		end--
	}
	total, bit := 0.0, int64(0)
	err = eachRun(b, numbers, func(r run) {
		for i := range r.n {
			x := r.number(i)
			switch {
			case r.at+i >= end:
				bit = x
			case p.L1:
				total += math.Abs(float64(x))
			default:
				total += float64(float64(x) * float64(x))
			}
		}
	})
	if err != nil {
		return err
	}
	if !p.L1 {
		total = math.Sqrt(total)
	}
	if most := p.Sensitivity(end); !(total <= most) {
		return fmt.Errorf("wire: an update is %.6g long: the bound lets it be %.6g", total, most)
	}
	if p.Bit && bit != privacy.BitLevels/2 && bit != -privacy.BitLevels/2 {
		return fmt.Errorf("wire: a clipping bit is %d: want %d or %d", bit, privacy.BitLevels/2, -privacy.BitLevels/2)
	}
	return nil
}
