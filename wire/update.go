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

// AppendUpdate appends the encoding of v. Package rows defines the format.
func AppendUpdate(dst []byte, v []int64) []byte { return rows.AppendUpdate(dst, v) }

// MaxUpdateBytes returns the largest encoded size of an update with a length and magnitudes up to
// maxValue.
func MaxUpdateBytes(numbers int, maxValue int64) int {
	width := max(8, rows.BitWidth(maxValue)) // below 8 the headers of runs outweigh the zeros between them
	return 64 + (numbers*width+7)/8 + 4*(numbers/rows.UpdateBlock+1) + numbers/32
}

// run is n consecutive numbers of an update.
type run struct {
	at, n, width int
	data         []byte
}

var (
	errTruncated = errors.New("the update is truncated")
	errForm      = errors.New("malformed update: it is corrupt, or not in canonical form")
)

// uvarint reads a number of at limit limit in its shortest form.
func uvarint(b []byte, limit int) (int, []byte, error) {
	x, n := binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, nil, errTruncated
	case n < 0 || x > uint64(limit):
		return 0, nil, fmt.Errorf("malformed update: a count exceeds %d", limit)
	case n > 1 && b[n-1] == 0:
		return 0, nil, errForm
	}
	return int(x), b[n:], nil
}

// nextRun reads the run after number from-1, and returns the skipped numbers and the rest.
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

// number returns number i of a run.
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

// ReadUpdate checks an encoded update with a length and magnitudes up to maxValue, and adds it to dst. It
// does not change dst if it returns an error. A nil dst only checks. It allocates nothing.
func ReadUpdate(b []byte, numbers int, maxValue int64, dst []int64) error {
	if dst != nil && len(dst) != numbers {
		panic("wire: dst has the wrong length")
	}
	if err := checkUpdate(b, numbers, maxValue); err != nil || dst == nil {
		return err
	}
	return eachRun(b, numbers, func(r run) {
		to := dst[r.at : r.at+r.n]
		for i := range to {
			to[i] += r.number(i)
		}
	})
}

// runs returns the bytes after the header of an update.
func runs(b []byte, numbers int) ([]byte, error) {
	if numbers < 0 || numbers > maxLength {
		return nil, fmt.Errorf("update of %d numbers: must be at most %d", numbers, maxLength)
	}
	if len(b) == 0 {
		return nil, errTruncated
	}
	if b[0] != rows.UpdateVersion {
		return nil, fmt.Errorf("update format version %d: must be %d", b[0], rows.UpdateVersion)
	}
	n, rest, err := uvarint(b[1:], maxLength)
	if err == nil && n != numbers {
		err = fmt.Errorf("update of %d numbers: must be %d", n, numbers)
	}
	return rest, err
}

// eachRun visits the runs of a checked update.
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

func checkUpdate(b []byte, numbers int, maxValue int64) error {
	b, err := runs(b, numbers)
	if err != nil {
		return err
	}
	var at, start, last, zeros int // end of the last run, start of its block, its width, zeros at its end
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
		if zeros, err = r.check(zeros, maxValue); err != nil {
			return err
		}
		at, last, b = r.at+r.n, r.width, rest
	}
	if zeros != 0 {
		return errForm
	}
	return nil
}

// check checks the numbers of a run after a number of zeros, and returns the number of zeros at its end.
func (r *run) check(zeros int, maxValue int64) (int, error) {
	for from := 0; from < r.n; from += rows.UpdateBlock {
		var all uint64
		for i := from; i < min(from+rows.UpdateBlock, r.n); i++ {
			x := r.number(i)
			if x > maxValue || x < -maxValue {
				return 0, fmt.Errorf("number %d at %d of an update: the magnitude must be at most %d", x, r.at+i,
					maxValue)
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

// CheckNorm checks that the norm of an update is within its bound, and that the clipping bit, the last
// number of updates that carry it, is valid. ReadUpdate must have checked the update. Updates with noise have no
// bound and pass.
func CheckNorm(b []byte, numbers int, bound *pb.Bound) error {
	p, err := DecodeBound(bound)
	// with PerSlot, ReadUpdate has checked each number
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
	if limit := p.Sensitivity(end); !(total <= limit) {
		return fmt.Errorf("update with norm %.6g: must be at most %.6g", total, limit)
	}
	if p.Bit && bit != privacy.BitLevels/2 && bit != -privacy.BitLevels/2 {
		return fmt.Errorf("clipping bit %d: must be %d or %d", bit, privacy.BitLevels/2, -privacy.BitLevels/2)
	}
	return nil
}
