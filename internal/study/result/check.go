package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// Limits on names and settings.
const (
	maxName     = 200
	maxSettings = 200
)

// check reports the first invalid value of a loaded result.
func (r *Result) check() error {
	if r.Method == "" || r.Dataset == "" || r.Protocol == "" {
		return fmt.Errorf("method is %q, dataset is %q, protocol is %q: all three must be set",
			format.Clip(r.Method, 40),
			format.Clip(r.Dataset, 40), format.Clip(r.Protocol, 40))
	}
	for _, s := range []struct{ key, value string }{
		{"method", r.Method},
		{"dataset", r.Dataset},
		{"data_hash", r.DataHash},
		{"protocol", r.Protocol},
		{"version", r.Version},
		{"commit", r.Commit},
	} {
		if len(s.value) > maxName {
			return fmt.Errorf("%s has %d bytes, expected at most %d", s.key, len(s.value), maxName)
		}
	}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"rounds", r.Rounds},
		{"selected_round", r.SelectedRound},
		{"users", r.Users},
		{"items", r.Items},
		{"interactions", r.Interactions},
		{"dropped", r.Dropped},
		{"late", r.Late},
		{"test_items_in_train", r.TestItemsInTrain},
		{"users_with_few_candidates", r.FewCandidates},
		{"evaluated_sample", r.EvaluatedSample},
		{"idle_devices", r.IdleDevices},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s is %d, expected 0 or more", n.key, n.value)
		}
	}
	if r.SelectedRound > r.Rounds {
		return fmt.Errorf("selected_round is %d, expected at most %d", r.SelectedRound, r.Rounds)
	}
	if n := max(len(r.Params), len(r.Options), len(r.References)); n > maxSettings {
		return fmt.Errorf("params, options or references has %d entries, expected at most %d", n, maxSettings)
	}
	if err := checkSummaries(&r.Valid, &r.Test); err != nil {
		return err
	}
	if err := r.BestOnTest.check(r.Rounds); err != nil {
		return fmt.Errorf("chosen_on_test.%w", err)
	}
	for _, k := range slices.Sorted(maps.Keys(r.References)) {
		if ref := r.References[k]; ref != nil {
			if err := checkSummaries(ref.Valid, ref.Test); err != nil {
				return fmt.Errorf("references.%s.%w", format.Clip(k, 40), err)
			}
			if err := ref.Versus.check(); err != nil {
				return fmt.Errorf("references.%s.versus: %w", format.Clip(k, 40), err)
			}
		}
	}
	return nil
}

func (c *BestOnTest) check(rounds int) error {
	if c == nil {
		return nil
	}
	if c.Round < 1 || c.Round > rounds {
		return fmt.Errorf("round is %d, expected 1 to %d", c.Round, rounds)
	}
	return checkSummaries(nil, &c.Test)
}

// checkSummaries reports the first metric that is not a fraction.
func checkSummaries(valid, test *metrics.Summary) error {
	for _, s := range []struct {
		name string
		sum  *metrics.Summary
	}{{"valid", valid}, {"test", test}} {
		if s.sum == nil {
			continue
		}
		for i, m := range []map[string]float64{s.sum.Sampled, s.sum.Full} {
			for _, k := range slices.Sorted(maps.Keys(m)) {
				if v := m[k]; (strings.Contains(k, "@") || k == "mrr") && !(v >= 0 && v <= 1) {
					kind := []string{"sampled", "full"}[i]
					return fmt.Errorf("%s.%s.%s is %g, expected a fraction from 0 to 1", s.name, kind,
						format.Clip(k, 40),
						v)
				}
			}
		}
	}
	return nil
}
