package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// addedLater lists the options that were added after the first release. At its default such an option
// changes nothing and is omitted from fingerprints, so that runs from before are found and resumed.
// Add every new field of sim.Options here.
var addedLater = []string{"dp", "secagg", "encode", "keep", "new-users", "sums", "time-ties"}

// OldDefaults returns the settings of run folders that were written before a setting existed, if its
// default is different now: integer sums had full width before the setting bits, and one test row of a user was ranked
// before test-rows.
func OldDefaults() []Setting {
	const from = "default of an older version"
	return []Setting{{Key: "bits", Value: "0", From: from}, {Key: "test-rows", Value: "first", From: from}}
}

func (j *Job) fingerprint() string { return j.Fingerprint(j.Source.Info().Hash) }

// Fingerprint identifies everything that determines the result of a run on data with the given hash.
func (s *Spec) Fingerprint(data string) string {
	return fingerprint(s.Method, param.Values(s.Params), param.Values(&s.Options), s.Protocol, s.Seed, data)
}

func fingerprint(method string, params, options map[string]any, protocol string, seed uint64, data string) string {
	p, _ := json.Marshal(params)
	o, _ := json.Marshal(stableOptions(options))
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %d %s", method, p, o, protocol, seed, data))
	return hex.EncodeToString(sum[:])
}

// stableOptions returns options as the first release would write them: without options that were added
// later and have their default, and with the old names of values.
func stableOptions(options map[string]any) map[string]any {
	var o sim.Options
	param.Defaults(&o)
	defaults, out := param.Values(&o), maps.Clone(options)
	for _, key := range addedLater {
		if fmt.Sprint(out[key]) == fmt.Sprint(defaults[key]) {
			delete(out, key)
		}
	}
	if c := fmt.Sprint(out["cohort"]); strings.HasPrefix(c, "checkin:") {
		out["cohort"] = "come:" + strings.TrimPrefix(c, "checkin:")
	}
	if dp := out["dp"]; dp != nil {
		out["dp"] = strings.NewReplacer("trust=", "against=", "min-devices=", "least=").Replace(fmt.Sprint(dp))
	}
	// The number of evaluated users was a number; 0, its default, evaluated everybody.
	if text := fmt.Sprint(out["eval-users"]); text == "auto" {
		out["eval-users"] = 0
	} else if n, err := strconv.Atoi(text); err == nil {
		out["eval-users"] = n
	}
	// Bits apply to integer sums without a privacy guarantee, which had full width before.
	if fmt.Sprint(out["bits"]) == "0" || out["sums"] == nil || out["dp"] != nil {
		delete(out, "bits")
	}
	return out
}

// same returns an error if a finished run has other settings or data than the job.
func (j *Job) same(r *result.Result) error {
	if fingerprint(r.Method, r.Params, r.Options, r.Protocol, r.Seed, r.DataHash) == j.fingerprint() {
		return nil
	}
	return AsInput(fmt.Errorf("%s holds a finished run with other settings or other data", j.Out),
		"choose another folder, or use --force to replace it")
}
