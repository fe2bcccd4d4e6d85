package tacit

import (
	"errors"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
)

// Callers test the error alone: a result without its privacy budget would read as a run without noise.
func TestAResultWithoutItsBudgetIsNotReturned(t *testing.T) {
	for _, broken := range []error{nil, errors.New("broken")} {
		got, err := (&Result{}).describe(&result.Result{}, func() (float64, float64, error) { return 2, 1e-6, broken })
		switch {
		case !errors.Is(err, broken) || (got == nil) != (broken != nil):
			t.Errorf("result %v with error %v", got, err)
		case got != nil && (got.Epsilon != 2 || got.Delta != 1e-6):
			t.Errorf("epsilon is %g, delta %g", got.Epsilon, got.Delta)
		}
	}
}
