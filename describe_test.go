package tacit

import (
	"errors"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/privacy/account"
)

// Callers test the error alone: a result without its privacy budget would read as a run without noise.
func TestAResultWithoutItsBudgetIsNotReturned(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		private bool
		err     error
	}{{true, nil}, {false, nil}, {true, broken}} {
		got, err := (&Result{}).describe(&result.Result{}, func() (account.Result, bool, error) {
			return account.Result{Epsilon: 2, Delta: 1e-6}, c.private, c.err
		})
		switch {
		case !errors.Is(err, c.err) || (got == nil) != (c.err != nil):
			t.Errorf("%+v: result %v with error %v", c, got, err)
		case got != nil && (got.Epsilon != 0) != c.private:
			t.Errorf("%+v: epsilon is %g", c, got.Epsilon)
		}
	}
}
