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
