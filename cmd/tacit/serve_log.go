package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
)

// logFlags say how serve logs.
type logFlags struct{ format, level string }

// logger returns the log of serve on standard error, and whether it is for people. On a terminal people read lines,
// and only of what needs their attention; otherwise a log has times and levels.
func (f *logFlags) logger(w io.Writer, quiet bool) (l *slog.Logger, forPeople bool, err error) {
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(f.level)); f.level != "" && err != nil {
		return nil, false, input(fmt.Errorf("--log-level %s: must be debug, info, warn or error", f.level), "")
	}
	format := f.format
	if format == "auto" {
		format = "text"
		if terminalOf(w) != nil {
			format = "people"
		}
	}
	if f.level == "" && (quiet || format == "people") {
		level = slog.LevelWarn
	}
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "people":
		return slog.New(&lineHandler{w: w, level: level, mu: &sync.Mutex{}}), true, nil
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), false, nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), false, nil
	}
	return nil, false, input(fmt.Errorf("--log-format %s: must be auto, text or json", f.format), "")
}

// lineHandler writes a record as one line for people, without its time.
type lineHandler struct {
	w     io.Writer
	level slog.Level
	mu    *sync.Mutex
	attrs []slog.Attr
}

// Enabled reports whether a record of a level is written.
func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// WithAttrs returns a handler whose records have more attributes.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = append(append([]slog.Attr{}, h.attrs...), attrs...)
	return &next
}

// WithGroup returns the handler itself: people need no groups.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }

// Handle writes a record.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "tacit: %s", r.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.w, b.String())
	return err
}

// setLog makes the log of serve that of the program: its last error and the note that it stops go there too.
func (a *app) setLog(f *logFlags) error {
	l, forPeople, err := f.logger(a.err, a.quiet)
	if err != nil {
		return err
	}
	a.log = l
	if !forPeople {
		a.records.Store(l)
	}
	return nil
}

// sayStopping says that a signal arrived.
func (a *app) sayStopping(signal os.Signal) {
	if l := a.records.Load(); l != nil {
		l.Info("stopping", "signal", signal.String())
		return
	}
	fmt.Fprintln(a.err, "\nstopping at the next safe point; press Ctrl-C again to quit at once")
}

// errorLog is the log of the HTTP server, such as failed TLS handshakes.
func (a *app) errorLog() *log.Logger {
	return log.New(&connectionLog{log: a.log, now: time.Now}, "", 0)
}

// connectionLog writes one line a minute with the number of those left out, because anybody can make connections fail.
type connectionLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last time.Time
	more int
}

func (s *connectionLog) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.last.IsZero() && now.Sub(s.last) < time.Minute {
		s.more++
		return len(line), nil
	}
	s.log.Warn(strings.TrimSpace(string(line)), "more_before", s.more)
	s.last, s.more = now, 0
	return len(line), nil
}

// logRound records a round that ended.
func logRound(l *slog.Logger, e coordinator.Event) {
	args := []any{
		"round", e.Round, "rounds", e.Rounds, "version", e.Version, "discarded", e.Discarded, "rejected", e.Rejected,
		"seconds", e.Seconds,
	}
	if !e.Sampled {
		args = append(args, "counted", e.Counted, "cohort", e.Cohort)
	}
	if e.Epsilon > 0 {
		args = append(args, "epsilon", e.Epsilon)
	}
	if r := e.Evaluation; r != nil {
		args = append(args, "hr_at_10", r.HR10)
	}
	if e.EvaluationMissed != "" {
		args = append(args, "no_evaluation", e.EvaluationMissed)
	}
	l.Info("round ended", args...)
}
