package main

import (
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/param"
)

// The texts of play say that its last run is the default method at half its width, with half of its training passes.
func TestPlayTrainsTheDefaultMethodAtHalfItsSize(t *testing.T) {
	resolve := func(words string) *experiment.Spec {
		given, err := experiment.Assignments(strings.Fields(words+" data=world preset=built-in"), "play")
		if err != nil {
			t.Fatal(err)
		}
		spec, err := experiment.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	full, small := resolve(""), resolve(playRuns[len(playRuns)-1])
	if small.Method != full.Method {
		t.Fatalf("play ends with %s; the default is %s", small.Method, full.Method)
	}
	want, got := param.Values(full.Params), param.Values(small.Params)
	for _, key := range []string{"rank", "width", "train"} {
		if 2*got[key].(int) != want[key].(int) {
			t.Errorf("%s=%v is not half of the default %v", key, got[key], want[key])
		}
	}
}
