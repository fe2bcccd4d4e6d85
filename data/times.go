package data

import (
	"bytes"
	"fmt"
)

// order is the source of the times of a set whose files have none, in the words of Info.Columns.
type order string

const (
	byItem order = "the item's first row" // in the files: a user's newest row is the item that was introduced last
	byRow  order = "the row's place"      // the files list a user's rows oldest first
)

// times makes the times of rows by the items they have, which are numbered by
// first appearance.
func (o order) times(item []uint32) []int64 {
	out := make([]int64, len(item))
	for i, x := range item {
		if out[i] = int64(i); o == byItem {
			out[i] = int64(x)
		}
	}
	return out
}

// dates is how a file writes times that are not numbers. Only the day counts.
type dates uint8

const (
	noDates     dates = iota
	dateText          // 2000-11-01, perhaps with a time of day after a space, or 11/1/2000
	dateColumns       // day, month and year, in the time's column and the two after it
)

// columns is the number of columns of a time.
func (d dates) columns() int {
	if d == dateColumns {
		return 3
	}
	return 1
}

func (d dates) expected() string {
	if d == dateColumns {
		return "the day, month and year of a date, starting"
	}
	return "a date such as 2000-11-01 or 11/1/2000"
}

// seconds reads the date that f starts with, as Unix seconds at midnight UTC.
func (d dates) seconds(f [][]byte) (int64, bool) {
	if len(f) < d.columns() {
		return 0, false
	}
	if d == dateColumns {
		return midnight(f[2], f[1], f[0])
	}
	day, clock, _ := bytes.Cut(f[0], []byte(" "))
	if len(bytes.Trim(clock, "0123456789:.")) > 0 {
		return 0, false
	}
	if p := bytes.Split(day, []byte("-")); len(p) == 3 {
		return midnight(p[0], p[1], p[2])
	}
	if p := bytes.Split(day, []byte("/")); len(p) == 3 {
		return midnight(p[2], p[0], p[1])
	}
	return 0, false
}

var monthDays = [...]int64{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func midnight(year, month, day []byte) (int64, bool) {
	y, ok1 := integer(year)
	m, ok2 := integer(month)
	d, ok3 := integer(day)
	if !ok1 || !ok2 || !ok3 {
		return 0, false
	}
	n, ok := daysSince1970(y, m, d)
	return n * secondsPerDay, ok
}

const toEpoch = 719468 // days from 0000-03-01 to 1970-01-01

// momentText writes Unix seconds as ISO 8601, in UTC.
func momentText(t int64) string {
	days := floor(t, secondsPerDay)
	clock := t - days*secondsPerDay
	days += toEpoch
	const cycle = 146097 // days of 400 years
	cycles := floor(days, cycle)
	days -= cycles * cycle
	y := (days - days/1460 + days/36524 - days/(cycle-1)) / 365 // of the cycle, from March
	day := days - (365*y + y/4 - y/100)
	m := (5*day + 2) / 153
	d := day - (153*m+2)/5 + 1
	if m += 3; m > 12 {
		m -= 12
		y++
	}
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02dZ", y+400*cycles, m, d, clock/3600, clock/60%60, clock%60)
}

// daysSince1970 counts the days from 1970-01-01 to a day of the Gregorian calendar. It is false if the date is invalid
// or outside the years 1 to 9999.
func daysSince1970(y, m, d int64) (int64, bool) {
	if y < 1 || y > 9999 || m < 1 || m > 12 || d < 1 || d > monthDays[m-1] {
		return 0, false
	}
	if m == 2 && d == 29 && (y%4 != 0 || y%100 == 0 && y%400 != 0) {
		return 0, false
	}
	// Years begin in March, so that the leap day is the last day of a year.
	if m -= 3; m < 0 {
		m += 12
		y--
	}
	return 365*y + y/4 - y/100 + y/400 + (m*306+5)/10 + d - 1 - toEpoch, true
}
