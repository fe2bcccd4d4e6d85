package wire

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// Devices check a table once, with CheckLimit alone if its slot has a limit.
func TestCheckLimitRefusesNumbersThatAreNotFinite(t *testing.T) {
	for _, c := range []struct {
		x    float32
		most float64
		want string // empty if the number is valid
	}{
		{3, 3, ""},
		{-3, 3, ""},
		{-3.5, 3, "number 1 is -3.5: must be at most 3 in magnitude"},
		{float32(math.NaN()), 3, "number 1 is NaN: must be finite"},
		{float32(math.Inf(1)), 3, "number 1 is +Inf: must be finite"},
		{float32(math.Inf(-1)), math.Inf(1), "number 1 is -Inf: must be finite"},
		{math.MaxFloat32, math.Inf(1), ""},
	} {
		b := binary.LittleEndian.AppendUint32(make([]byte, 4), math.Float32bits(c.x))
		err := CheckLimit(b, c.most)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%g with limit %g: error is %v, want %q", c.x, c.most, err, c.want)
		}
	}
}
