package experiment

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// The tested difference is that of the metrics in the table, under every kind of protocol; tests that
// are computed from the folder are the same.
func TestEveryReferenceIsTestedOnTheUsersOfTheTable(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, words := range [][]string{
		{"method=pfedrec", "protocol=deployed"},
		{"method=pfedrec", "protocol=paper", "ties=expected", "eval-users=50"},
		{"method=fofl-self", "protocol=privrec"},
	} {
		dir := filepath.Join(t.TempDir(), "r")
		spec, err := Resolve(settings(append(words, "data=world", "world=users=120,items=300,mean-rows=20",
			"rounds=3")...))
		if err != nil {
			t.Fatal(err)
		}
		src, err := OpenData(&spec.Settings, "")
		if err != nil {
			t.Fatal(err)
		}
		job := &Job{Spec: spec, Source: src, Jobs: 2, Out: dir}
		res, err := job.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, ref := range res.References {
			if ref.Versus == nil {
				t.Fatalf("%v: %s is not tested", words, name)
			}
			for key, p := range ref.Versus.Sampled {
				if want := res.Test.Sampled[key] - ref.Test.Sampled[key]; math.Abs(p.Difference-want) > 1e-6 ||
					p.PHolm < p.P {
					t.Errorf("%v: %s by %s: %+v, the table differs by %g", words, name, key, p, want)
				}
			}
			if (ref.Versus.Full == nil) != (res.Test.Full == nil) ||
				ref.Versus.Users != int(res.Test.Sampled["users"]) {
				t.Errorf("%v: %s is tested on %d users of %g, full %v", words, name, ref.Versus.Users,
					res.Test.Sampled["users"], ref.Versus.Full)
			}
		}
		loaded, err := result.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range result.VersusReferences([]*result.Result{loaded.Result}) {
			if v.Verdict != res.References[name].Versus.Verdict || v.Users != res.References[name].Versus.Users {
				t.Errorf("%v: the folder says %+v, the run %+v", words, v, res.References[name].Versus)
			}
		}
		// The second run takes its references from the cache.
		first, err := os.ReadFile(filepath.Join(dir, perUserReferencesFile))
		if err != nil {
			t.Fatal(err)
		}
		job.Force = true
		if _, err := job.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again, err := os.ReadFile(filepath.Join(dir, perUserReferencesFile)); err != nil ||
			!bytes.Equal(again, first) {
			t.Errorf("%v: references from the cache have other users (%v)", words, err)
		}
	}
}

// Data that is generated user by user has no reference rows, and no data per user is held.
func TestALargeWorldHoldsNothingForEachUser(t *testing.T) {
	spec, err := Resolve(settings("data=world", "world=users=210000,items=100,mean-rows=20", "cohort=50", "rounds=1",
		"eval-users=40"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := OpenData(&spec.Settings, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, in := src.(*data.Set); in {
		t.Fatal("the world is held in memory: make it larger")
	}
	res, err := (&Job{Spec: spec, Source: src, Jobs: 2}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if res.UserScores != nil || res.References["popularity"].Versus != nil ||
		res.References["popularity"].Reason == "" {
		t.Errorf("a world of %d users has %+v, popularity %+v", res.Users, res.UserScores, res.References["popularity"])
	}
}
