package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/fleet"
)

// Ten days with one run a day, while devices leave and join: the privacy budget of each device is the
// composition of the releases since it enrolled, and the state does not grow by more than what is
// documented. tacit fleet --days 365 is the same for a year.
func TestTenDaysOfAFederation(t *testing.T) {
	code, out, errs := tacit("fleet", "--format", "json", "-q", "-d", "world", "--world",
		"users=50,items=40,mean-rows=8", "-m",
		"fedmf", "--rounds", "1", "--dp", "epsilon=8,delta=1e-4", "--deadline", "10m", "--days", "10", "--churn",
		"0.04")
	var v struct{ Data fleet.DaysResult }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK {
		t.Fatalf("exit %d: %v\n%s%s", code, err, out, errs)
	}
	d := v.Data
	if d.Runs != 10 || d.Left != 18 || d.Joined != 68 || d.Reports < 300 || d.Checked != 50 || len(d.Wrong) > 0 {
		t.Errorf("%+v", d)
	}
	if d.Epsilon == nil || *d.Epsilon > 8*(1+1e-9) || *d.Epsilon < 7 {
		t.Errorf("the budget spent is %v", d.Epsilon)
	}
	if last := d.Growth[len(d.Growth)-1]; last.Folder > 20<<20 || last.Ledger > 20<<10 {
		t.Errorf("after ten days: %+v", last)
	}
}

// Without a privacy guarantee any number of runs may follow each other.
func TestDaysWithoutAPrivacyGuarantee(t *testing.T) {
	code, out, errs := tacit("fleet", "-q", "-d", "world", "--world", "users=50,items=40,mean-rows=8", "--users", "5",
		"--rounds", "1", "--days", "2")
	if code != exitOK || !strings.Contains(out, "2 runs") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
