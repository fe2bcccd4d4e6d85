// Package openmetrics writes metrics in the text formats of OpenMetrics 1.0 and of Prometheus 0.0.4. It holds no
// metrics of its own, except for histograms. Its one convention: names and labels are constants of the program, so
// that no user's text and no device ID can become a label.
package openmetrics

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Content types of the two formats.
const (
	ContentType           = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	PrometheusContentType = "text/plain; version=0.0.4; charset=utf-8"
)

// Accepts reports whether an Accept header asks for OpenMetrics.
func Accepts(header string) bool { return strings.Contains(header, "application/openmetrics-text") }

// Kind is the type of a family of metrics.
type Kind string

// The kinds of families.
const (
	Counter Kind = "counter"
	Gauge   Kind = "gauge"
	Hist    Kind = "histogram"
)

// Label is a label of a sample.
type Label struct{ Name, Value string }

// Writer writes families of metrics. The first error of the underlying writer is that of Close.
type Writer struct {
	out    *bufio.Writer
	open   bool // OpenMetrics, not Prometheus
	name   string
	kind   Kind
	seen   map[string]bool
	values map[string]bool // labels of the samples of the family
}

// NewWriter returns a writer of OpenMetrics, or of the Prometheus text format.
func NewWriter(out io.Writer, openMetrics bool) *Writer {
	return &Writer{out: bufio.NewWriter(out), open: openMetrics, seen: map[string]bool{}}
}

// Family begins a family. The name has no suffix such as _total. A unit, such as seconds, is the name's last word.
// Families with an invalid or repeated name are bugs.
func (w *Writer) Family(name string, kind Kind, unit, help string) {
	if !validName(name) || w.seen[name] || unit != "" && !strings.HasSuffix(name, "_"+unit) ||
		strings.HasSuffix(name, "_total") || strings.ContainsAny(help, "\n\\\"") {
		panic("openmetrics: invalid family " + name)
	}
	w.seen[name] = true
	w.name, w.kind, w.values = name, kind, map[string]bool{}
	shown := name
	if kind == Counter && !w.open { // the older format names the sample
		shown += "_total"
	}
	fmt.Fprintf(w.out, "# TYPE %s %s\n", shown, kind)
	if unit != "" && w.open {
		fmt.Fprintf(w.out, "# UNIT %s %s\n", shown, unit)
	}
	fmt.Fprintf(w.out, "# HELP %s %s\n", shown, help)
}

// Sample writes a sample of a counter or a gauge.
func (w *Writer) Sample(value float64, labels ...Label) {
	suffix := ""
	if w.kind == Counter {
		suffix = "_total"
	}
	w.sample(suffix, value, labels)
}

// One writes a family with one sample without labels.
func (w *Writer) One(name string, kind Kind, unit, help string, value float64) {
	w.Family(name, kind, unit, help)
	w.Sample(value)
}

func (w *Writer) sample(suffix string, value float64, labels []Label) {
	text := labelText(labels)
	if key := suffix + text; w.values[key] {
		panic("openmetrics: repeated sample " + w.name + key)
	}
	w.values[suffix+text] = true
	fmt.Fprintf(w.out, "%s%s%s %s\n", w.name, suffix, text, number(value))
}

func labelText(labels []Label) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	for i, l := range labels {
		if !validName(l.Name) {
			panic("openmetrics: invalid label " + l.Name)
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		fmt.Fprintf(&b, `%s="%s"`, l.Name, escape.Replace(l.Value))
	}
	return b.String() + "}"
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func validName(s string) bool {
	for i, r := range s {
		if !(r >= 'a' && r <= 'z' || r == '_' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != ""
}

func number(x float64) string {
	switch {
	case math.IsInf(x, 1):
		return "+Inf"
	case math.IsInf(x, -1):
		return "-Inf"
	case math.IsNaN(x):
		return "NaN"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// Close ends the text and returns the first error.
func (w *Writer) Close() error {
	if w.open {
		fmt.Fprint(w.out, "# EOF\n")
	}
	return w.out.Flush()
}

// Histogram counts observations by their size. Its methods may be called from many goroutines.
type Histogram struct {
	bounds []float64 // ascending; above the last is +Inf

	mu     sync.Mutex
	counts []uint64 // by bound
	sum    float64
}

// NewHistogram returns a histogram with the given upper bounds, which must ascend.
func NewHistogram(bounds ...float64) *Histogram {
	if !slices.IsSorted(bounds) {
		panic("openmetrics: bounds must ascend")
	}
	return &Histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// Observe counts a value.
func (h *Histogram) Observe(x float64) {
	i, _ := slices.BinarySearch(h.bounds, x)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[i]++
	h.sum += x
}

// Histogram writes the samples of a histogram, which belong to the family that was begun.
func (w *Writer) Histogram(h *Histogram, labels ...Label) {
	h.mu.Lock()
	counts, sum := slices.Clone(h.counts), h.sum
	h.mu.Unlock()
	n := uint64(0)
	for i, count := range counts {
		n += count
		le := "+Inf"
		if i < len(h.bounds) {
			le = number(h.bounds[i])
			if w.open && !strings.ContainsAny(le, ".e") {
				le += ".0" // OpenMetrics writes bounds as floats
			}
		}
		w.sample("_bucket", float64(n), append(slices.Clone(labels), Label{"le", le}))
	}
	w.sample("_sum", sum, labels)
	w.sample("_count", float64(n), labels)
}
