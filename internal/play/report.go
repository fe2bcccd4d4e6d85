package play

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// Leak is the test HR@10 of scorers under two protocols, among the sampled candidates of both.
type Leak struct {
	Rows       []LeakRow `json:"rows"`
	Candidates int       `json:"candidates"`
}

// LeakRow is a scorer. Paper is its HR@10 with the leak, and Honest without.
type LeakRow struct {
	Name   string  `json:"name"`
	Paper  float64 `json:"paper_hr@10"`
	Honest float64 `json:"deployed_hr@10"`
}

// Report is what a federation did. It has no data of users. Its rounds count through all runs.
type Report struct {
	Name        string                   `json:"name"`
	Leak        *Leak                    `json:"leak,omitempty"`
	Method      string                   `json:"method"`
	Devices     int                      `json:"devices"` // simulated
	Others      int                      `json:"other_devices"`
	Items       int                      `json:"items"`
	Round       int                      `json:"round"`
	Rounds      int                      `json:"rounds"`
	Masked      bool                     `json:"masked"`
	Evaluations []coordinator.Evaluation `json:"evaluations"`
	Missed      string                   `json:"evaluation_missed,omitempty"`
	Received    int64                    `json:"bytes_received"`
	Sent        int64                    `json:"bytes_sent"`
	Seconds     float64                  `json:"seconds"`
	Next        []string                 `json:"-"` // commands to type next
}

// Report returns what the federation did so far.
func (f *Federation) Report() *Report {
	s := f.coordinator.Status()
	before := (s.RunNumber - 1) * s.Rounds // rounds of the runs before the newest, which have as many
	r := &Report{
		Name: s.Name, Method: s.Method, Devices: f.cfg.Settings.Devices,
		Others: max(0, s.Enrolled-f.cfg.Settings.Devices),
		Items:  s.Items, Round: before + s.Round, Rounds: before + s.Rounds, Masked: s.Masked,
		Missed: s.EvaluationMissed, Seconds: time.Since(f.began).Seconds(),
	}
	for _, e := range s.Evaluations {
		e.Round += (e.Run - 1) * s.Rounds
		r.Evaluations = append(r.Evaluations, e)
	}
	for _, x := range f.coordinator.Rounds() {
		r.Received += x.Received
		r.Sent += x.Sent
	}
	return r
}

// Last is the newest evaluation; nil before the first.
func (r *Report) Last() *coordinator.Evaluation {
	if len(r.Evaluations) == 0 {
		return nil
	}
	return &r.Evaluations[len(r.Evaluations)-1]
}

//go:embed report.html
var reportHTML string

// WriteHTML writes the report as a page without scripts, which loads nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"fraction": func(x float64) string { return fmt.Sprintf("%.2f", x) },
		"bytes":    size, "plural": format.Plural[int],
	}).Parse(reportHTML)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, r); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1e6:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// Curve draws HR@10 by round beside popularity. Only numbers are written into it.
func (r *Report) Curve() template.HTML {
	const width, height, left, bottom = 720, 260, 44, 26
	if len(r.Evaluations) == 0 {
		return ""
	}
	top := 0.1
	for _, e := range r.Evaluations {
		top = max(top, e.HR10+e.Share, e.PopHR10)
	}
	x := func(round int) float64 {
		return left + float64(round)/float64(max(r.Rounds, 1))*(width-left-12)
	}
	y := func(v float64) float64 { return 8 + (1-min(max(v/top, 0), 1))*(height-bottom-16) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="HR@10 by round">`, width, height)
	for i := range 5 {
		v := top * float64(i) / 4
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%.2f</text>`,
			left, y(v), width-12, left-6, y(v)+4, v)
	}
	line := func(class string, value func(*coordinator.Evaluation) (float64, bool)) {
		var path, dots strings.Builder
		for i := range r.Evaluations {
			e := &r.Evaluations[i]
			v, ok := value(e)
			if !ok {
				continue
			}
			verb := "L"
			if path.Len() == 0 {
				verb = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", verb, x(e.Round), y(v))
			fmt.Fprintf(&dots, `<circle class="%s" cx="%.1f" cy="%.1f" r="3"/>`, class, x(e.Round), y(v))
		}
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>%s`, class, path.String(), dots.String())
	}
	line("pop", func(e *coordinator.Evaluation) (float64, bool) { return e.PopHR10, e.Popular })
	line("model", func(e *coordinator.Evaluation) (float64, bool) { return e.HR10, true })
	fmt.Fprintf(&b, `<text x="%d" y="%d">round 0</text><text x="%d" y="%d" text-anchor="end">round %d</text></svg>`,
		left, height-6, width-12, height-6, r.Rounds)
	return template.HTML(b.String())
}
