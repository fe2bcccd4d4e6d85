package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// functions are those that templates call.
var functions = template.FuncMap{
	"count": count, "bytes": sizeOf, "clock": clock, "day": day, "stamp": stamp, "seconds": seconds,
	"number": number, "plural": plural, "tone": tone, "label": label, "advice": advice,
	"short": short, "words": func(code string) string { return strings.ReplaceAll(code, "_", " ") },
	"accuracyChart": accuracyChart, "roundsChart": roundsChart, "trafficChart": trafficChart, "gauge": gauge,
	"stages": stagesOf, "whole": func(x float64) int64 { return int64(math.Round(x)) },
	"times": func(a, b float64) float64 { return a * b },
	"bar":   bar, "newest": newest, "latest": latest, "recent": recent, "deref": deref,
	"prefix": func() string { return Prefix },
}

// count writes an integer with separators: 12,345.
func count(n any) string {
	var x int64
	switch n := n.(type) {
	case int:
		x = int64(n)
	case int64:
		x = n
	case uint64:
		x = int64(n)
	case uint32:
		x = int64(n)
	}
	text := strconv.FormatInt(x, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// sizeOf writes a number of bytes: 1.2 MB.
func sizeOf(n int64) string {
	x, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if x < 1000 {
			break
		}
		x, unit = x/1000, next
	}
	if unit == "B" || x >= 100 {
		return fmt.Sprintf("%.0f %s", x, unit)
	}
	return fmt.Sprintf("%.1f %s", x, unit)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// stamp is a time for programs.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// seconds writes a duration: 0.8 s, 12 s, 3 min 5 s.
func seconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 100:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%d min %d s", int(s)/60, int(s)%60)
	}
	return fmt.Sprintf("%d h %d min", int(s)/3600, int(s)%3600/60)
}

// number writes a number with three digits.
func number(x float64) string {
	if x == 0 {
		return "0"
	}
	if a := math.Abs(x); a < 1e-3 || a >= 1e5 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return strconv.FormatFloat(x, 'f', max(0, min(3, 2-int(math.Floor(math.Log10(math.Abs(x)))))), 64)
}

func plural(n any, word string) string {
	text := count(n)
	if text == "1" {
		return text + " " + word
	}
	return text + " " + word + "s"
}

// short cuts a text that is too long for a line.
func short(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	return string(r[:most-1]) + "…"
}

func deref(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// stagesView is what the template of the stages reads.
type stagesView struct {
	Stages
	Whole            int // devices at most
	Sampled, Running bool
}

func stagesOf(s Stages, active int, sampled, running bool) stagesView {
	return stagesView{s, max(active, s.CheckedIn, s.Selected, s.Reported), sampled, running}
}

// newest returns the last n rounds, the newest first.
func newest(all []Round, n int) (out []Round) {
	for i := len(all) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, all[i])
	}
	return out
}

// recent returns the last n evaluations, the newest first.
func recent(all []Evaluation, n int) (out []Evaluation) {
	for i := len(all) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, all[i])
	}
	return out
}

// latest returns the last evaluation, or nil.
func latest(all []Evaluation) *Evaluation {
	if len(all) == 0 {
		return nil
	}
	return &all[len(all)-1]
}

// stateText is how people read a state.
type stateText struct{ tone, label, advice string }

var states = map[string]stateText{
	"starting":            {"wait", "Starting", ""},
	"training":            {"good", "Training", ""},
	"evaluating":          {"good", "Evaluating", ""},
	"waiting-for-run":     {"wait", "Waiting for a run", "Begin one with tacit admin begin."},
	"waiting-for-devices": {"wait", "Waiting for devices", "Enrol devices, or wait until enough check in."},
	"waiting-for-check-ins": {
		"wait", "Waiting for check-ins", "Too many of the active devices sleep. The round begins when enough check in.",
	},
	"no-devices":   {"wait", "No active device", "No round is used up. Training continues when a device checks in."},
	"paused":       {"hold", "Paused", "An operator paused training. Devices still receive models."},
	"between-runs": {"done", "Between runs", "The next run begins by the schedule."},
	"finished":     {"done", "Finished", "Begin another run with tacit admin begin."},
	"budget-spent": {
		"bad", "Budget spent", "Training has stopped at the limit. tacit admin reset-budget begins a new period.",
	},
	"stopped": {"bad", "Stopped", "The message says why."},
	"outdated": {
		"bad", "Outdated", "Devices have a newer model than this folder. docs/operate.md lists three ways out.",
	},
	"disk-full":      {"bad", "Disk full", "Free some space. Nothing that was acknowledged is lost."},
	"read-only":      {"bad", "Folder read-only", "Make the state folder writable."},
	"slow-disk":      {"bad", "Slow disk", "A write takes longer than 5 s. Find what else uses the disk."},
	"too-many-files": {"bad", "Too many files", "Raise the limit of open files."},
	"low-memory":     {"bad", "Low memory", "Raise the limit of memory, or use fewer devices in a round."},
	"disk-error":     {"bad", "Disk error", "Replace the disk, and restore a backup."},
}

func tone(state string) string {
	if s, ok := states[state]; ok {
		return s.tone
	}
	return "wait"
}

func label(state string) string {
	if s, ok := states[state]; ok {
		return s.label
	}
	return state
}

func advice(state string) string { return states[state].advice }
