package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// cameLater are settings of a run that came when there were runs already. At its default
// such a setting changes nothing, and is left out of fingerprints: a run that was kept
// without it is found and resumed. Who adds a setting to sim.Options adds it here.
var cameLater = []string{"dp", "secagg", "encode", "keep", "new-users", "sums"}

// OldDefaults are the settings that a run folder without them was made with, where that is not
// what is the default now: integer sums were wide before they had bits.
func OldDefaults() []Setting {
	return []Setting{{Key: "bits", Value: "0", From: "a run folder from before it"}}
}

func (j *Job) fingerprint() string { return j.Fingerprint(j.Source.Info().Hash) }

// Fingerprint names everything that decides the bits of a run, on data with the
// given hash.
func (s *Spec) Fingerprint(data string) string {
	return fingerprint(s.Method, param.Values(s.Params), param.Values(&s.Options), s.Protocol, s.Seed, data)
}

func fingerprint(method string, params, options map[string]any, protocol string, seed uint64, data string) string {
	p, _ := json.Marshal(params)
	o, _ := json.Marshal(asBefore(options))
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %d %s", method, p, o, protocol, seed, data))
	return hex.EncodeToString(sum[:])
}

// asBefore leaves out what came later and is at its default.
func asBefore(options map[string]any) map[string]any {
	var o sim.Options
	param.Defaults(&o)
	defaults, out := param.Values(&o), maps.Clone(options)
	for _, key := range cameLater {
		if fmt.Sprint(out[key]) == fmt.Sprint(defaults[key]) {
			delete(out, key)
		}
	}
	// Run folders from before call checkin cohorts by their old name.
	if c := fmt.Sprint(out["cohort"]); strings.HasPrefix(c, "checkin:") {
		out["cohort"] = "come:" + strings.TrimPrefix(c, "checkin:")
	}
	// Bits are of integer sums without a promise, and those were wide before.
	if fmt.Sprint(out["bits"]) == "0" || out["sums"] == nil || out["dp"] != nil {
		delete(out, "bits")
	}
	return out
}

// same reports whether a finished run is the one that the settings describe.
func (j *Job) same(r *result.Result) error {
	if fingerprint(r.Method, r.Params, r.Options, r.Protocol, r.Seed, r.DataHash) == j.fingerprint() {
		return nil
	}
	return AsInput(fmt.Errorf("%s holds a finished run with other settings or other data", j.Out),
		"give another folder, or --force to replace it")
}
