package chart

import "testing"

func TestLabelsDoNotOverlap(t *testing.T) {
	ys := []float64{10, 11, 12, 98, 99}
	apart(ys, 16, 0, 100)
	for i := 1; i < len(ys); i++ {
		if ys[i]-ys[i-1] < 16-1e-9 {
			t.Errorf("labels at %v, want 16 apart", ys)
		}
	}
	if ys[0] < 0 || ys[4] > 100 {
		t.Errorf("labels at %v, want them within 0 and 100", ys)
	}
}

// Every axis has at least four ticks between its ends, at 1, 2 or 5 times a power of ten.
func TestAxesHaveFourTicks(t *testing.T) {
	for _, hi := range []float64{1e-7, 0.03, 0.24, 0.999, 1, 1.01, 2.9, 3, 7, 19, 24, 31, 99, 101, 546, 12_345, 1e9} {
		for _, lo := range []float64{0, -hi / 3, hi * 0.9, hi * 0.51} {
			for n := 3; n <= 6; n++ {
				a := niceAxis(lo, hi, n)
				inside := 0
				for _, v := range a.ticks() {
					if v >= lo-a.step*1e-6 && v <= hi+a.step*1e-6 {
						inside++
					}
				}
				if inside < leastTicks || inside > 16 || a.lo > lo+a.step*1e-6 || a.hi < hi-a.step*1e-6 {
					t.Errorf("niceAxis(%g, %g, %d) = %v has %d ticks between its ends", lo, hi, n, a, inside)
				}
			}
		}
	}
}
