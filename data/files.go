package data

import (
	"fmt"
	"io"
)

// Input is one file of interactions: text, or a table if Table is set.
type Input struct {
	Name  string
	Text  io.Reader
	Table Table
}

// Read reads the file by itself. Options.Sep and Options.Header do not apply to a table.
func (in Input) Read(opt Options) (*Set, error) {
	return load(in.Name, []part{in.part(trainPart)}, reading{Options: opt, notes: true}, maxRows)
}

func (in Input) part(kind uint8) part {
	return part{r: in.Text, rows: in.Table, file: in.Name, kind: kind}
}

// The kinds of rows of a set whose split is given by files.
const (
	trainPart uint8 = iota
	validPart
	testPart
	parts
)

// Files are the train, validation and test rows of a split that the user made. Without a validation file (the zero
// Input), a user's newest train row is its validation row.
type Files struct{ Train, Valid, Test Input }

// ReadFiles reads a set whose split is given by files. Options apply to all of them; of Dedup, to each by itself.
func ReadFiles(f Files, opt Options) (*Set, error) {
	list := []part{f.Train.part(trainPart)}
	if f.Valid.Name != "" {
		list = append(list, f.Valid.part(validPart))
	}
	list = append(list, f.Test.part(testPart))
	return load(f.Train.Name, list, reading{Options: opt, notes: true, split: true}, maxRows)
}

// bound sets ValidFrom and TestFrom from the kinds of the rows in their new order, and says what was read.
func (l *loader) bound(s *Set, order []int32) {
	if !l.how.split {
		return
	}
	s.ValidFrom, s.TestFrom = make([]int32, s.Users()), make([]int32, s.Users())
	var rows [parts]int
	for _, kind := range l.partOf {
		rows[kind]++
	}
	cold := 0
	for u := range s.Users() {
		var n [parts]int32
		for _, i := range order[s.Start[u]:s.Start[u+1]] {
			n[l.partOf[i]]++
		}
		from, to := n[trainPart], n[trainPart]+n[validPart]
		if rows[validPart] == 0 && from > 1 {
			from--
		}
		s.ValidFrom[u], s.TestFrom[u] = from, to
		if n[trainPart] == 0 {
			cold++
		}
	}
	s.Meta.Split = fmt.Sprintf("by files: %d train, %d validation and %d test rows", rows[trainPart],
		rows[validPart], rows[testPart])
	if rows[validPart] == 0 {
		s.Meta.Split = fmt.Sprintf("by files: %d train rows, of which each user's newest is for validation, and %d "+
			"test rows", rows[trainPart], rows[testPart])
	}
	if cold > 0 {
		s.note("%d of %d users have no train rows and are not evaluated", cold, s.Users())
	}
}
