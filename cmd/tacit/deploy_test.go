//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/tacit-rec/tacit/internal/openmetrics/metricstest"
)

const deploy = "../../deploy"

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deploy, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readYAML reads the documents of a text.
func readYAML(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if doc != nil {
			out = append(out, doc)
		}
	}
}

// dig finds a value in nested maps and lists: a number is an index.
func dig(v any, path ...any) any {
	for _, key := range path {
		switch at := v.(type) {
		case map[string]any:
			name, _ := key.(string)
			v = at[name]
		case []any:
			i, ok := key.(int)
			if !ok || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// chart renders the templates of the chart as helm does. They use only the functions of text/template.
func chart(t *testing.T, values map[string]any) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "helm/tacit/templates/*"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	all := template.Must(template.New("chart").Option("missingkey=error").ParseFiles(files...))
	meta := readYAML(t, readFile(t, "helm/tacit/Chart.yaml"))[0]
	out := map[string]map[string]any{}
	for _, path := range files {
		if strings.HasPrefix(filepath.Base(path), "_") {
			continue
		}
		var b bytes.Buffer
		err := all.ExecuteTemplate(&b, filepath.Base(path), map[string]any{
			"Values": values, "Release": map[string]any{"Name": "films", "Namespace": "tacit"},
			"Chart": map[string]any{"Name": meta["name"], "AppVersion": meta["appVersion"]},
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".yaml") {
			for _, doc := range readYAML(t, b.String()) {
				key := doc["kind"].(string)
				if name := dig(doc, "metadata", "name").(string); name != "films" {
					key += " " + name
				}
				out[key] = doc
			}
		}
	}
	return out
}

func chartValues(t *testing.T) map[string]any {
	return readYAML(t, readFile(t, "helm/tacit/values.yaml"))[0]
}

func TestChartRenders(t *testing.T) {
	all := chart(t, chartValues(t))
	kinds := slices.Sorted(maps.Keys(all))
	if !slices.Equal(kinds, []string{"NetworkPolicy", "Service", "Service films-metrics", "StatefulSet"}) {
		t.Fatalf("the chart has %v", kinds)
	}
	set := all["StatefulSet"]
	pod := dig(set, "spec", "template", "spec")
	claim := dig(set, "spec", "volumeClaimTemplates", 0, "spec")
	container := dig(pod, "containers", 0)
	for path, want := range map[string][2]any{
		"replicas":   {dig(set, "spec", "replicas"), 1},
		"non-root":   {dig(pod, "securityContext", "runAsNonRoot"), true},
		"uid":        {dig(pod, "securityContext", "runAsUser"), 65532},
		"read-only":  {dig(container, "securityContext", "readOnlyRootFilesystem"), true},
		"privileges": {dig(container, "securityContext", "allowPrivilegeEscalation"), false},
		"dropped":    {dig(container, "securityContext", "capabilities", "drop", 0), "ALL"},
		"liveness":   {dig(container, "livenessProbe", "httpGet", "path"), "/healthz"},
		"readiness":  {dig(container, "readinessProbe", "httpGet", "path"), "/readyz"},
		"storage":    {dig(claim, "resources", "requests", "storage"), "10Gi"},
		"mount":      {dig(container, "volumeMounts", 0, "mountPath"), "/var/lib/tacit"},
	} {
		if want[0] != want[1] {
			t.Errorf("%s is %v, want %v", path, want[0], want[1])
		}
	}
	labels := fmt.Sprint(dig(set, "spec", "selector", "matchLabels"))
	for _, other := range []any{
		dig(set, "spec", "template", "metadata", "labels"), dig(all["Service"], "spec", "selector"),
		dig(all["NetworkPolicy"], "spec", "podSelector", "matchLabels"),
		dig(all["Service films-metrics"], "spec", "selector"),
	} {
		if fmt.Sprint(other) != labels {
			t.Errorf("labels %v do not match %v", other, labels)
		}
	}
	v := chartValues(t)
	v["tls"] = map[string]any{"secretName": "films-tls"}
	v["metrics"] = map[string]any{"port": 9000, "serviceMonitor": true}
	v["networkPolicy"] = map[string]any{"enabled": false, "monitoringNamespace": "x"}
	v["args"] = []any{"--cohort", `a "quoted" word`}
	v["service"] = map[string]any{"type": "LoadBalancer", "port": 443}
	all = chart(t, v)
	public, private := all["Service"], all["Service films-metrics"]
	if dig(public, "spec", "type") != "LoadBalancer" || len(dig(public, "spec", "ports").([]any)) != 1 ||
		dig(public, "spec", "ports", 0, "port") != 443 || dig(private, "spec", "type") != "ClusterIP" ||
		dig(private, "spec", "ports", 0, "port") != 9000 {
		t.Errorf("services for devices %v and for metrics %v", public, private)
	}
	if all["ServiceMonitor"] == nil || all["NetworkPolicy"] != nil {
		t.Errorf("the chart has %v", slices.Sorted(maps.Keys(all)))
	}
	args := fmt.Sprint(dig(all["StatefulSet"], "spec", "template", "spec", "containers", 0, "args"))
	for _, want := range []string{"--metrics :9000", "--cert /etc/tacit/tls/tls.crt", `--cohort a "quoted" word`} {
		if !strings.Contains(args, want) {
			t.Errorf("arguments %s, want %s", args, want)
		}
	}
}

// If helm is installed, its own check and rendering succeed too.
func TestChartWithHelm(t *testing.T) {
	helm, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("helm is not installed; TestChartRenders checks the chart without it")
	}
	for _, words := range [][]string{{"lint"}, {"template", "films"}} {
		c := exec.Command(helm, append(words, filepath.Join(deploy, "helm/tacit"))...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("helm %v: %v\n%s", words, err, out)
		}
	}
}

func TestChartValuesFitTheirSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(readFile(t, "helm/tacit/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	if err := fits(schema, chartValues(t), "values"); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(v map[string]any){
		"root":                 func(v map[string]any) { v["uid"] = 0 },
		"a port as text":       func(v map[string]any) { v["service"].(map[string]any)["port"] = "7633" },
		"a low port":           func(v map[string]any) { v["metrics"].(map[string]any)["port"] = 80 },
		"an unknown key":       func(v map[string]any) { v["replicas"] = 3 },
		"no image":             func(v map[string]any) { delete(v, "image") },
		"a size":               func(v map[string]any) { v["persistence"].(map[string]any)["size"] = "lots" },
		"a number as argument": func(v map[string]any) { v["args"] = []any{1} },
		"a type":               func(v map[string]any) { v["service"].(map[string]any)["type"] = "Other" },
	} {
		v := chartValues(t)
		if change(v); fits(schema, v, "values") == nil {
			t.Errorf("%s fits the schema", name)
		}
	}
}

// fits checks a value against the parts of JSON schema that our schema uses.
func fits(schema map[string]any, v any, at string) error {
	bad := func(rule string) error { return fmt.Errorf("%s = %v: must be %s", at, v, rule) }
	number := func(key string, otherwise int) int {
		if x, ok := schema[key].(float64); ok {
			return int(x)
		}
		return otherwise
	}
	switch want := schema["type"]; x := v.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		if want != "object" {
			return bad(fmt.Sprint(want))
		}
		required, _ := schema["required"].([]any)
		for _, key := range required {
			if _, ok := x[key.(string)]; !ok {
				return bad(fmt.Sprintf("an object with %s", key))
			}
		}
		for key, value := range x {
			sub, ok := properties[key].(map[string]any)
			if !ok && schema["additionalProperties"] == false {
				return fmt.Errorf("%s.%s is unknown", at, key)
			}
			if err := fits(sub, value, at+"."+key); err != nil {
				return err
			}
		}
	case []any:
		if want != "array" {
			return bad(fmt.Sprint(want))
		}
		for i, value := range x {
			if err := fits(schema["items"].(map[string]any), value, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case string:
		pattern, _ := schema["pattern"].(string)
		enum, _ := schema["enum"].([]any)
		if want != "string" || len(x) < number("minLength", 0) || !regexp.MustCompile(pattern).MatchString(x) ||
			enum != nil && !slices.Contains(enum, any(x)) {
			return bad(fmt.Sprintf("%v %v %v", want, pattern, enum))
		}
	case int:
		if want != "integer" || x < number("minimum", x) || x > number("maximum", x) {
			return bad(fmt.Sprint(want))
		}
	case bool:
		if want != "boolean" {
			return bad(fmt.Sprint(want))
		}
	default:
		return bad("known")
	}
	return nil
}

// command is the command line of the image, with other paths and ports.
func imageCommand(t *testing.T, replace ...string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindStringSubmatch(readFile(t, "Dockerfile"))
	var words []string
	if m == nil || json.Unmarshal([]byte(m[1]), &words) != nil {
		t.Fatal("the Dockerfile has no command")
	}
	for i := range words {
		words[i] = strings.NewReplacer(replace...).Replace(words[i])
	}
	return words
}

// The image's command runs as the image's user, in a folder as the image has it, and its health check succeeds. A
// fleet with a privacy guarantee and evaluations then makes it show every metric that alerts and dashboard use.
func TestTheImagesCommandRunsAsItsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may start a process of another user")
	}
	dir := t.TempDir()
	self := filepath.Join(dir, "tacit")
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(self, b, 0o755)
	}
	state := filepath.Join(dir, "state")
	if err == nil {
		err = os.Chmod(filepath.Dir(dir), 0o755) // for the other user
	}
	if err == nil {
		err = os.Mkdir(state, 0o755)
	}
	if err == nil {
		err = os.Chown(state, 65532, 65532)
	}
	if err != nil {
		t.Fatal(err)
	}
	monitor := freeAddress(t)
	words := imageCommand(t, "/var/lib/tacit", state, ":7633", "127.0.0.1:0", ":9633", monitor)
	c := exec.Command(self, words...)
	c.Env = []string{"TACIT_TEST_MAIN=1", "HOME=/", "TMPDIR=" + state}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	health := "http://" + monitor + "/healthz"
	until(t, "the health check", func() bool { code, _, _ := tacit("health", health); return code == 0 })
	folder := filepath.Join(state, "state")
	until(t, "its folder", func() bool { _, err := readLocalAccess(folder); return err == nil })
	code, _, text := tacit("fleet", "-d", "world", "--world", "users=20,items=60,mean-rows=14", "-m", "fedmf",
		"--state", folder, "--rounds", "1", "--dp", "epsilon=50,metrics=5,delta=1e-3", "--eval-every", "1",
		"--deadline", "30s")
	if code != 0 {
		t.Fatalf("exit %d: %s%s", code, text, errs.String())
	}
	status, page := get(t, "http://"+monitor+"/metrics")
	families, err := metricstest.Parse(page)
	if status != 200 || err != nil {
		t.Fatalf("metrics: %d, %v", status, err)
	}
	checkMetricsOf(t, families, "alerts", alertExpressions(t))
	checkMetricsOf(t, families, "dashboard", dashboardExpressions(t))
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("SIGTERM ends it with %v: %s", err, errs.String())
	}
}

