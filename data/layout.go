package data

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The roles of columns, in the order of files without a header.
const (
	userCol = iota
	itemCol
	ratingCol
	timeCol
	titleCol
	genresCol
	roles
	contextCol = roles // any number of columns
	allRoles   = roles + 1
)

// maxContexts is the largest number of context columns.
const maxContexts = 32

var roleNames = [allRoles]string{"user", "item", "rating", "time", "title", "genres", "context"}

// sepNames are the names of separators; detection tries them in this order.
var (
	sepNames = []string{"tab", "::", "comma", "semicolon", "pipe", "space"}
	seps     = []sep{"\t", "::", ",", ";", "|", " "}
)

// headerNames are the names of columns in public data sets, in lower case, reduced to letters and digits.
var headerNames = [roles]string{
	userCol: " user userid uid customer customerid reviewer reviewerid member memberid visitorid client clientid " +
		"profileid ",
	itemCol: " item itemid iid movie movieid film filmid product productid asin isbn parentasin artist artistid app " +
		"appid book bookid track trackid song songid game gameid businessid video videoid news newsid article " +
		"articleid ",
	ratingCol: " rating ratings value score stars overall bookrating count cnt weight plays playcount ",
	timeCol:   " time timestamp ts unixtime unixreviewtime unixtimestamp date datetime reviewtime createdat ",
	titleCol: " title itemtitle movietitle filmtitle producttitle booktitle songtitle itemname moviename productname " +
		"artistname trackname songname appname bookname ",
	genresCol: " genre genres category categories ",
}

// layout is how to read the lines of one file.
type layout struct {
	sep         sep
	header      bool
	names       []string   // from the header; nil without one, or if it is not UTF-8 and no column is named
	col         [roles]int // the column of each role, from 0; -1 if the file has none
	contextCols []int      // the columns of the role context
	kind        string     // the format of a file without separators
	dates       dates
	format      timeFormat
	notes       []string // for people: columns that are not used
}

func (y *layout) width() int {
	w := 0
	for _, c := range append(y.col[:], y.contextCols...) {
		w = max(w, c+1)
	}
	return max(w, y.col[timeCol]+y.dates.columns())
}

// newLayout detects what the options leave open from the first lines.
func newLayout(in *lines, how reading) (*layout, error) {
	opt := how.Options
	head, first, err := in.probe(32)
	if err != nil {
		return nil, err
	}
	if len(head) == 0 {
		return nil, &InputError{File: in.file, Expected: "at least one row"}
	}
	y := &layout{dates: how.dates}
	bad := &InputError{File: in.file}
	if y.sep, bad.Expected = findSep(opt.Sep, head); y.sep == "" {
		if bad.Found = opt.Sep; opt.Sep == "" {
			bad.Line, bad.Found = first, short(head[0])
			bad.Hint = "set --sep"
			if line := openQuote(head); line != nil {
				bad.Line, bad.Found = 0, short(line)
				bad.Expected = "a closing quote in the same line"
				bad.Hint = "remove line breaks within fields, or write JSON lines"
			}
		}
		return nil, bad
	}
	rows := make([][][]byte, len(head))
	for i, line := range head {
		rows[i], _ = y.sep.split(line, -1, nil)
	}
	if bad := y.resolve(how, rows); bad != nil {
		if bad.File = in.file; bad.Line > 0 {
			bad.Line = first
		}
		return nil, bad
	}
	return y, nil
}

// resolve assigns the columns from the first rows.
func (y *layout) resolve(how reading, rows [][][]byte) *InputError {
	spec, bad := parseColumns(how.Columns)
	if bad == nil && y.kind == "" {
		bad = y.findHeader(how.Options, spec, rows)
	}
	if bad == nil {
		bad = y.place(spec, rows)
	}
	if bad == nil {
		bad = y.findFormat(how.TimeFormat, rows)
	}
	if bad == nil && how.notes {
		y.notes = y.unused(rows)
	}
	return bad
}

