package coordinator

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/openmetrics/metricstest"
	"github.com/tacit-rec/tacit/internal/pb"
)

// metrics are those of a coordinator, read strictly.
func (r *harness) metrics() map[string]*metricstest.Family {
	r.t.Helper()
	var b strings.Builder
	if err := r.c.WriteMetrics(&b, true); err != nil {
		r.t.Fatal(err)
	}
	all, err := metricstest.Parse(b.String())
	if err != nil {
		r.t.Fatalf("%v\n%s", err, b.String())
	}
	return all
}

func TestMetricsOfARun(t *testing.T) {
	t.Parallel()
	s := withDP(small(4), "epsilon=50,delta=1e-3,clip=0.5")
	s.Rounds, s.Deadline = 2, 100*time.Millisecond
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	r.play(d, 2)
	waitFor(t, "the end", func() bool { return r.c.Status().State == Finished })
	_, err := r.newDevice("a stranger").CheckIn(context.Background(), &pb.CheckInRequest{})
	r.refused(err, "unknown_key")
	all := r.metrics()
	value := func(family, sample string, labels ...string) float64 {
		t.Helper()
		f := all[family]
		if f == nil {
			t.Fatalf("%s is missing", family)
		}
		for _, s := range f.Samples {
			ok := s.Name == family+sample
			for i := 0; i < len(labels); i += 2 {
				ok = ok && s.Labels[labels[i]] == labels[i+1]
			}
			if ok {
				return s.Value
			}
		}
		t.Fatalf("%s%s has no sample with %v: %+v", family, sample, labels, f.Samples)
		return 0
	}
	for _, c := range []struct {
		got, want float64
		name      string
	}{
		{value("tacit_state", "", "state", "finished"), 1, "finished"},
		{value("tacit_state", "", "state", "training"), 0, "training"},
		{value("tacit_round", ""), 2, "round"},
		{value("tacit_run_number", ""), 1, "run"},
		{value("tacit_model_version", ""), 3, "version"},
		{value("tacit_devices_enrolled", ""), 4, "devices"},
		{value("tacit_round_duration_seconds", "_count"), 2, "rounds"},
		{value("tacit_events", "_total", "event", "enrolled"), 4, "enrolled"},
		{value("tacit_requests_refused", "_total", "code", "unknown_key"), 1, "refused"},
		{value("tacit_privacy_epsilon_budget", ""), 50, "budget"},
		{value("tacit_privacy_delta", ""), 1e-3, "delta"},
		{value("tacit_privacy_epsilon_spent", ""), *r.c.Status().Epsilon, "epsilon"},
		{value("tacit_build_info", ""), 1, "build"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %g, want %g", c.name, c.got, c.want)
		}
	}
	if n := value("tacit_request_duration_seconds", "_count", "call", "Report"); n < 8 {
		t.Errorf("%g reports were measured, want 8", n)
	}
}

// Labels have few values, all of them from the program's own lists, whatever devices and strangers send.
func TestMetricsHaveNoLabelsFromOutside(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.enrolled(2)
	for _, path := range []string{"nothing", "devices/17", "%2e%2e"} {
		r.raw("GET", path, "operator", "", "")
		r.raw("POST", "../../tacit.v1.Federation/"+path, "operator", "application/proto", "")
	}
	allowed := map[string]string{
		"state": "tacit_state", "event": "tacit_events", "code": "tacit_requests_refused",
		"call": "tacit_request_duration_seconds", "version": "tacit_build_info", "revision": "tacit_build_info",
		"go_version": "tacit_build_info", "le": "",
	}
	for name, f := range r.metrics() {
		if len(f.Samples) > 16*len(calls) {
			t.Errorf("%s has %d samples", name, len(f.Samples))
		}
		for _, s := range f.Samples {
			for label, value := range s.Labels {
				if family, ok := allowed[label]; !ok || family != "" && family != name {
					t.Errorf("%s has the label %s", name, label)
				}
				if strings.Contains(value, "17") && label != "version" || strings.Contains(value, "nothing") {
					t.Errorf("%s has %s=%q", name, label, value)
				}
			}
		}
	}
}

