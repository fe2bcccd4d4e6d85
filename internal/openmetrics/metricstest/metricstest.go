// Package metricstest reads the text of package openmetrics, strictly, for tests.
package metricstest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Family is a family of metrics.
type Family struct {
	Kind, Unit, Help string
	Samples          []Sample
}

// Sample is a sample of a family.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

var (
	commentLine = regexp.MustCompile(`^# (TYPE|UNIT|HELP) ([a-z_][a-z0-9_]*) (.+)$`)
	sampleLine  = regexp.MustCompile(`^([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)$`)
	labelPair   = regexp.MustCompile(`^([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)`)
)

// Parse reads a text of OpenMetrics as its specification says: families are contiguous, a family has its
// metadata before its samples and each kind of it once, suffixes fit the type, and the text ends with # EOF.
func Parse(text string) (map[string]*Family, error) {
	body, ok := strings.CutSuffix(text, "# EOF\n")
	if !ok {
		return nil, fmt.Errorf("the text does not end with # EOF")
	}
	out := map[string]*Family{}
	current := ""
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		if m := commentLine.FindStringSubmatch(line); m != nil {
			f := out[m[2]]
			if f == nil {
				f = &Family{}
				out[m[2]], current = f, m[2]
			}
			field := map[string]*string{"TYPE": &f.Kind, "UNIT": &f.Unit, "HELP": &f.Help}[m[1]]
			if current != m[2] || *field != "" || len(f.Samples) > 0 {
				return nil, fmt.Errorf("line %d: %s is out of place: %s", i+1, m[1], line)
			}
			*field = m[3]
			continue
		}
		s, err := parseSample(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		f := out[current]
		suffix, ok := strings.CutPrefix(s.Name, current)
		if f == nil || !ok || !fits(f.Kind, suffix) {
			return nil, fmt.Errorf("line %d: %s is not a sample of %s", i+1, s.Name, current)
		}
		f.Samples = append(f.Samples, s)
	}
	return out, nil
}

func fits(kind, suffix string) bool {
	switch kind {
	case "counter":
		return suffix == "_total"
	case "gauge":
		return suffix == ""
	case "histogram":
		return suffix == "_bucket" || suffix == "_sum" || suffix == "_count"
	}
	return false
}

func parseSample(line string) (Sample, error) {
	m := sampleLine.FindStringSubmatch(line)
	if m == nil {
		return Sample{}, fmt.Errorf("malformed sample %q", line)
	}
	s := Sample{Name: m[1], Labels: map[string]string{}}
	for rest := m[2]; rest != ""; {
		l := labelPair.FindStringSubmatch(rest)
		if l == nil {
			return s, fmt.Errorf("malformed labels %q", m[2])
		}
		if _, again := s.Labels[l[1]]; again {
			return s, fmt.Errorf("label %s is there twice", l[1])
		}
		s.Labels[l[1]] = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`).Replace(l[2])
		rest = rest[len(l[0]):]
	}
	var err error
	s.Value, err = strconv.ParseFloat(m[3], 64)
	return s, err
}
