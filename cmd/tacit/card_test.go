package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The card estimates the peak memory of a run within a factor of 1.5.
func TestCardEstimatesMemory(t *testing.T) {
	if _, err := os.Stat(filepath.Join(realData, "ml-100k")); realData == "" || err != nil {
		t.Skip("NOT RUN: needs ml-100k in $TACIT_DATA")
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("NOT RUN: the peak is read from /proc")
	}
	for _, c := range [][]string{
		{"-m", "pfedrec", "--eval-every", "50"},
		{"-m", "ials-next"},
		{"-m", "fedrap", "--rounds", "10", "--eval-every", "10"}, // by then a device has most rows of its table
	} {
		words := append([]string{
			"run", "-d", "ml-100k", "-j", "2", "--format", "json", "--no-references",
			"--no-figures",
		}, c...)
		env := []string{"TACIT_DATA=" + realData}
		number := func(key string, more ...string) float64 {
			code, out, errs := child(t, env, append(words, more...)...)
			if code != 0 {
				t.Fatalf("%v: exit %d\n%s", words, code, errs)
			}
			return decode(t, out)["data"].(map[string]any)[key].(float64)
		}
		said, took := number("memory_estimate_bytes", "--dry-run"), number("peak_rss_bytes")
		if took > 1.5*said || said > 1.5*took {
			t.Errorf("%v: the card says %.0f MB, the run takes %.0f MB", c, said/1e6, took/1e6)
		} else {
			t.Logf("%v: the card says %.0f MB, the run takes %.0f MB", c, said/1e6, took/1e6)
		}
	}
}