// A lock that is held for ever makes a coordinator unhealthy; when it is released, it is healthy again.
func TestHealthNoticesAWedge(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	if err := r.c.Healthy(patience); err != nil {
		t.Fatal(err)
	}
	r.c.mu.Lock()
	for range 3 {
		if err := r.c.Healthy(10 * time.Millisecond); err == nil {
			t.Error("it is healthy while a lock is held")
		}
	}
	r.c.mu.Unlock()
	if err := r.c.Healthy(patience); err != nil {
		t.Error(err)
	}
	r.c.noteEnd(errCut)
	if err := r.c.Healthy(patience); err == nil {
		t.Error("it is healthy after its loop failed")
	}
}

func TestReadyNeedsARunAndAWritableFolder(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	t.Setenv(DiskFullVariable, full)
	r := open(t, filepath.Join(t.TempDir(), "state"), nil, func(o *Options) { o.probe = 10 * time.Millisecond })
	if err := r.c.Ready(); err == nil || !strings.Contains(err.Error(), "no run") {
		t.Errorf("without a run: %v", err)
	}
	if err := r.c.Begin(small(2), stock(10)); err != nil {
		t.Fatal(err)
	}
	if err := r.c.Ready(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(full, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.c.admin.health.probed = time.Time{}
	if err := r.c.Ready(); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("a folder that cannot be written: %v", err)
	}
	waitFor(t, "the state", func() bool { return r.c.Status().State == DiskFull }) // although nobody writes
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	r.c.admin.health.probed = time.Time{}
	waitFor(t, "the end of the state", func() bool { return r.c.Ready() == nil })
}

// A cohort that is a secret sample is secret from read-only operators and from monitors too.
func TestReadOnlyOperatorsDoNotSeeTheSample(t *testing.T) {
	s := withDP(small(8), "epsilon=50,delta=1e-3,clip=0.5")
	s.Cohort, s.Deadline = round.Cohort{Kind: "count", Count: 4}, time.Minute
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	for _, h := range r.enrolled(8) {
		h.check()
	}
	waitFor(t, "the round", func() bool { return r.c.collection.OpenRound() != nil })
	token, err := r.c.admin.operators.Add("viewer", true, r.c.now())
	if err != nil {
		t.Fatal(err)
	}
	get := func(call string) (int, string) {
		q, err := http.NewRequest(http.MethodGet, inMemory+"/admin/v1/"+call, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		a, err := (&http.Client{Transport: r.wire}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(b)
	}
	if code, text := get("counted?round=0"); code != http.StatusForbidden {
		t.Errorf("counted: %d %s", code, text)
	}
	code, text := get("status")
	if code != http.StatusOK || !strings.Contains(text, `"expected":0`) {
		t.Errorf("status: %d %s", code, text)
	}
	stages := (&dashboardSource{c: r.c}).Snapshot().Open
	if stages == nil || stages.Selected != 0 || stages.Reported != 0 {
		t.Errorf("the dashboard shows %+v of the sample", stages)
	}
	for _, d := range r.c.Devices(0, 10).Devices { // a report moves the time
		if !d.LastSeen.Equal(d.LastSeen.Truncate(time.Hour)) {
			t.Errorf("device %d was seen at %v", d.ID, d.LastSeen)
		}
	}
	if all := r.metrics(); all["tacit_round_reports"] != nil || all["tacit_round_reports_expected"] != nil {
		t.Error("the metrics show the sample")
	}
}

// The metrics show every state: allStates has all constants of type State.
func TestMetricsKnowAllStates(t *testing.T) {
	constant := regexp.MustCompile(`(?m)^\t(\w+)\s+(?:State\s+= |= State\()`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constant.FindAllStringSubmatch(string(b), -1) {
			names = append(names, m[1])
		}
	}
	known := map[State]bool{}
	for _, s := range allStates {
		known[s] = true
	}
	if len(names) < 18 || len(known) != len(names) || len(allStates) != len(names) {
		t.Errorf("the constants of type State are %v, and allStates has %d: %v", names, len(allStates), allStates)
	}
}
