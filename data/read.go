package data

import (
	"fmt"
	"io"
	"math"
	"strconv"
)

// Options says how to read a file and which rows to keep. The zero value detects the format and keeps every row.
type Options struct {
	Sep    string // "" detects it; otherwise tab, "::", comma, semicolon, pipe or space, as a word or literally
	Header string // "auto" (also ""), "yes" or "no"
	// Columns is "" to detect them; otherwise "user,_,item,rating,time", "user=uid,item=app" or "user=1,item=3". The
	// roles are user, item, rating, time, title and genres (of the item), and any number of columns of context.
	Columns string
	// TimeFormat is "auto" (also "") to detect it, "number", or the order in dates such as 1/11/2000: "month-first" or
	// "day-first".
	TimeFormat string

	// The filters, in the order they are applied. Users and items are numbered by first appearance in the
	// remaining rows.
	Threshold    float32 // drops rows with a lower value, if HasThreshold
	HasThreshold bool
	// Dedup keeps the "first" or "last" of a user's rows with the same item; "none" (also "") keeps all.
	Dedup   string
	MinRows int // drops users with fewer rows; 0 keeps all
	KCore   int // drops users and items with fewer rows until all that remain have as many; 0 keeps all
}

const maxRows = math.MaxInt32

// reading is how the rows of a set are read: the options, and what is known only about the files of known sets.
type reading struct {
	Options
	dates dates
	per   int64 // divisor that makes times seconds; 0 detects it
	order order // the times of rows if no column has any
	// context are the header names of columns of categories, which become Features.Row.
	context []string
	notes   bool // say which columns are not used
	split   bool // the parts are those of a split
}

// part is one of the files with a set's rows.
type part struct {
	r    io.Reader // text; or nil
	file string
	rows Table
	kind uint8 // of a split's rows
}

// Read reads a set from delimited text or JSON lines, plain or gzip. The name goes into Info.Name and errors. A
// quoted field must not span lines. Times are numbers or dates; they order rows by their full precision and are
// then rounded down to seconds. Malformed content is an *InputError.
func Read(r io.Reader, name string, opt Options) (*Set, error) {
	return load(name, []part{{r: r, file: name}}, reading{Options: opt, notes: true}, maxRows)
}

// load reads the parts one after the other, as if they were one file.
func load(name string, parts []part, how reading, limit int) (*Set, error) {
	if how.Dedup == "none" {
		how.Dedup = ""
	}
	if how.Dedup != "" && how.Dedup != "first" && how.Dedup != "last" {
		return nil, &InputError{File: name, Found: how.Dedup, Expected: "dedup to be none, first or last"}
	}
	if how.KCore < 0 || how.KCore > maxRows {
		return nil, &InputError{File: name, Found: fmt.Sprint(how.KCore), Expected: "a k-core of 0 or more"}
	}
	l := &loader{name: name, how: how, limit: limit, users: newIndex(), items: newIndex(), shown: &shown{}}
	for _, p := range parts {
		if err := l.read(p); err != nil {
			return nil, err
		}
	}
	return l.finish()
}

// table is the rows in the file's order. value and time are nil if the file lacks the column.
type table struct {
	user, item []uint32
	value      []float32
	time       []int64
	context    [][]uint32 // by column of categories
	partOf     []uint8    // train, validation or test; nil unless files give the split
}

type loader struct {
	*layout
	table
	name         string
	how          reading
	in           input
	limit        int
	users, items *index
	fields       [][]byte
	inContext    []*index // the categories, by column
	at           []int    // the columns
	// fractions is set by the first time that is not an integer: from then on, time holds sort keys.
	fractions bool
	days      *dateColumn // nil if times are numbers
	shown     *shown
}

// read adds the rows of one part.
func (l *loader) read(p part) (err error) {
	if l.in, l.layout, err = p.open(l.how); err != nil {
		return err
	}
	if l.how.HasThreshold && l.col[ratingCol] < 0 {
		return &InputError{File: p.file, Found: "no rating column", Expected: "a rating column to compare with the " +
			"threshold"}
	}
	if err := l.sameTimes(p.file); err != nil {
		return err
	}
	l.findContext()
	before, width := len(l.user), l.width()
	for _, c := range l.at {
		width = max(width, c+1)
	}
	for {
		f, err := l.in.next(width)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(l.user) == l.limit {
			return l.bad(f[l.col[userCol]], fmt.Sprintf("at most %d rows", l.limit), "")
		}
		if err := l.row(f); err != nil {
			return err
		}
		if l.how.split {
			l.partOf = append(l.partOf, p.kind)
		}
	}
	if t, ok := l.in.(*tableRows); ok && l.how.notes {
		l.notes = append(l.notes, t.lateNotes()...)
	}
	if len(l.user) == before {
		_, line := l.in.position()
		return &InputError{File: p.file, Line: line, Expected: "at least one row after the header"}
	}
	return nil
}

