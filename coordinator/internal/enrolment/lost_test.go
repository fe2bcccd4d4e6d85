package enrolment

import (
	"slices"
	"testing"
)

// A repair names the devices whose revocation was lost.
func TestLostRevocationsAreNamed(t *testing.T) {
	got := DescribeLost(map[string][][]byte{logName: {
		[]byte(`[{"op":"revoke","id":7},{"op":"enrol","id":9}]`), []byte("torn"), []byte(`[{"op":"revoke","id":3}]`),
	}, "other": {[]byte(`[{"op":"leave","id":1}]`)}})
	want := []string{
		"the revocation of devices [3 7]: revoke each again with tacit admin revoke ID",
		"the enrolment of devices [9]: they enrol again with a token",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
