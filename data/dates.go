package data

import "strings"

// dateShape is the form of a date in a file.
type dateShape uint8

const (
	isoShape     dateShape = iota // 2000-11-01 or 2000/11/01
	compactShape                  // 20001101, or 20001101183000 with a time of day
	slashShape                    // 1/11/2000 or 1-11-2000: day first or month first
	dotShape                      // 1.11.2000: day first
	namedShape                    // 1 Nov 2000, Nov 1, 2000 or Wed Nov 01 10:20:30 +0000 2000
	dateShapes
)

var shapeNames = [dateShapes]string{
	isoShape: "ISO 8601", compactShape: "YYYYMMDD", slashShape: "day/month/year", dotShape: "day.month.year",
	namedShape: "dates with month names",
}

// stamp is a date, perhaps with a time of day, as a file writes it.
type stamp struct {
	shape            dateShape
	year, month, day int64 // of slashShape, month and day are the first and the second number
	micros           int64 // since midnight
	east             int64 // seconds that the zone is ahead of UTC
	hasClock, zoned  bool
	half             byte // 'a' or 'p' of a 12-hour clock, otherwise 0
}

const (
	perSecond     = 1_000_000 // microseconds
	secondsPerDay = 86400
	maxStamp      = 64 // bytes
)

// at is the moment with the given month and day, in microseconds since 1970.
func (s *stamp) at(month, day int64) (int64, bool) {
	d, ok := daysSince1970(s.year, month, day)
	return (d*secondsPerDay-s.east)*perSecond + s.micros, ok
}

// moments returns the moment read month first and day first. Only those of a slashShape date can differ.
func (s *stamp) moments() (monthFirst, dayFirst int64, ok1, ok2 bool) {
	monthFirst, ok1 = s.at(s.month, s.day)
	if dayFirst, ok2 = monthFirst, ok1; s.shape == slashShape {
		dayFirst, ok2 = s.at(s.day, s.month)
	}
	return monthFirst, dayFirst, ok1, ok2
}

// isDate reports whether a field is a date.
func isDate(b []byte) bool {
	var s stamp
	if !s.parse(b) {
		return false
	}
	_, _, ok1, ok2 := s.moments()
	return ok1 || ok2
}

// parse reads a date. It does not check that the month has the day.
func (s *stamp) parse(b []byte) bool {
	*s = stamp{}
	if len(b) > maxStamp {
		return false
	}
	for len(b) > 0 {
		ok := true
		switch c := b[0]; {
		case c == ' ' || c == ',':
			b = b[1:]
		case isDigit(c):
			b, ok = s.digits(b)
		case (c == '+' || c == '-') && s.hasClock && !s.zoned:
			b, ok = s.offset(b)
		case (c == '-' || c == '.') && s.shape == namedShape && !s.complete(): // 1-Nov-2000, 1. Nov 2000
			b = b[1:]
		default:
			b, ok = s.word(b)
		}
		if !ok {
			return false
		}
	}
	return s.complete() && s.halfDay()
}

func (s *stamp) complete() bool { return s.year > 0 && s.month > 0 && s.day > 0 }

func (s *stamp) started() bool { return s.year > 0 || s.month > 0 || s.day > 0 }

// halfDay applies AM or PM.
func (s *stamp) halfDay() bool {
	const hour = 3600 * perSecond
	if s.half == 0 {
		return true
	}
	h := s.micros / hour
	if !s.hasClock || h < 1 || h > 12 {
		return false
	}
	s.micros -= h / 12 * 12 * hour
	if s.half == 'p' {
		s.micros += 12 * hour
	}
	return true
}

// digits takes what starts with a digit: a date, a time of day, or the day or year beside the name of a month.
func (s *stamp) digits(b []byte) ([]byte, bool) {
	n := countDigits(b)
	next, after := byte(0), byte(0)
	if n < len(b) {
		next = b[n]
	}
	if n+1 < len(b) {
		after = b[n+1]
	}
	switch {
	case next == ':' && !s.hasClock:
		return s.clock(b)
	case n == 8 && !s.started():
		s.shape = compactShape
		s.year, s.month, s.day = small(b[:4]), small(b[4:6]), small(b[6:8])
		return b[8:], true
	case n == 14 && !s.started():
		s.shape, s.hasClock = compactShape, true
		s.year, s.month, s.day = small(b[:4]), small(b[4:6]), small(b[6:8])
		h, m, sec := small(b[8:10]), small(b[10:12]), small(b[12:14])
		s.micros = (h*3600 + m*60 + sec) * perSecond
		return b[14:], h <= 23 && m <= 59 && sec <= 60
	case (next == '-' || next == '/' || next == '.') && isDigit(after) && !s.started():
		return s.numeric(b, next)
	case n == 4 && s.year == 0:
		s.shape, s.year = namedShape, small(b[:4])
	case n <= 2 && s.day == 0:
		s.shape, s.day = namedShape, small(b[:n])
	default:
		return b, false
	}
	return b[n:], true
}

