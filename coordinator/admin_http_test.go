package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// raw makes a call as curl would.
func (r *harness) raw(method, path, token, contentType, body string) (status int, text string) {
	r.t.Helper()
	q, err := http.NewRequest(method, inMemory+rpc.AdminPrefix+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	if contentType != "" {
		q.Header.Set("Content-Type", contentType)
	}
	a, err := r.wire.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

func TestAdminAPIRefusesWhatItDoesNotKnow(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	const json = "application/json"
	for _, c := range []struct {
		method, path, token, kind, body string
		status                          int
		want                            string
	}{
		{"GET", "status", "operator", "", "", 200, `"name":"small"`},
		{"GET", "status", "guess", "", "", 401, `"code":"bad_token"`},
		{"GET", "stauts", "operator", "", "", 404, "unknown call /admin/v1/stauts: docs/admin-api.md"},
		{"POST", "status", "operator", json, "", 405, "use GET"},
		{"GET", "pause", "operator", "", "", 405, "use POST"},
		{"GET", "export?versoin=1", "operator", "", "", 400, `unknown parameter \"versoin\": must be one of version`},
		{"GET", "counted?round=x", "operator", "", "", 400, `round = \"x\": must be an integer`},
		{"POST", "pause", "operator", "text/plain", "{}", 400, "content type"},
		{"POST", "pause", "operator", json, `{"now":true}`, 400, `unknown field \"now\"`},
		{"POST", "pause", "operator", json, `{} {}`, 400, "text after the JSON object"},
		{"POST", "rollback", "operator", json, `{"version":99}`, 404, `"code":"not_found"`},
		{"POST", "devices/revoke", "operator", json, `{"device_id":7}`, 404, "device 7 is not enrolled"},
		{"POST", "devices/readmit", "operator", json, `{"device_id":7}`, 404, "device 7 is not enrolled"},
		{"POST", "operators", "operator", json, `{"name":"Not a name"}`, 400, "lower-case letters"},
		{"POST", "runs", "operator", json, `{"settings":{"method":"fedmf","deadline":"soon"}}`, 400, "such as 30s"},
		{"POST", "runs", "operator", json, `{"settings":{"metod":"fedmf"}}`, 400, `unknown field`},
		{"POST", "runs", "operator", json, `{"settings":{"rounds":9}}`, 409, "has a run"},
		{"POST", "runs", "operator", json, "", 409, "tacit admin end"},
		{"POST", "pause", "operator", json, "", 200, `"paused":true`},
	} {
		status, text := r.raw(c.method, c.path, c.token, c.kind, c.body)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: %d %s\nwant %d %s", c.method, c.path, c.body, status, text, c.status, c.want)
		}
		if strings.Contains(text, "0000000") {
			t.Errorf("%s %s: a time in nanoseconds: %s", c.method, c.path, text)
		}
	}
}

// An operator who may only read changes nothing and exports nothing, and attempts are recorded.
func TestReadOnlyOperatorsOnlyRead(t *testing.T) {
	ctx := context.Background()
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	token, err := r.admin.AddOperator(ctx, "grafana", true)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"status": 200, "audit": 200, "operators": 200, "export": 403} {
		if status, text := r.raw("GET", path, token, "", ""); status != want {
			t.Errorf("GET %s: %d %.200s", path, status, text)
		}
	}
	if status, text := r.raw("POST", "pause", token, "application/json", ""); status != 403 || r.c.requests.paused() ||
		!strings.Contains(text, `"code":"forbidden"`) {
		t.Errorf("POST pause: %d %s", status, text)
	}
	r.stop()
	r = open(t, dir, nil, nil) // names and rights are on disk
	if status, _ := r.raw("GET", "status", token, "", ""); status != 200 {
		t.Errorf("after a start: %d", status)
	}
	if err := r.admin.RemoveOperator(ctx, "grafana"); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.raw("GET", "status", token, "", ""); status != 401 {
		t.Errorf("after its removal: %d", status)
	}
	log, err := r.admin.Audit(ctx, 100)
	if err != nil || !log.OK || log.Lines != 8 {
		t.Fatalf("%+v, %v", log, err)
	}
	var got []string
	for _, e := range log.Entries {
		if e.Outcome != "started" {
			got = append(got, e.Operator+" "+e.Name+" "+e.Outcome)
		}
	}
	all := strings.Join(got, "; ")
	for _, want := range []string{
		"local POST operators ok", "grafana GET export forbidden", "grafana POST pause forbidden",
		"local POST operators/remove ok",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the audit log has %q, want %q in it", all, want)
		}
	}
	if text, _ := json.Marshal(log); strings.Contains(string(text), token) {
		t.Error("the audit log holds a token")
	}
}

// A run begins with curl: settings that are missing have their defaults.
func TestARunBeginsWithAFewSettings(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "state"), nil, nil)
	if status, text := r.raw("POST", "pause", "operator", "application/json", ""); status != 409 ||
		!strings.Contains(text, "no run has begun") {
		t.Errorf("%d %s", status, text)
	}
	body := `{"settings":{"name":"films","method":"fedmf","params":{"dim":"4"},"devices":20,"rounds":7,
		"deadline":"10m"},"items":[{"id":"a","title":"A"},{"id":"b"}]}`
	if status, text := r.raw("POST", "runs", "operator", "application/json", body); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	s := r.c.settings()
	if s.Rounds != 7 || s.Devices != 20 || s.Batch != 256 || s.Goal != 1 || s.Deadline.Minutes() != 10 ||
		s.Server.Kind != "sgd" || r.c.Status().Items != 2 {
		t.Errorf("settings %+v", s)
	}
}

// A start warns of an audit log that was changed, and the metrics show it; training continues.
func TestAStartNoticesAChangedAuditLog(t *testing.T) {
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	if _, err := r.admin.AddOperator(context.Background(), "grafana", true); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for _, damaged := range []bool{false, true} {
		path := filepath.Join(dir, "audit.jsonl")
		b, err := os.ReadFile(path)
		if err == nil && damaged {
			err = os.WriteFile(path, bytes.Replace(b, []byte("grafana"), []byte("grafanb"), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		warning := ""
		r := open(t, dir, nil, func(o *Options) { o.Warn = func(text string) { warning += text } })
		var metrics bytes.Buffer
		if err := r.c.WriteMetrics(&metrics, true); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(warning, "of the audit log was changed") != damaged ||
			strings.Contains(metrics.String(), "\ntacit_audit_ok 0") != damaged {
			t.Errorf("damaged %t: warning %q", damaged, warning)
		}
		r.stop()
	}
}

// When devices were last seen survives a stop within the hour.
func TestAStopSavesWhenDevicesWereLastSeen(t *testing.T) {
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.enrolled(2)[1].check()
	r.stop()
	r = open(t, dir, nil, nil)
	if all := r.c.devices.Devices(time.Now(), 0, 10); len(all) != 2 || all[1].LastSeen == nil {
		t.Errorf("after a restart: %+v", all)
	}
}
