package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
)

// teller returns what a job tells of itself: a card, then one live line on a
// terminal, or a line now and then elsewhere.
func (a *app) teller(rounds int) func(any) {
	if a.quiet {
		return func(event any) {
			if e, ok := event.(experiment.Started); ok {
				a.wide(e)
			}
		}
	}
	l := &live{w: a.err, rounds: rounds}
	if f, ok := a.err.(*os.File); ok {
		l.tty = term.IsTerminal(int(f.Fd()))
	}
	return func(event any) {
		switch e := event.(type) {
		case experiment.Started:
			l.begin = time.Now()
			if !l.carded {
				card(a.err, e)
				a.wide(e)
				l.carded = true
			}
			if e.Job.Resume {
				return
			}
		case experiment.Choosing:
			l.say(fmt.Sprintf("trying %d/%d: %s: NDCG@10 %s on validation, %.1f s", e.At, e.Of, e.Settings,
				points(e.NDCG), e.Seconds))
		case experiment.Resumed:
			l.from = e.Round
			l.say(fmt.Sprintf("resumed after round %d", e.Round))
		case sim.Event:
			l.round(e)
		case experiment.Spent:
			l.say(fmt.Sprintf("the privacy budget is spent before round %d: stopped at round %d of %d", e.Before,
				e.Before-1, rounds))
		case experiment.Referring:
			l.reference(e)
		case experiment.Figuring:
			l.say("figures: " + e.Name + " (--no-figures leaves them out)")
		}
	}
}

// wide says once that a cohort is larger than the fleet, and of sums what they leave.
func (a *app) wide(e experiment.Started) {
	if a.said {
		return
	}
	n := e.Run.Fleet.Count()
	if e.Job.Cohort.Over(n) {
		fmt.Fprintf(a.err, "note: --cohort %d, and %d users take part: all of them do, in every round\n",
			e.Job.Cohort.Count, n)
	}
	a.narrow(e.Job.Spec, e.Split.Users(), e.Job.Sums == "integer", e.Run.Fleet.Plan.Levels())
	a.said = true
}

// narrow says what bits leave of a device's numbers, where that is little, and where they
// were given and do nothing.
func (a *app) narrow(s *experiment.Spec, devices int, integers bool, levels int64) {
	from := s.From["bits"]
	given := from != "" && from != "default" && from != "method" && !strings.HasPrefix(from, "preset") && s.Bits != 0
	switch {
	case levels > 0 && levels < privacy.GoodNarrowLevels:
		fmt.Fprintf(a.err, "note: sums of %d bits leave each of %d devices %d levels, which costs accuracy: want %d "+
			"bits or more\n",
			s.Bits, devices, levels, privacy.NarrowBits(devices, privacy.GoodNarrowLevels))
	case !given || levels > 0:
	case s.DP.On():
		fmt.Fprintf(a.err, "note: dp has a bound of its own: bits does nothing\n")
	case !integers:
		fmt.Fprintf(a.err, "note: bits does nothing without sums=integer\n")
	default:
		fmt.Fprintf(a.err, "note: %s does not say how large its numbers are: bits does nothing\n", s.Method)
	}
}

// live is the progress of a run.
type live struct {
	w      io.Writer
	tty    bool
	carded bool
	rounds int
	from   int
	begin  time.Time
	last   time.Time
	line   string
	bytes  int
}

func (l *live) say(s string) {
	l.flush()
	fmt.Fprintln(l.w, s)
}

// reference tells of a reference row: when it starts, and how far it is.
func (l *live) reference(e experiment.Referring) {
	switch {
	case e.All == 0:
		l.say("measuring the reference row: " + e.Name)
	case l.tty:
		fmt.Fprintf(l.w, "\r\x1b[K  %s: %d of %d users", e.Name, e.Done, e.All)
		l.last = time.Now()
	case time.Since(l.last) > 10*time.Second:
		fmt.Fprintf(l.w, "  %s: %d of %d users\n", e.Name, e.Done, e.All)
		l.last = time.Now()
	}
}

func (l *live) round(e sim.Event) {
	if e.Valid != nil {
		on, s := "valid", e.Valid.Sampled
		if s == nil {
			on, s = "test", e.Test.Sampled
		}
		l.line = fmt.Sprintf("%s HR@10 %s  NDCG %s  ", on, points(s["hr@10"]), points(s["ndcg@10"]))
		if e.Epsilon != nil {
			l.line += "eps " + report.Epsilon(*e.Epsilon) + "  "
		}
	}
	l.bytes += e.BytesUp
	every := 10 * time.Second
	if l.tty {
		every = 80 * time.Millisecond
	}
	if now := time.Now(); now.Sub(l.last) >= every || e.Round == l.rounds {
		l.last = now
		l.show(e)
	}
	if e.Round == l.rounds {
		l.flush()
	}
}

func (l *live) show(e sim.Event) {
	done := e.Round - l.from
	took := time.Since(l.begin)
	left := time.Duration(0)
	if done > 0 {
		left = took / time.Duration(done) * time.Duration(l.rounds-e.Round)
	}
	rate := 0.0
	if e.TrainMS > 0 {
		rate = float64(e.Devices) / e.TrainMS * 1000
	}
	s := fmt.Sprintf("round %d/%d  %s%s devices/s  ^%s  ETA %s", e.Round, l.rounds, l.line, short(rate),
		size(float64(l.bytes)), clock(left))
	l.put(s)
}

// put shows a line: in place of the last one on a terminal.
func (l *live) put(s string) {
	if l.tty {
		if f, ok := l.w.(*os.File); ok {
			if wide, _, err := term.GetSize(int(f.Fd())); err == nil && wide > 1 && len(s) >= wide {
				s = s[:wide-1]
			}
		}
		fmt.Fprintf(l.w, "\r\x1b[K%s", s)
		return
	}
	fmt.Fprintln(l.w, s)
}

// flush ends the live line.
func (l *live) flush() {
	if l.tty && !l.last.IsZero() {
		fmt.Fprintln(l.w)
		l.last = time.Time{}
	}
}

// points writes a fraction as .712.
func points(x float64) string {
	s := fmt.Sprintf("%.3f", x)
	if x >= 0 && x < 1 && s[0] == '0' {
		return s[1:]
	}
	return s
}

// short writes 2143 as 2.1k.
func short(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.1fk", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

// size writes a number of bytes.
func size(b float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if b < 1000 {
			return fmt.Sprintf("%.3g %s", b, unit)
		}
		b /= 1000
	}
	return fmt.Sprintf("%.3g TB", b)
}

// clock writes a duration as 1:05.
func clock(d time.Duration) string {
	s := int(d.Seconds() + 0.5)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