func (l *loader) row(f [][]byte) error {
	l.fields = f
	user, item := f[l.col[userCol]], f[l.col[itemCol]]
	if !isID(user) {
		return l.badField(userCol, "an identifier")
	}
	if !isID(item) {
		return l.badField(itemCol, "an identifier")
	}
	if c := l.col[ratingCol]; c >= 0 {
		v, ok := value(f[c])
		if !ok {
			return l.badField(ratingCol, "a number")
		}
		l.value = append(l.value, v)
	}
	if c := l.col[timeCol]; c >= 0 && l.how.dates != noDates {
		t, ok := l.how.dates.seconds(f[c:])
		if !ok {
			return l.badField(timeCol, l.how.dates.expected())
		}
		l.time = append(l.time, t)
	} else if c >= 0 && l.days != nil {
		var ok bool
		if l.time, ok = l.days.add(l.time, f[c], l.format); !ok {
			return l.badField(timeCol, l.days.expected(l.format))
		}
	} else if c >= 0 && !l.addTime(f[c]) {
		return l.badField(timeCol, "a number")
	}
	for k, c := range l.at {
		l.context[k] = append(l.context[k], l.inContext[k].of(f[c]))
	}
	l.user = append(l.user, l.users.of(user))
	l.item = append(l.item, l.items.of(item))
	l.shown.add(l.item[len(l.item)-1], f, l.col[titleCol], l.col[genresCol])
	return nil
}

// sameTimes checks that all parts of a set write times as the first does.
func (l *loader) sameTimes(file string) error {
	dated := l.format != asNumbers
	if len(l.user) > 0 && l.col[timeCol] >= 0 && dated != (l.days != nil) {
		return &InputError{
			File: file, Found: "times in another format", Expected: "times as in the first file",
			Hint: "write all times as ISO 8601 dates or as Unix seconds",
		}
	}
	if len(l.user) > 0 && (l.col[timeCol] >= 0) != (l.time != nil) {
		return &InputError{File: file, Found: "a time column in some files", Expected: "times in all files or in none"}
	}
	if len(l.user) > 0 && (l.col[ratingCol] >= 0) != (l.value != nil) {
		return &InputError{
			File: file, Found: "a rating column in some files",
			Expected: "ratings in all files or in none",
		}
	}
	if dated && l.days == nil {
		l.days = &dateColumn{}
	}
	return nil
}

func (l *loader) addTime(b []byte) bool {
	t, ok := integer(b)
	if !ok {
		n, err := strconv.ParseInt(string(b), 10, 64)
		t, ok = n, err == nil
	}
	f := float64(t)
	if !ok {
		if f, ok = number(b); !ok || f < math.MinInt64 || f >= math.MaxInt64 {
			return false
		}
		if t = int64(f); float64(t) != f && !l.fractions {
			l.fractions = true
			for i, t := range l.time {
				l.time[i] = sortKey(float64(t))
			}
		}
	}
	if l.fractions {
		t = sortKey(f)
	}
	l.time = append(l.time, t)
	return true
}

func (l *loader) bad(found []byte, want, hint string) error {
	file, line := l.in.position()
	return &InputError{File: file, Line: line, Found: short(found), Expected: want, Hint: hint}
}

func (l *loader) badField(role int, want string) error {
	c, hint := l.col[role], ""
	if role == timeCol && l.how.dates == noDates {
		hint = "write times as ISO 8601 dates or as Unix seconds, or name the columns to use"
	}
	return l.bad(l.fields[c], fmt.Sprintf("%s in column %d (%s)", want, c+1, roleNames[role]), hint)
}

func (s sep) name() string {
	for i, c := range seps {
		if s == c {
			return sepNames[i]
		}
	}
	return string(s)
}

// index numbers identifiers by first appearance.
type index struct {
	names []string
	small []uint32 // by short decimal identifier: its number plus one
	other map[string]uint32
}

func newIndex() *index { return &index{other: map[string]uint32{}} }

func (x *index) of(b []byte) uint32 {
	k, ok := decimal(b)
	if !ok {
		if n, ok := x.other[string(b)]; ok {
			return n
		}
		x.other[string(b)] = uint32(len(x.names))
		return x.add(b)
	}
	if k >= len(x.small) {
		x.small = append(x.small, make([]uint32, k+1-len(x.small))...)
	}
	if n := x.small[k]; n > 0 {
		return n - 1
	}
	x.small[k] = uint32(len(x.names)) + 1
	return x.add(b)
}

func (x *index) add(b []byte) uint32 {
	x.names = append(x.names, text(b))
	return uint32(len(x.names) - 1)
}

// decimal parses identifiers that are small numbers in canonical form, so that different identifiers have different
// numbers.
func decimal(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 6 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