// openQuote returns the first line in which a quoted field does not end, if the lines before it are separated by commas
// or semicolons; otherwise nil.
func openQuote(head [][]byte) []byte {
	for _, c := range []sep{",", ";"} {
		for _, line := range head {
			f, closed := c.split(bytes.Clone(line), -1, nil)
			if !closed {
				return line
			}
			if len(f) < 2 {
				break
			}
		}
	}
	return nil
}

// findSep returns the requested separator, otherwise the first one that splits all lines into the same number of
// columns, otherwise the first that splits all lines. Among comma, semicolon and pipe, the one with the most columns
// is preferred: in "1;2;3,5" the comma is a decimal point.
func findSep(asked string, head [][]byte) (s sep, want string) {
	if asked != "" {
		for i, name := range sepNames {
			if asked == name || asked == string(seps[i]) {
				return seps[i], ""
			}
		}
		return "", oneOf("separator", sepNames)
	}
	var even, some sep
	columns := 0
	for _, c := range seps {
		least, most := len(head[0])+2, 0
		for _, line := range head {
			f, _ := c.split(append([]byte(nil), line...), -1, nil)
			least, most = min(least, len(f)), max(most, len(f))
		}
		if least < 2 {
			continue
		}
		if some == "" {
			some = c
		}
		if least == most && (even == "" || even != "\t" && even != "::" && c != " " && least > columns) {
			even, columns = c, least
		}
	}
	if even == "" {
		even = some
	}
	return even, "at least two columns separated by one of " + strings.Join(sepNames, ", ")
}

// findHeader decides whether the first line names the columns. In doubt, it does if it has words where the second
// line has ratings and times. Identifiers prove nothing, because they can be words or numbers.
func (y *layout) findHeader(opt Options, spec []column, rows [][][]byte) *InputError {
	switch opt.Header {
	case "yes":
		y.header = true
	case "no":
		if byName(spec) {
			return &InputError{Found: opt.Columns, Expected: "columns by number, because the file has no header"}
		}
	case "", "auto":
		y.header = byName(spec) || y.looksNamed(spec, rows)
	default:
		return &InputError{Found: opt.Header, Expected: "a header among auto, yes, no"}
	}
	return nil
}

func (y *layout) looksNamed(spec []column, rows [][][]byte) bool {
	known := 0
	for _, f := range rows[0] {
		for _, names := range headerNames {
			if isNamed(f, names) {
				known++
				break
			}
		}
	}
	if known >= 2 || len(rows) < 2 {
		return known >= 2
	}
	if spec == nil {
		spec = []column{{role: ratingCol, index: 2}, {role: timeCol, index: 3}}
	}
	words, numbers := 0, 0
	for _, c := range spec {
		if c.role != ratingCol && c.role != timeCol || c.index >= min(len(rows[0]), len(rows[1])) {
			continue
		}
		if !y.counts(c, rows[0]) {
			words++
		}
		if y.counts(c, rows[1]) {
			numbers++
		}
	}
	return words > 0 && words == numbers
}

// counts reports whether column c has a rating or a time.
func (y *layout) counts(c column, f [][]byte) bool {
	if c.role == timeCol && y.dates != noDates {
		_, ok := y.dates.seconds(f[c.index:])
		return ok
	}
	_, ok := number(f[c.index])
	return ok || c.role == timeCol && isDate(f[c.index])
}

func isNamed(field []byte, names string) bool {
	w := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(string(field)))
	return w != "" && strings.Contains(names, " "+w+" ")
}