// metricNames matches the metrics of an expression.
var metricNames = regexp.MustCompile(`\b(?:tacit|process|go)_[a-z0-9_]+`)

// unseen are metrics that this test's run does not have: popularity is not counted with a privacy guarantee.
var unseen = []string{"tacit_evaluation_popularity_hit_ratio"}

func checkMetricsOf(t *testing.T, families map[string]*metricstest.Family, where string, all []string) {
	t.Helper()
	known := map[string]bool{}
	for name, f := range families {
		switch f.Kind {
		case "counter":
			known[name+"_total"] = true
		case "histogram":
			known[name+"_bucket"], known[name+"_count"], known[name+"_sum"] = true, true, true
		default:
			known[name] = true
		}
	}
	if len(all) < 10 {
		t.Errorf("%s has only %d expressions", where, len(all))
	}
	for _, expression := range all {
		names := metricNames.FindAllString(expression, -1)
		if len(names) == 0 && !strings.Contains(expression, "up{") {
			t.Errorf("%s: %s names no metric", where, expression)
		}
		for _, name := range names {
			if !known[name] && !slices.Contains(unseen, name) {
				t.Errorf("%s uses %s, which /metrics does not have: %s", where, name, expression)
			}
		}
	}
}

func alertExpressions(t *testing.T) (out []string) {
	t.Helper()
	rules, _ := dig(readYAML(t, readFile(t, "prometheus/alerts.yaml"))[0], "groups", 0, "rules").([]any)
	for _, r := range rules {
		expression, _ := dig(r, "expr").(string)
		if dig(r, "alert") == nil || dig(r, "annotations", "summary") == nil || dig(r, "labels", "severity") == nil {
			t.Errorf("an alert has no name, summary or severity: %v", r)
		}
		if strings.Count(expression, "(") != strings.Count(expression, ")") {
			t.Errorf("parentheses of %s", expression)
		}
		out = append(out, expression)
	}
	return out
}

