package openmetrics_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/openmetrics"
	"github.com/tacit-rec/tacit/internal/openmetrics/metricstest"
)

func write(open bool) string {
	var b strings.Builder
	w := openmetrics.NewWriter(&b, open)
	w.Family("tacit_refused", openmetrics.Counter, "", "Requests that were refused.")
	w.Sample(3, openmetrics.Label{Name: "code", Value: "bad \"quotes\"\\\n"})
	w.Sample(0.5, openmetrics.Label{Name: "code", Value: "other"})
	w.One("tacit_free_bytes", openmetrics.Gauge, "bytes", "Free space.", math.Inf(1))
	h := openmetrics.NewHistogram(0.1, 1, 10)
	for _, x := range []float64{0.1, 0.05, 0.5, 99} {
		h.Observe(x)
	}
	w.Family("tacit_round_duration_seconds", openmetrics.Hist, "seconds", "Duration of rounds.")
	w.Histogram(h)
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func TestOpenMetricsText(t *testing.T) {
	all, err := metricstest.Parse(write(true))
	if err != nil {
		t.Fatalf("%v\n%s", err, write(true))
	}
	c := all["tacit_refused"]
	if c.Kind != "counter" || c.Samples[0].Labels["code"] != "bad \"quotes\"\\\n" || c.Samples[1].Value != 0.5 {
		t.Errorf("counter %+v", c)
	}
	if g := all["tacit_free_bytes"]; g.Unit != "bytes" || !math.IsInf(g.Samples[0].Value, 1) {
		t.Errorf("gauge %+v", g)
	}
	got := map[string]float64{}
	for _, s := range all["tacit_round_duration_seconds"].Samples {
		got[s.Name+s.Labels["le"]] = s.Value
	}
	for name, want := range map[string]float64{
		"_bucket0.1": 2, "_bucket1.0": 3, "_bucket10.0": 3, "_bucket+Inf": 4, "_count": 4, "_sum": 99.65,
	} {
		if x := got["tacit_round_duration_seconds"+name]; math.Abs(x-want) > 1e-9 {
			t.Errorf("%s is %g, want %g", name, x, want)
		}
	}
}

// The older format names the sample of a counter in its metadata, and has no units and no end.
func TestPrometheusText(t *testing.T) {
	text := write(false)
	for _, want := range []string{"# TYPE tacit_refused_total counter\n", "tacit_refused_total{code=", `le="1"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, not := range []string{"# EOF", "# UNIT"} {
		if strings.Contains(text, not) {
			t.Errorf("%q in\n%s", not, text)
		}
	}
}

func TestTheReaderIsStrict(t *testing.T) {
	good := write(true)
	for name, bad := range map[string]string{
		"no end":          strings.TrimSuffix(good, "# EOF\n"),
		"another type":    strings.Replace(good, "tacit_refused counter", "tacit_refused gauge", 1),
		"an open label":   strings.Replace(good, `code="other"`, `code="other`, 1),
		"a late type":     strings.Replace(good, "# EOF", "# TYPE tacit_refused counter\n# EOF", 1),
		"a number":        strings.Replace(good, " 0.5", " half", 1),
		"a label twice":   strings.Replace(good, `code="other"`, `code="other",code="x"`, 1),
		"without a type":  strings.Replace(good, "# TYPE tacit_free_bytes gauge\n", "", 1),
		"an empty sample": strings.Replace(good, "# EOF", "\n# EOF", 1),
	} {
		if _, err := metricstest.Parse(bad); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}
