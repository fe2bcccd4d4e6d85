package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/internal/fetch"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/sim"
	"golang.org/x/term"
)

// runProgress returns a function that prints the events of a run: its card, then one line that is
// rewritten on a terminal, or a line every 10 seconds elsewhere.
func (a *app) runProgress(rounds int) func(experiment.Event) {
	l := a.progressLine(rounds)
	return func(event experiment.Event) {
		if e, ok := event.(experiment.Started); ok {
			if !a.quiet && !l.hasCard {
				card(a.err, e)
				l.hasCard = true
			}
			a.noteSettings(e)
		}
		if !a.quiet {
			l.event(event)
		}
	}
}

func (l *progressLine) event(event experiment.Event) {
	switch e := event.(type) {
	case experiment.Started:
		l.begin, l.cheap, l.from = time.Now(), e.Job.RoundsBeforeTraining(), 0
		l.bytes, l.metrics = 0, ""
		l.startSeed(e.Job.SeedAt, e.Job.SeedOf, e.Job.Seed)
	case experiment.SettingTried:
		l.println(fmt.Sprintf("trying setting %d/%d: %s: NDCG@10 %s on validation, %.1f s", e.At, e.Of, e.Settings,
			points(e.NDCG), e.Seconds))
	case experiment.Resumed:
		l.from = e.Round
		l.println(fmt.Sprintf("resumed after round %d", e.Round))
	case experiment.RoundEnded:
		l.round(e.Event)
	case experiment.BudgetSpent:
		l.println(fmt.Sprintf("round %d would exceed the privacy budget: stopped after round %d of %d", e.Before,
			e.Before-1, l.rounds))
	case experiment.ReferenceProgress:
		l.reference(e)
	case experiment.ModelDropped:
		l.println(fmt.Sprintf("the model exceeds %s and is not kept: tacit recommend and export need "+
			"--keep-model always", format.Size(float64(e.Limit))))
	case experiment.FigureStarted:
		l.println("drawing figures: " + e.Name + " (--no-figures skips them)")
	}
}

// noteSettings prints, once, notes on a cohort and on sums that do not do what the user may expect. A resumed run reads
// every setting from its folder, those that the user did not set too, and its notes were printed when it began.
func (a *app) noteSettings(e experiment.Started) {
	if a.noted || e.Job.Resume {
		return
	}
	a.noted = true
	n := e.Run.DeviceCount()
	if e.Job.Cohort.Exceeds(n) {
		fmt.Fprintf(a.err, "note: --cohort %d exceeds the %d users: all of them take part in every round\n",
			e.Job.Cohort.Count, n)
	}
	if note := e.Job.PassNote(); note != "" {
		fmt.Fprintf(a.err, "note: %s\n", note)
	}
	a.noteBits(e.Job.Spec, e.Split.Users(), e.Job.Sums == "integer", e.Run.Plan().MaxInteger())
}

// noteBits says when the setting bits costs accuracy or has no effect.
func (a *app) noteBits(s *experiment.Spec, devices int, integers bool, levels int64) {
	from := s.From["bits"]
	isSet := from != "" && from != "default" && from != "method" && !strings.HasPrefix(from, "preset") && s.Bits != 0
	switch {
	case levels > 0 && levels < privacy.GoodNarrowLevels:
		fmt.Fprintf(a.err, "note: sums of %d bits leave each of %d devices %d levels, which costs accuracy: use %d "+
			"bits or more\n",
			s.Bits, devices, levels, privacy.NarrowBits(devices, privacy.GoodNarrowLevels))
	case !isSet || levels > 0:
	case s.DP.On():
		fmt.Fprintf(a.err, "note: bits has no effect with dp, which sets its own bound\n")
	case !integers:
		fmt.Fprintf(a.err, "note: bits has no effect without sums=integer\n")
	default:
		fmt.Fprintf(a.err, "note: bits has no effect: %s does not declare the range of its numbers\n", s.Method)
	}
}

// progressLine is a line of progress that a terminal shows in place.
type progressLine struct {
	w       io.Writer
	tty     bool
	hasCard bool
	rounds  int
	from    int // the round that the estimate of the time left is measured from
	cheap   int // first rounds that take less time than the others: no time left is shown in them
	begin   time.Time
	last    time.Time // when the line was shown
	metrics string    // of the last evaluation
	bytes   int

	seed, seeds        int       // which of the seeds runs, from 1, and their number; 0 for a run of one seed
	firstSeed          int       // the first that was not stored
	seedBegin, allFrom time.Time // when this seed and the first one began
}

// startSeed notes that one of several seeds begins, and says which.
func (l *progressLine) startSeed(at, of int, value uint64) {
	if of < 2 {
		return
	}
	now := time.Now()
	if l.firstSeed == 0 {
		l.firstSeed, l.allFrom = at, now
	}
	l.seed, l.seeds, l.seedBegin = at, of, now
	text := fmt.Sprintf("seed %d of %d: --seed %d", at, of, value)
	if each := l.perSeed(); each > 0 {
		text += ", about " + clock(each*time.Duration(of-at+1)) + " left"
	}
	l.println(text)
}

