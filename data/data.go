// Package data holds interactions: who touched what, when. It reads data sets,
// filters and splits them, names the evaluation protocols and generates a
// synthetic world. It never opens a file itself: callers hand it an fs.FS.
package data

import (
	"strconv"

	"github.com/tacit-rec/tacit/internal/base/rows"
)

// History is what one user did, oldest first. Of rows with the same time the
// one that comes first in the file counts as the newest, as in the reference
// code of the field.
type History struct {
	Items  []uint32
	Values []float32 // ratings or counts; nil when the data has none
	Times  []int64   // nil when the data has none
	First  int       // the number of the first row, for Features.Row

	own *scratch // what a source that generates rows writes to: the slices above may belong to another source
}

// Source yields one user at a time, so that a world of a million users need not
// be in memory. Methods may be called from several goroutines, each with its
// own History.
type Source interface {
	Users() int
	Items() int
	// History fills h with user u's rows. The slices may belong to the source:
	// they are read-only, and valid until the next call with the same h.
	History(u int, h *History)
	// Info returns what is known beside the rows. It is shared and read-only.
	Info() *Info
}

// Info describes a data set beside its rows.
type Info struct {
	Name string
	// sha256 of the indexed rows, in hexadecimal: the same for the same content whatever file it came from
	Hash     string
	TimeKind TimeKind
	// which columns of the file were taken for what, in words; empty if it came from no file; not hashed
	Columns string
	Left    string   // what a filter left out, in words; empty if nothing
	Title   []string // per item; nil if not known
	Genres  [][]string
	ItemID  []string // the identifier in the file, per item; nil if the number is all there is
	UserID  []string
	Attrs   []Attr
	// Features are the columns that a method may learn from; none of them tells what
	// is held out. Split.Features has them all.
	Features rows.Features
	Counted  bool // how much an item is used is a feature too: a split counts it in its train rows
}

// ItemName is how to show item i to a reader: its title if it has one.
func (in *Info) ItemName(i int) string {
	switch {
	case in.Title != nil:
		return in.Title[i]
	case in.ItemID != nil:
		return "item " + in.ItemID[i]
	}
	return "item " + strconv.Itoa(i)
}

// UserName is the user's identifier, or else the user's number.
func (in *Info) UserName(u int) string {
	if in.UserID != nil {
		return in.UserID[u]
	}
	return strconv.Itoa(u)
}

// Attr is one attribute of the users, such as age or occupation.
type Attr struct {
	Name   string
	Values []string // per user
}

// TimeKind says what the times of a data set are worth.
type TimeKind uint8

const (
	NoTime    TimeKind = iota // rows have no time; their order is the file's
	OrderOnly                 // times order the rows of one user, and mean nothing else
	RealTime                  // times can be compared between users
)

func (k TimeKind) String() string { return [...]string{"none", "order only", "real"}[k] }

// Set is a Source in memory: the rows of user u are Item[Start[u]:Start[u+1]].
type Set struct {
	Meta  Info
	NItem int
	Start []int
	Item  []uint32
	Value []float32 // nil when the data has none
	Time  []int64   // nil when the data has none
}

var _ Source = (*Set)(nil)

func (s *Set) Users() int  { return len(s.Start) - 1 }
func (s *Set) Items() int  { return s.NItem }
func (s *Set) Info() *Info { return &s.Meta }

func (s *Set) History(u int, h *History) {
	a, b := s.Start[u], s.Start[u+1]
	h.Items = s.Item[a:b:b]
	h.Values, h.Times, h.First = nil, nil, a
	if s.Value != nil {
		h.Values = s.Value[a:b:b]
	}
	if s.Time != nil {
		h.Times = s.Time[a:b:b]
	}
}
