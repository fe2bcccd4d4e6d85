package data

import "fmt"

// timeFormat is how the time column of a file is written.
type timeFormat uint8

const (
	asNumbers  timeFormat = iota // seconds, milliseconds and so on
	asDates                      // in any shape; the order of day and month is detected
	monthFirst                   // 11/1/2000 is the first of November
	dayFirst
)

var timeFormatNames = []string{"auto", "number", "month-first", "day-first"}

// findFormat finds how times are written from the first rows, unless it is set by the user.
func (y *layout) findFormat(asked string, rows [][][]byte) *InputError {
	c := y.col[timeCol]
	switch asked {
	case "", "auto":
		if c >= 0 && y.dates == noDates && (y.holds(c, rows, isCompactDate) || y.startsWithDate(c, rows)) {
			y.format = asDates
		}
		return nil
	case "number":
		return nil
	case "month-first":
		y.format = monthFirst
	case "day-first":
		y.format = dayFirst
	default:
		return &InputError{
			Found: asked, Expected: oneOf("time format", timeFormatNames),
			Hint: nearest(asked, timeFormatNames),
		}
	}
	if c < 0 || y.dates != noDates {
		return &InputError{Found: asked, Expected: "a time column that holds dates", Hint: "name it: --columns " +
			y.setting() + ",time=NAME"}
	}
	return nil
}

// startsWithDate reports whether the first row has a date, and not a number, in a column.
func (y *layout) startsWithDate(c int, rows [][][]byte) bool {
	if y.header {
		rows = rows[1:]
	}
	return len(rows) > 0 && c < len(rows[0]) && isDate(rows[0][c]) && !isNumber(rows[0][c])
}

func isNumber(b []byte) bool {
	_, ok := number(b)
	return ok
}

// isCompactDate recognises 20001101 and 20001101183000 in the years 1900 to 2100. As Unix seconds, the first are days
// in August 1970; the second are after the year 2570 in milliseconds and in 1970 in microseconds.
func isCompactDate(b []byte) bool {
	if n := countDigits(b); n != len(b) || n != 8 && n != 14 {
		return false
	}
	year := small(b[:4])
	return year >= 1900 && year <= 2100 && isDate(b)
}

// dateColumn collects the dates of a time column.
type dateColumn struct {
	other  []int64 // the moments read day first, if they can differ from those read month first
	shapes [dateShapes]bool
	// badMonth and badDay are the first slashed dates that are invalid month first and day first.
	badMonth, badDay string
	zoned, local     bool
	example          string // a slashed date
}

// add reads a date and appends it to the times in microseconds, read month first.
func (d *dateColumn) add(times []int64, b []byte, format timeFormat) ([]int64, bool) {
	var s stamp
	if !s.parse(b) {
		return times, false
	}
	m, o, ok1, ok2 := s.moments()
	switch {
	case s.shape == slashShape && format == dayFirst:
		m, ok1 = o, ok2
	case s.shape == slashShape && format == asDates:
		if !ok1 && !ok2 || !ok1 && d.badDay != "" || !ok2 && d.badMonth != "" {
			return times, false
		}
		if d.other == nil {
			d.other, d.example = append(make([]int64, 0, cap(times)), times...), string(b)
		}
		if !ok1 {
			d.badMonth = string(b)
		}
		if !ok2 {
			d.badDay = string(b)
		}
		ok1 = true
	}
	if !ok1 {
		return times, false
	}
	d.shapes[s.shape] = true
	if s.zoned {
		d.zoned = true
	} else if s.hasClock {
		d.local = true
	}
	if d.other != nil {
		d.other = append(d.other, o)
	}
	return append(times, m), true
}

// expected says what an invalid date should have been.
func (d *dateColumn) expected(format timeFormat) string {
	switch {
	case format == dayFirst || format == asDates && d.badMonth != "":
		return "a date such as 2000-11-30 or 30/11/2000, day first as in other rows,"
	case format == monthFirst || format == asDates && d.badDay != "":
		return "a date such as 2000-11-30 or 11/30/2000, month first as in other rows,"
	}
	return "a date such as 2000-11-30 or 2000-11-30T18:30:00Z"
}

// choose returns the times in the order of day and month that fits all dates.
func (d *dateColumn) choose(times []int64) ([]int64, *InputError) {
	if d.other == nil || d.badDay != "" {
		return times, nil
	}
	if d.badMonth != "" {
		return d.other, nil
	}
	for i, t := range times {
		if d.other[i] != t {
			return nil, &InputError{
				Found:    d.example,
				Expected: "dates of which at least one has a day above 12, so that the order of day and month is known",
				Hint:     "add --time-format day-first or --time-format month-first",
			}
		}
	}
	return times, nil
}

// describe names the form of the dates.
func (d *dateColumn) describe(format timeFormat) string {
	out := ""
	for shape, seen := range d.shapes {
		if !seen {
			continue
		}
		name := shapeNames[shape]
		if dateShape(shape) == slashShape && (format == monthFirst || format == asDates && d.badDay != "") {
			name = "month/day/year"
		}
		if out != "" {
			out += " and "
		}
		out += name
	}
	switch {
	case d.zoned && d.local:
		out += ", UTC without a zone"
	case d.local:
		out += ", no zone: UTC"
	}
	return fmt.Sprintf("times: %s", out)
}