// perSeed is the mean time of the finished seeds, with references and figures; 0 before the first one ends.
func (l *progressLine) perSeed() time.Duration {
	if done := l.seed - l.firstSeed; done > 0 {
		return l.seedBegin.Sub(l.allFrom) / time.Duration(done)
	}
	return 0
}

// seedsLeft says how long this seed and those after it will take, if the rounds of this one take left.
func (l *progressLine) seedsLeft(left time.Duration) string {
	others := time.Duration(l.seeds - l.seed)
	if others <= 0 {
		return ""
	}
	each := l.perSeed()
	if each == 0 {
		each = time.Since(l.seedBegin) + left
	}
	return ", all seeds " + clock(left+each*others)
}

func (a *app) progressLine(rounds int) *progressLine {
	return &progressLine{w: a.err, tty: terminalOf(a.err) != nil, rounds: rounds, begin: time.Now()}
}

// due reports whether the line should be shown again, and if so notes the time.
func (l *progressLine) due(isLast bool) bool {
	every := 10 * time.Second
	if l.tty {
		every = 80 * time.Millisecond
	}
	if now := time.Now(); now.Sub(l.last) >= every || isLast {
		l.last = now
		return true
	}
	return false
}

// println ends the live line and prints another.
func (l *progressLine) println(s string) {
	l.flush()
	fmt.Fprintln(l.w, s)
}

// reference shows the evaluation of a reference row.
func (l *progressLine) reference(e experiment.ReferenceProgress) {
	if e.Users == 0 {
		l.println("evaluating the reference " + e.Name)
	} else if l.due(false) {
		l.show(fmt.Sprintf("  %s: %d of %d users", e.Name, e.Done, e.Users))
	}
}

func (l *progressLine) round(e sim.Event) {
	if e.Valid != nil {
		on, s := "valid", e.Valid.Sampled
		if s == nil {
			on, s = "test", e.Test.Sampled
		}
		l.metrics = fmt.Sprintf("%s HR@10 %s  NDCG %s  ", on, points(s["hr@10"]), points(s["ndcg@10"]))
		if e.Epsilon != nil {
			l.metrics += "eps " + format.Epsilon(*e.Epsilon) + "  "
		}
	}
	l.bytes += e.BytesUp
	if e.Round == l.cheap {
		l.from, l.begin = e.Round, time.Now()
	}
	isLast := e.Round == l.rounds
	if l.due(isLast) {
		l.show(l.roundText(e))
	}
	if isLast {
		l.flush()
	}
}

func (l *progressLine) roundText(e sim.Event) string {
	eta := ""
	if done := e.Round - l.from; done > 0 && e.Round > l.cheap {
		left := time.Since(l.begin) / time.Duration(done) * time.Duration(l.rounds-e.Round)
		eta = "  ETA " + clock(left) + l.seedsLeft(left)
	}
	seed := ""
	if l.seeds > 1 {
		seed = fmt.Sprintf("seed %d of %d  ", l.seed, l.seeds)
	}
	rate := 0.0
	if e.TrainMS > 0 {
		rate = float64(e.Devices) / e.TrainMS * 1000
	}
	return fmt.Sprintf("%sround %d/%d  %s%s devices/s  %s uploaded%s", seed, e.Round, l.rounds, l.metrics, short(rate),
		size(float64(l.bytes)), eta)
}

// download shows the progress of a download that started with from bytes.
func (l *progressLine) download(p fetch.Progress, from int64) {
	isLast := p.Done == p.Total
	if !l.due(isLast) {
		return
	}
	rate := float64(max(p.Done-from, 0)) / max(time.Since(l.begin).Seconds(), 1e-3)
	s := size(float64(p.Done))
	if p.Total > 0 {
		s = fmt.Sprintf("%s of %s  %d%%", s, size(float64(p.Total)), 100*p.Done/p.Total)
	}
	s += fmt.Sprintf("  %s/s", size(rate))
	if p.Total > 0 && rate > 0 {
		s += "  ETA " + clock(time.Duration(float64(p.Total-p.Done)/rate*float64(time.Second)))
	}
	l.show(s)
	if isLast {
		l.flush()
	}
}

// show prints the line, on a terminal in place of the last one.
func (l *progressLine) show(s string) {
	if !l.tty {
		fmt.Fprintln(l.w, s)
		return
	}
	w := l.w
	if f := terminalOf(l.w); f != nil {
		if wide, _, err := term.GetSize(int(f.Fd())); err == nil && wide > 1 && len(s) >= wide {
			s = s[:wide-1]
		}
		w = f
	}
	fmt.Fprintf(w, "\r\x1b[K%s", escapeControls(s))
}

// flush ends the live line.
func (l *progressLine) flush() {
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

// shorten cuts a text to at most n letters for a table.
func shorten(s string, n int) string {
	letters := []rune(s)
	if len(letters) <= n {
		return s
	}
	return strings.TrimRight(string(letters[:n-3]), " ,;:(") + "..."
}
