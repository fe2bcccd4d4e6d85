package report

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// A run that is evaluated once has no curve of its metrics.
func TestNoCurveOfOnePoint(t *testing.T) {
	for rounds, want := range map[int]int{1: 0, 5: 2} {
		curves := 0
		for _, f := range convergence(resulttest.Run("tacit", "deployed", 1, rounds, 50)).Figures {
			if strings.HasSuffix(f.Name, "-hr") || strings.HasSuffix(f.Name, "-ndcg") {
				curves++
			}
		}
		if curves != want {
			t.Errorf("%d evaluated rounds: %d curves, want %d", rounds, curves, want)
		}
	}
}
