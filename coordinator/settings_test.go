package coordinator

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/privacy"
)

// Settings with which devices could never evaluate are refused when a run begins, with the way out.
func TestImpossibleEvaluationsAreRefused(t *testing.T) {
	for _, c := range []struct {
		devices, evalEvery int
		dp, want           string
	}{
		{12, -1, "", "must be 0 or more"},
		{privacy.MinMaskedSum - 1, 1, "", "at least 10 devices"},
		{12, 1, "epsilon=80,delta=1e-3,clip=0.5", "add metrics=5 to --dp"},
		{12, 1, "epsilon=80,delta=1e-3,clip=0.5,trust=distributed", "omit --eval-every, or use trust=central"},
		{12, 1, "epsilon=80,delta=1e-3,clip=0.5,metrics=3", ""},
		{12, 0, "epsilon=80,delta=1e-3,clip=0.5", ""},
		{privacy.MinMaskedSum, 1, "", ""},
	} {
		s := small(c.devices)
		if c.dp != "" {
			s = withDP(s, c.dp)
		}
		s.EvalEvery = c.evalEvery
		if err := s.Check(); c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Policies whose guarantee holds in simulations only are refused: devices would refuse them too.
func TestPoliciesForSimulationsAreRefused(t *testing.T) {
	for dp, want := range map[string]string{
		"epsilon=80,delta=1e-3,trust=local":                                   "trust=distributed",
		"epsilon=80,delta=1e-3,noise-cohort=1000":                             "noise-cohort",
		"epsilon=80,delta=1e-3,adaptive=linear,balance=0.7,as-printed=yes":    "as-printed",
		"epsilon=80,delta=1e-3,adaptive=linear,balance=0.7,quantile=0.5":      "",
		"epsilon=80,delta=1e-3,adaptive=geometric,bit-noise=30,metrics=999.5": "",
	} {
		s := withDP(small(12), dp)
		if err := s.Check(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", dp, err, want)
		}
	}
}
