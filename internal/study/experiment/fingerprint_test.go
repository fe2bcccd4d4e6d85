package experiment

import (
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/param"
)

func TestARunFromBeforeASettingExistedIsTheSame(t *testing.T) {
	resolve := func(words ...string) *Spec {
		given, err := Assignments(append([]string{"method=fedmf", "data=world"}, words...), "test")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := resolve()
	want := s.Fingerprint("hash")
	old := param.Values(&s.Options)
	for _, key := range addedLater {
		if !slices.Contains(param.Keys(&s.Options), key) {
			t.Fatalf("%s is not a setting of a run", key)
		}
		delete(old, key)
		if got := fingerprint(s.Method, param.Values(s.Params), old, s.Protocol, s.Seed, "hash"); got != want {
			t.Errorf("a run without %s is another", key)
		}
	}
	for _, words := range [][]string{
		{"dp=epsilon=8"},
		{"dp=epsilon=8", "secagg=on"},
		{"encode=sparse"},
		{"keep=int8"},
		{"sums=integer"},
		{"new-users=0.1"},
		{"rounds=7"},
		{"seed=2"},
	} {
		other := resolve(words...).Fingerprint("hash")
		if other == want {
			t.Errorf("%v is the same run", words)
		}
	}
	wide := resolve("sums=integer", "bits=0")
	old = param.Values(&wide.Options)
	delete(old, "bits")
	if fingerprint(wide.Method, param.Values(wide.Params), old, wide.Protocol, wide.Seed,
		"hash") != wide.Fingerprint("hash") {
		t.Error("a run of integer sums from before they had bits is another than one of bits=0")
	}
	if resolve("sums=integer").Fingerprint("hash") == wide.Fingerprint("hash") ||
		resolve("bits=20").Fingerprint("hash") != want {
		t.Error("bits do not count with sums=integer, or count without")
	}
	if resolve("dp=epsilon=8").Fingerprint("hash") == resolve("dp=epsilon=8", "secagg=on").Fingerprint("hash") {
		t.Error("secagg does not count")
	}
}

// The values of run folders from before a key was renamed must keep their fingerprint.
func TestARenamedKeyKeepsTheFingerprint(t *testing.T) {
	options := func(dp string) map[string]any { return map[string]any{"dp": dp, "cohort": "all"} }
	old := fingerprint("fedmf", nil, options("epsilon=8,against=distributed,least=5"), "deployed", 1, "hash")
	if now := fingerprint("fedmf", nil, options("epsilon=8,trust=distributed,min-devices=5"), "deployed", 1,
		"hash"); now != old {
		t.Errorf("the fingerprint is %s, was %s", now, old)
	}
}

// The number of evaluated users was a number before it could be a word.
func TestEvaluatedUsersKeepTheFingerprint(t *testing.T) {
	for _, c := range []struct {
		words []string
		old   any
	}{{nil, 0}, {nil, 0.0}, {[]string{"eval-users=50"}, 50}} {
		given, err := Assignments(append([]string{"method=pfedrec", "data=world"}, c.words...), "test")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		old := param.Values(&s.Options)
		old["eval-users"] = c.old
		if fingerprint(s.Method, param.Values(s.Params), old, s.Protocol, s.Seed, "hash") != s.Fingerprint("hash") {
			t.Errorf("%v: a run from before, with eval-users %v, has another fingerprint", c.words, c.old)
		}
	}
}
