// Package schedule says when runs start: at fixed times in UTC, whatever the coordinator did before.
// It never starts anything itself. Its one convention: a start belongs to a time of the schedule, and
// the caller remembers the last one that it handled, so that no start happens twice and one that was
// missed happens once.
package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Schedule is a series of times. The zero value has none. Its text forms are
//
//	hourly             every hour, on the hour
//	daily@03:00        every day at 03:00
//	weekly@mon,03:00   every Monday at 03:00
//	every:6h           every 6 hours, counted from 00:00 on 1 January 1970
type Schedule struct {
	text   string
	every  time.Duration // 0 for none
	offset time.Duration // of the times, from the start of 1970
}

const week = 7 * 24 * time.Hour

// The first day of 1970 was a Thursday.
var days = []string{"thu", "fri", "sat", "sun", "mon", "tue", "wed"}

// Parse reads the text form. Empty means no schedule.
func Parse(text string) (Schedule, error) {
	bad := func(rule string) (Schedule, error) {
		return Schedule{}, fmt.Errorf("schedule %q: %s", text, rule)
	}
	kind, at, _ := strings.Cut(text, "@")
	switch {
	case text == "":
		return Schedule{}, nil
	case text == "hourly":
		return Schedule{text, time.Hour, 0}, nil
	case kind == "daily":
		clock, err := time.Parse("15:04", at)
		if err != nil {
			return bad("a daily schedule needs a time in UTC, such as daily@03:00")
		}
		return Schedule{text, 24 * time.Hour, sinceMidnight(clock)}, nil
	case kind == "weekly":
		name, rest, _ := strings.Cut(at, ",")
		clock, err := time.Parse("15:04", rest)
		day := slices.Index(days, name)
		if err != nil || day < 0 {
			return bad("a weekly schedule needs a day and a time in UTC, such as weekly@mon,03:00; " +
				"days are mon, tue, wed, thu, fri, sat and sun")
		}
		return Schedule{text, week, time.Duration(day)*24*time.Hour + sinceMidnight(clock)}, nil
	case strings.HasPrefix(text, "every:"):
		d, err := time.ParseDuration(strings.TrimPrefix(text, "every:"))
		if err != nil || d < time.Minute || d > 53*week || d%time.Second != 0 {
			return bad("an interval must be whole seconds, from 1m to a year, such as every:6h")
		}
		return Schedule{text, d, 0}, nil
	}
	return bad("must be hourly, daily@03:00, weekly@mon,03:00 or every:6h")
}

func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
}

// On reports whether there is a schedule.
func (s Schedule) On() bool { return s.every > 0 }

func (s Schedule) String() string { return s.text }

// Next is the first time of the schedule after a time.
func (s Schedule) Next(after time.Time) time.Time { return s.Last(after).Add(s.every) }

// Last is the last time of the schedule that is not after a time.
func (s Schedule) Last(now time.Time) time.Time {
	seconds, every := now.Unix()-int64(s.offset/time.Second), int64(s.every/time.Second)
	past := (seconds%every + every) % every
	return time.Unix(now.Unix()-past, 0).UTC()
}

// Due decides about a start: handled is the time of the schedule up to which starts were handled. It
// returns whether a start is due now, and the time up to which starts are handled when the caller has started
// or refused it, which the caller must remember. Starts that were missed are one start. A clock that
// was set back repeats no start; if it was ahead by more than an interval, handled returns to it.
func (s Schedule) Due(handled, now time.Time) (due bool, upTo time.Time) {
	last := s.Last(now)
	switch {
	case handled.IsZero(): // the schedule begins now
		return false, last
	case last.After(handled):
		return true, last
	case handled.After(s.Next(now)): // a wrong clock said so
		return false, last
	}
	return false, handled
}
