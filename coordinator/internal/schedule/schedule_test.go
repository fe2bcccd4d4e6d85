package schedule

import (
	"strings"
	"testing"
	"time"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

func parse(t *testing.T, text string) Schedule {
	t.Helper()
	s, err := Parse(text)
	if err != nil || s.String() != text || !s.On() {
		t.Fatalf("%s: %v, %v", text, s, err)
	}
	return s
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ text, after, want string }{
		{"hourly", "2026-11-15 22:54:01", "2026-11-15 23:00:00"},
		{"hourly", "2026-11-15 23:00:00", "2026-11-16 00:00:00"},
		{"daily@03:00", "2026-11-15 02:59:59", "2026-11-15 03:00:00"},
		{"daily@03:00", "2026-11-15 03:00:00", "2026-11-16 03:00:00"},
		{"daily@00:00", "2026-12-31 12:00:00", "2027-01-01 00:00:00"},
		{"daily@23:59", "2028-02-28 23:59:30", "2028-02-29 23:59:00"},
		{"weekly@mon,03:00", "2026-11-15 22:54:00", "2026-11-16 03:00:00"}, // a Sunday
		{"weekly@mon,03:00", "2026-11-16 03:00:00", "2026-11-23 03:00:00"},
		{"weekly@thu,00:00", "2026-11-18 00:00:00", "2026-11-19 00:00:00"},
		{"every:6h", "2026-11-15 13:00:00", "2026-11-15 18:00:00"},
		{"every:90m", "2026-11-15 00:00:00", "2026-11-15 01:30:00"},
		{"every:1m", "1969-12-31 23:59:59", "1970-01-01 00:00:00"},
	} {
		if got := parse(t, c.text).Next(at(c.after)); !got.Equal(at(c.want)) {
			t.Errorf("%s after %s: %v, want %s", c.text, c.after, got, c.want)
		}
	}
	if day := parse(t, "weekly@mon,03:00").Next(at("2026-11-15 00:00:00")).Weekday(); day != time.Monday {
		t.Errorf("weekly@mon is on a %v", day)
	}
	zone := time.FixedZone("", 3600)
	if got := parse(t, "daily@03:00").Next(at("2026-11-15 02:59:59").In(zone)); !got.Equal(at("2026-11-15 03:00:00")) {
		t.Errorf("in another time zone: %v", got)
	}
}

func TestInvalidSchedules(t *testing.T) {
	for _, text := range []string{
		"daily", "daily@", "daily@3", "daily@24:00", "daily@03:00:00", "hourly@1", "weekly@mon", "weekly@03:00",
		"weekly@monday,03:00", "every:", "every:6", "every:1s", "every:-6h", "every:9000h", "every:61500ms", "monthly",
		"Daily@03:00", " daily@03:00",
	} {
		if s, err := Parse(text); err == nil || !strings.Contains(err.Error(), "such as") &&
			!strings.Contains(err.Error(), "must be") {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	if s, err := Parse(""); err != nil || s.On() {
		t.Errorf("no schedule: %v, %v", s, err)
	}
}

// The clock runs, stops with the coordinator, and is set forth and back: no start happens twice, and
// one that was missed happens once.
func TestNothingHappensTwice(t *testing.T) {
	s := parse(t, "daily@03:00")
	var handled time.Time
	for _, c := range []struct {
		now  string
		want bool
	}{
		{"2026-11-15 22:54:00", false}, // the first look: the schedule begins
		{"2026-11-16 02:59:59", false},
		{"2026-11-16 03:00:00", true},
		{"2026-11-16 03:00:01", false},
		{"2026-11-16 02:50:00", false}, // set back by ten minutes
		{"2026-11-16 03:00:00", false}, // and again 03:00
		{"2026-11-17 04:00:00", true},  // an hour late
		{"2026-11-16 22:00:00", false}, // set back by hours, before that start
		{"2026-11-17 03:00:00", false},
		{"2026-11-22 12:00:00", true}, // down for days: one start
		{"2026-11-22 12:00:01", false},
		{"2027-11-22 12:00:00", true},  // the clock is wrong by a year
		{"2026-11-22 12:10:00", false}, // and is corrected
		{"2026-11-23 03:00:00", true},  // the schedule continues
		{"2026-11-23 03:00:01", false},
	} {
		due, next := s.Due(handled, at(c.now))
		if due != c.want {
			t.Errorf("at %s, handled up to %v: due %t", c.now, handled, due)
		}
		handled = next
	}
}
