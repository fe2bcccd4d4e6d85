package data

import (
	"fmt"
	"strings"
)

// Cut is where a split by time starts validation and test: at shares of the rows in the order of time, or at
// moments. The zero value stands for the shares 0.8 and 0.9.
type Cut struct {
	shares  [2]float64
	moments [2]int64
	dated   bool
	text    string
}

// ParseCut parses "0.8,0.9" or two moments, each a date or Unix seconds: "2000-11-01,2000-12-01". An empty text is the
// zero Cut.
func ParseCut(s string) (Cut, error) {
	c := Cut{text: s}
	if s == "" {
		return c, nil
	}
	valid, test, ok := strings.Cut(s, ",")
	bad := fmt.Errorf("time cut %q: must be two shares such as 0.8,0.9, or two moments such as 2000-11-01,2000-12-01, "+
		"where validation and test start", s)
	if !ok {
		return c, bad
	}
	for i, word := range []string{valid, test} {
		b := []byte(strings.TrimSpace(word))
		if x, ok := number(b); ok && x > 0 && x < 1 {
			c.shares[i] = x
			continue
		}
		t, ok := moment(b)
		if !ok || i == 1 && !c.dated {
			return c, bad
		}
		c.moments[i], c.dated = t, true
	}
	if c.dated && c.shares != [2]float64{} {
		return c, bad
	}
	if c.dated && c.moments[0] >= c.moments[1] || !c.dated && c.shares[0] >= c.shares[1] {
		return c, fmt.Errorf("time cut %q: validation must start before test", s)
	}
	return c, nil
}

// moment reads a date or Unix seconds. The order of day and month must be clear.
func moment(b []byte) (int64, bool) {
	if t, ok := integer(b); ok && len(b) > 8 {
		return t, true
	}
	var s stamp
	if !s.parse(b) || s.shape == slashShape {
		return 0, false
	}
	t, _, ok, _ := s.moments()
	return floor(t, perSecond), ok
}

// String returns the text that ParseCut parses.
func (c Cut) String() string { return c.text }

// at returns the moments of the cut in sorted times.
func (c Cut) at(sorted []int64) (valid, test int64) {
	if c.dated {
		return c.moments[0], c.moments[1]
	}
	shares, n := c.shares, float64(len(sorted))
	if shares == [2]float64{} {
		shares = [2]float64{validShare, testShare}
	}
	return sorted[int(shares[0]*n)], sorted[int(shares[1]*n)]
}

// WithCut returns the set with a hash that depends on the cut.
func (s *Set) WithCut(c Cut) *Set {
	if c == (Cut{}) {
		return s
	}
	out := *s
	out.Meta.Hash = hashWith(s.Meta.Hash, "time cut "+c.text)
	return &out
}

// WithAllTest returns the set with a hash that depends on Protocol.AllTest: the results do not compare with others.
func (s *Set) WithAllTest() *Set {
	out := *s
	out.Meta.Hash = hashWith(s.Meta.Hash, "all test rows")
	return &out
}

// CheckTested returns an error if no user has train and test rows, in a split by time or by files: all metrics would
// be 0.
func (s *Split) CheckTested() error {
	if s.Split != TimeCut && s.Split != byFiles || s.tests() {
		return nil
	}
	if s.Split == byFiles {
		return fmt.Errorf("no user of %s is in the train file and in the test file; both must name users in the same "+
			"way", s.Info().Name)
	}
	return fmt.Errorf("under protocol %s, validation starts at %s and test at %s, and no user of %s has rows before "+
		"the first and from the second on, so that nobody is tested; use %s", s.Name, momentText(s.validFrom),
		momentText(s.testFrom), s.Info().Name, s.otherCut())
}

// tests reports whether a user has train and test rows, in a split by time or by files.
func (s *Split) tests() bool {
	var h History
	for u := range s.Users() {
		s.History(u, &h)
		if valid, test := s.bounds(u, &h); valid > 0 && test < len(h.Items) {
			return true
		}
	}
	return false
}

// otherCut returns the flag of a split that tests users.
func (s *Split) otherCut() string {
	for _, text := range []string{"0.7,0.85", "0.6,0.8", "0.5,0.75", "0.4,0.7", "0.3,0.6", "0.2,0.5", "0.1,0.4"} {
		other := *s
		var err error
		if other.Cut, err = ParseCut(text); err == nil && other.cut() == nil && other.tests() {
			return "--time-cut " + text
		}
	}
	return "--protocol deployed"
}