// place assigns a column to each role.
func (y *layout) place(spec []column, rows [][][]byte) *InputError {
	for r := range y.col {
		y.col[r] = -1
	}
	for _, c := range spec {
		if c.name != "" {
			if c.index = indexOf(rows[0], c.name); c.index < 0 {
				return badHeader(rows[0], fmt.Sprintf("a column named %q in the header", c.name),
					nearest(c.name, headerText(rows[0])))
			}
			if indexOf(rows[0][c.index+1:], c.name) >= 0 {
				return badHeader(rows[0], fmt.Sprintf("one column named %q", c.name),
					"use the column's number, from 1")
			}
		}
		if c.role == contextCol {
			y.contextCols = append(y.contextCols, c.index)
			continue
		}
		y.col[c.role] = c.index
	}
	if spec == nil && !y.header {
		y.placeByOrder(rows)
	} else if spec == nil {
		if bad := y.placeByName(rows[0]); bad != nil {
			return bad
		}
	}
	if y.header && (byName(spec) || utf8.Valid(bytes.Join(rows[0], nil))) {
		y.names = headerText(rows[0])
	}
	if w := y.width(); y.header && w > len(rows[0]) {
		return &InputError{
			Line: 1, Found: fmt.Sprintf("%d columns", len(rows[0])),
			Expected: fmt.Sprintf("at least %d columns", w),
		}
	}
	return nil
}

// byName reports whether a column is requested by its name in the header.
func byName(spec []column) bool {
	return slices.ContainsFunc(spec, func(c column) bool { return c.name != "" })
}

func indexOf(fields [][]byte, name string) int {
	for i, f := range fields {
		if text(f) == name {
			return i
		}
	}
	return -1
}

func headerText(header [][]byte) []string {
	names := make([]string, len(header))
	for i, f := range header {
		names[i] = text(f)
	}
	return names
}

func badHeader(header [][]byte, want, hint string) *InputError {
	return &InputError{Line: 1, Found: short([]byte(strings.Join(headerText(header), " "))), Expected: want, Hint: hint}
}

// placeByName assigns columns by known names. It rejects a header without a user and an item, because a wrong guess
// would go unnoticed.
func (y *layout) placeByName(header [][]byte) *InputError {
	for r, names := range headerNames {
		for i, f := range header {
			if !isNamed(f, names) {
				continue
			}
			if y.col[r] >= 0 && r > timeCol {
				break
			}
			if y.col[r] >= 0 {
				hint := "set --columns user=NAME,item=NAME"
				if r > itemCol {
					hint += "," + roleNames[r] + "=NAME"
				}
				return badHeader(header, "a header that names one column for "+roleNames[r], hint)
			}
			y.col[r] = i
		}
	}
	if y.col[userCol] < 0 || y.col[itemCol] < 0 {
		return badHeader(header, "columns named user and item", "set --columns user=NAME,item=NAME")
	}
	return nil
}

// placeByOrder assigns user, item, rating, time in this order in a file without a header, and item, user if the
// identifiers are Amazon's. A third and last column is a time if all its values are dates, or as large as Unix
// times since 1973.
func (y *layout) placeByOrder(rows [][][]byte) {
	n := len(rows[0])
	y.col[userCol], y.col[itemCol] = 0, 1
	if !slices.ContainsFunc(rows, func(f [][]byte) bool { return len(f) < 4 || !isASIN(f[0]) || !isReviewer(f[1]) }) {
		y.col[userCol], y.col[itemCol] = 1, 0
	}
	if n > 3 {
		y.col[ratingCol], y.col[timeCol] = 2, 3
	}
	if n != 3 {
		return
	}
	y.col[ratingCol] = 2
	big := true
	for _, f := range rows {
		if len(f) < 3 {
			return
		}
		big = big && isTime(f[2])
	}
	if big {
		y.col[ratingCol], y.col[timeCol] = -1, 2
	}
}

// isASIN and isReviewer recognise Amazon's identifiers. Its files of 2014 have the reviewer first
// (A1EE2E3N7PW666,B000GFDAUG,5.0,1202774400), those of 2018 the product; neither has a header.
func isASIN(b []byte) bool {
	return len(b) == 10 && (b[0] == 'B' || '0' <= b[0] && b[0] <= '9') && isUpper(b)
}

func isReviewer(b []byte) bool {
	return len(b) >= 10 && len(b) <= 32 && b[0] == 'A' && isUpper(b)
}

func isUpper(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return (c < '0' || c > '9') && (c < 'A' || c > 'Z') })
}