func dashboardExpressions(t *testing.T) (out []string) {
	t.Helper()
	var board map[string]any
	if err := json.Unmarshal([]byte(readFile(t, "grafana/tacit.json")), &board); err != nil {
		t.Fatal(err)
	}
	panels, _ := board["panels"].([]any)
	ids := map[any]bool{}
	for _, p := range panels {
		if id := dig(p, "id"); ids[id] || dig(p, "title") == "" {
			t.Errorf("panel %v has no title or the ID of another", id)
		}
		ids[dig(p, "id")] = true
		targets, _ := dig(p, "targets").([]any)
		for _, target := range targets {
			out = append(out, dig(target, "expr").(string))
		}
	}
	return out
}

func TestComposeFileFitsTheImage(t *testing.T) {
	service := dig(readYAML(t, readFile(t, "compose.yaml"))[0], "services", "coordinator")
	if dig(service, "read_only") != true || dig(service, "cap_drop", 0) != "ALL" ||
		dig(service, "volumes", 0) != "state:/var/lib/tacit" ||
		dig(service, "build", "dockerfile") != "deploy/Dockerfile" {
		t.Errorf("compose: %v", service)
	}
	image := readFile(t, "Dockerfile")
	for _, want := range []string{
		"CGO_ENABLED=0", "FROM scratch", "USER 65532:65532", "VOLUME /var/lib/tacit", "HEALTHCHECK",
		`["/tacit", "health", "http://127.0.0.1:9633/healthz"]`, `ENTRYPOINT ["/tacit"]`,
	} {
		if !strings.Contains(image, want) {
			t.Errorf("the Dockerfile has no %s", want)
		}
	}
}