// numeric takes a date of three numbers. Years have four digits.
func (s *stamp) numeric(b []byte, by byte) ([]byte, bool) {
	var v [3]int64
	var size [3]int
	for i := range v {
		n := countDigits(b)
		if n == 0 || n > 4 {
			return b, false
		}
		v[i], size[i] = small(b[:n]), n
		if b = b[n:]; i == 2 {
			break
		}
		if len(b) == 0 || b[0] != by {
			return b, false
		}
		b = b[1:]
	}
	switch {
	case size[0] == 4 && size[1] <= 2 && size[2] <= 2:
		s.shape, s.year, s.month, s.day = isoShape, v[0], v[1], v[2]
	case size[2] != 4 || size[0] > 2 || size[1] > 2:
		return b, false
	case by == '.':
		s.shape, s.day, s.month, s.year = dotShape, v[0], v[1], v[2]
	default:
		s.shape, s.month, s.day, s.year = slashShape, v[0], v[1], v[2]
	}
	return b, true
}

// clock takes hh:mm, hh:mm:ss or hh:mm:ss with a fraction, which is cut to microseconds.
func (s *stamp) clock(b []byte) ([]byte, bool) {
	var v [3]int64
	for i := range v {
		n := countDigits(b)
		if n == 0 || n > 2 {
			return b, false
		}
		v[i], b = small(b[:n]), b[n:]
		if i == 2 || i == 1 && (len(b) == 0 || b[0] != ':') {
			break
		}
		if len(b) == 0 || b[0] != ':' {
			return b, false
		}
		b = b[1:]
	}
	if v[0] > 23 || v[1] > 59 || v[2] > 60 { // a leap second is the next second
		return b, false
	}
	s.hasClock, s.micros = true, (v[0]*3600+v[1]*60+v[2])*perSecond
	if len(b) == 0 || b[0] != '.' && b[0] != ',' || len(b) == 1 || !isDigit(b[1]) {
		return b, true
	}
	b = b[1:]
	n := countDigits(b)
	for i, unit := 0, int64(perSecond/10); i < n && unit > 0; i, unit = i+1, unit/10 {
		s.micros += int64(b[i]-'0') * unit
	}
	return b[n:], true
}

// offset takes a zone such as +02:00, -0700 or +01.
func (s *stamp) offset(b []byte) ([]byte, bool) {
	sign := int64(1)
	if b[0] == '-' {
		sign = -1
	}
	b = b[1:]
	n := countDigits(b)
	if n != 2 && n != 4 {
		return b, false
	}
	h, m := small(b[:2]), int64(0)
	switch {
	case n == 4:
		m, b = small(b[2:4]), b[4:]
	case len(b) > 2 && b[2] == ':' && countDigits(b[3:]) == 2:
		m, b = small(b[3:5]), b[5:]
	default:
		b = b[2:]
	}
	s.zoned, s.east = true, sign*(h*3600+m*60)
	return b, h <= 15 && m <= 59
}

const (
	monthWords   = " january february march april may june july august september october november december "
	weekdayWords = " monday tuesday wednesday thursday friday saturday sunday "
)

// word takes the name of a month or weekday, of which three letters suffice, AM, PM, UTC, and the T and Z of ISO 8601.
func (s *stamp) word(b []byte) ([]byte, bool) {
	n := 0
	for n < len(b) && (b[n]|0x20 >= 'a' && b[n]|0x20 <= 'z') {
		n++
	}
	w, rest := strings.ToLower(string(b[:n])), b[n:]
	switch {
	case n == 0:
		return b, false
	case w == "t" && s.complete() && !s.hasClock:
		return rest, len(rest) > 0 && isDigit(rest[0])
	case (w == "z" || w == "utc" || w == "gmt") && s.hasClock && !s.zoned:
		s.zoned = true
		return rest, true
	case (w == "am" || w == "pm") && s.half == 0:
		s.half = w[0]
		return rest, true
	case n < 3:
		return b, false
	}
	if strings.Contains(weekdayWords, " "+w) {
		return rest, true
	}
	at := strings.Index(monthWords, " "+w)
	if at < 0 || s.month > 0 {
		return b, false
	}
	s.shape, s.month = namedShape, int64(strings.Count(monthWords[:at+1], " "))
	return rest, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func countDigits(b []byte) int {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}

// small is the number of at most 8 digits.
func small(digits []byte) int64 {
	n := int64(0)
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	return n
}
