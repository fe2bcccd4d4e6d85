package data

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what a file says about an item.
const (
	maxTitle  = 300 // bytes
	maxGenres = 32  // of an item
	maxGenre  = 60  // bytes
)

// shown is what the rows of a file say about their items: the first title and the first genres of each.
type shown struct {
	title    []string
	genres   [][]string
	conflict []bool // by item: a later row has another title
}

// add notes the title and the genres of a row; the number of a missing column is negative.
func (s *shown) add(item uint32, f [][]byte, titleAt, genresAt int) {
	if titleAt >= 0 {
		s.title = grow(s.title, item)
		s.conflict = grow(s.conflict, item)
		if old, b := s.title[item], f[titleAt]; old == "" {
			s.title[item] = title(b)
		} else if old != string(b) && len(b) > 0 && old != title(b) {
			s.conflict[item] = true
		}
	}
	if genresAt >= 0 {
		s.genres = grow(s.genres, item)
		if s.genres[item] == nil {
			s.genres[item] = genres(f[genresAt])
		}
	}
}

func grow[T any](list []T, at uint32) []T {
	if int(at) < len(list) {
		return list
	}
	return append(list, make([]T, int(at)+1-len(list))...)
}

// renumber moves the items to their new numbers: to holds them plus one, 0 for an item that is gone.
func (s *shown) renumber(to []uint32, items int) {
	s.title, s.genres, s.conflict = moved(s.title, to, items), moved(s.genres, to, items), moved(s.conflict, to, items)
}

func moved[T any](list []T, to []uint32, n int) []T {
	if list == nil {
		return nil
	}
	out := make([]T, n)
	for old, v := range list {
		if to[old] > 0 {
			out[to[old]-1] = v
		}
	}
	return out
}

// fill sets the titles, genres and notes of a set. A detected column in which the titles of an item differ, such as
// the titles of reviews, is ignored; a column set by the user is not.
func (s *shown) fill(set *Set, asked bool) {
	differ := 0
	for _, c := range s.conflict {
		if c {
			differ++
		}
	}
	useTitles := slices.ContainsFunc(s.title, func(t string) bool { return t != "" })
	switch {
	case differ > 0 && !asked && differ*10 > set.NumItems:
		useTitles = false
		set.note("the title column is ignored: %d of %d items have several titles; set it with --columns to use the "+
			"first", differ, set.NumItems)
	case differ > 0:
		set.note("%d of %d items have several titles; the first is used", differ, set.NumItems)
	}
	useGenres := slices.ContainsFunc(s.genres, func(g []string) bool { return len(g) > 0 })
	if !useTitles && !useGenres {
		return
	}
	set.titles()
	if useTitles {
		for i, t := range s.title {
			if t != "" {
				set.Meta.Title[i] = t
			}
		}
	} else {
		set.Meta.Title = nil
	}
	if useGenres {
		copy(set.Meta.Genres, s.genres)
		set.Meta.Features.Item = append(set.Meta.Features.Item, genreColumns(set.Meta.Genres)...)
	} else {
		set.Meta.Genres = nil
	}
}

func (s *Set) note(format string, args ...any) {
	s.Meta.Notes = append(s.Meta.Notes, fmt.Sprintf(format, args...))
}

// title makes a title from a file safe for a terminal, and cuts it.
func title(b []byte) string { return clean(b, maxTitle) }

// clean cuts a text to at most that many bytes, not within a letter, and replaces what does not print by spaces.
func clean(b []byte, most int) string {
	if len(b) > most {
		cut := most
		if utf8.Valid(b) {
			for !utf8.RuneStart(b[cut]) {
				cut--
			}
		}
		b = b[:cut]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text(b)))
}

// genres splits a list of genres, such as Drama|War, "Drama, War" or ['Drama', 'War'].
func genres(b []byte) []string {
	b = bytes.Trim(b, "[] ")
	by := "|"
	if bytes.IndexByte(b, '|') < 0 {
		if by = ","; bytes.IndexByte(b, ';') >= 0 {
			by = ";"
		}
	}
	var out []string
	for _, g := range bytes.Split(b, []byte(by)) {
		name := clean(bytes.Trim(g, " '\""), maxGenre)
		if name == "" || strings.HasPrefix(name, "(no genres") || slices.Contains(out, name) {
			continue
		}
		if out = append(out, name); len(out) == maxGenres {
			break
		}
	}
	return out
}