// The arguments of unit, chart and image are ones that serve takes, and systemd accepts the unit.
func TestSystemdUnit(t *testing.T) {
	unit := readFile(t, "systemd/tacit.service")
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/tacit (.*)$`).FindStringSubmatch(unit)
	if m == nil {
		t.Fatal("the unit has no ExecStart")
	}
	var chartArgs []string
	set := chart(t, chartValues(t))["StatefulSet"]
	args, _ := dig(set, "spec", "template", "spec", "containers", 0, "args").([]any)
	for _, a := range args {
		chartArgs = append(chartArgs, a.(string))
	}
	for _, words := range [][]string{strings.Fields(m[1]), chartArgs, imageCommand(t)} {
		a := &app{out: io.Discard, err: io.Discard}
		found, rest, err := a.root().Find(words)
		if err != nil || found.Name() != "serve" || found.ParseFlags(rest) != nil || len(found.Flags().Args()) > 0 {
			t.Errorf("tacit %v: %v", words, err)
		}
	}
	for _, want := range []string{
		"RestartPreventExitStatus=2", "Restart=on-failure", "NoNewPrivileges=yes", "ProtectSystem=strict",
		"StateDirectoryMode=0700", "ExecReload=/bin/kill -HUP $MAINPID", "LimitNOFILE=16384",
	} {
		if !strings.Contains(unit, want+"\n") {
			t.Errorf("the unit has no %s", want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	path := filepath.Join(t.TempDir(), "tacit.service")
	unit = strings.ReplaceAll(unit, "/usr/local/bin/tacit", os.Args[0])
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "tacit.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
