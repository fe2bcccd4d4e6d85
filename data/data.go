// Package data holds interactions of users with items. It reads data sets, filters and splits them, defines the
// evaluation protocols and generates a synthetic world. It never opens a file or a connection: callers pass an fs.FS
// or an io.Reader.
//
// Users and items are numbered from 0 by first appearance; Info has their identifiers.
package data

import (
	"strconv"

	"github.com/tacit-rec/tacit/internal/base/rows"
)

// History is the rows of one user, oldest first. Among rows with the same time, the first in the file counts as the
// newest, as in the reference code of the field.
type History struct {
	Items  []uint32
	Values []float32 // ratings or counts; nil if the data has none
	Times  []int64   // nil if the data has none
	First  int       // the number of the first row, for Features.Row

	own *scratch // memory of a generating source; the slices above may belong to another source
}

// Source yields one user at a time, so that a world of a million users need not be in memory. Its methods are safe
// for concurrent use, each goroutine with its own History.
type Source interface {
	Users() int
	Items() int
	// History fills h with user u's rows. The slices are read-only and valid until the next call with the same h.
	History(u int, h *History)
	// Info describes the data set. It is shared and read-only.
	Info() *Info
}

// Info describes a data set.
type Info struct {
	Name string
	// Hash is the SHA-256 of the indexed rows in hexadecimal: equal for equal content in any file format. It depends
	// on the genres and the context in a user's file, and on a split or a time cut that the user chose.
	Hash     string
	TimeKind TimeKind
	// Columns says in words which columns were detected or set by the user; empty if there was no file.
	Columns     string
	Notes       []string // what a person should know about how the file was read, such as unused columns
	FilteredOut string   // the rows that filters dropped, in words
	Split       string   // the split that the user's files give, in words; empty if a protocol splits the rows
	Title       []string // per item; nil if unknown
	Genres      [][]string
	ItemID      []string // the identifier in the file, per item; nil if there are only numbers
	UserID      []string
	Attrs       []Attr
	// Features are the columns that a method may learn from; none of them reveals held-out items. Split.Features
	// returns all of them.
	Features    Features
	CountsUsage bool // usage counts are an item feature: a split counts them in its train rows
}

// Features are the columns of features of users, items and rows.
type Features = rows.Features

// ItemName is the name of item i for people: its title if it has one.
func (in *Info) ItemName(i int) string {
	switch {
	case in.Title != nil:
		return in.Title[i]
	case in.ItemID != nil:
		return "item " + in.ItemID[i]
	}
	return "item " + strconv.Itoa(i)
}

// UserName is the user's identifier, or its number in a set without identifiers.
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

// TimeKind says what the times of a data set mean.
type TimeKind uint8

const (
	NoTime    TimeKind = iota // rows have no time; their order is that of the file
	OrderOnly                 // times order the rows of one user only
	RealTime                  // times are comparable between users
)

func (k TimeKind) String() string { return [...]string{"none", "order only", "real"}[k] }

// Set is a Source in memory: the rows of user u are Item[Start[u]:Start[u+1]].
type Set struct {
	Meta     Info
	NumItems int
	Start    []int
	Item     []uint32
	Value    []float32 // nil if the data has none
	Time     []int64   // nil if the data has none
	// ValidFrom and TestFrom are, for each user, the positions in its rows at which its validation and test rows start.
	// They are nil if a protocol splits the rows.
	ValidFrom, TestFrom []int32
}

var _ Source = (*Set)(nil)

func (s *Set) Users() int  { return len(s.Start) - 1 }
func (s *Set) Items() int  { return s.NumItems }
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
