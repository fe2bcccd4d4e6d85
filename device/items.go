package device

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Item is an item of the federation's catalogue.
type Item struct {
	ID    string `json:"id"`
	Title string `json:"title"` // as the coordinator wrote it: a page must escape it
	Known bool   `json:"known"` // the catalogue has the item
}

// Search returns up to n items of the catalogue whose title or ID has a word that starts with each word of the
// text, popular items first. An empty text matches every item. Retired items are left out. It makes no calls.
func (d *Device) Search(text string, n int) ([]Item, error) {
	w := d.opt.Workspace
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := d.loadNewest(); err != nil {
		return nil, err
	}
	words := wordsOf(text)
	var found []uint32
	for i := range uint32(w.catalogue.len()) {
		it := w.catalogue.item(i)
		if !it.Retired && matches(it.Title+" "+it.Id, words) {
			found = append(found, i)
		}
	}
	rank := w.catalogue.popularity()
	slices.SortStableFunc(found, func(a, b uint32) int { return cmp.Compare(rank[a], rank[b]) })
	out := []Item{}
	for _, i := range found[:min(max(n, 0), len(found))] {
		it := w.catalogue.item(i)
		out = append(out, Item{ID: it.Id, Title: it.Title, Known: true})
	}
	return out, nil
}

// Items returns the catalogue's entries of item IDs, in their order.
func (d *Device) Items(ids ...string) ([]Item, error) {
	w := d.opt.Workspace
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := d.loadNewest(); err != nil {
		return nil, err
	}
	out := make([]Item, len(ids))
	for x, id := range ids {
		out[x].ID = id
		if i, ok := w.catalogue.lookup(id); ok {
			out[x].Title, out[x].Known = w.catalogue.item(i).Title, true
		}
	}
	return out, nil
}

// Events returns the recorded events, in the order in which they were added.
func (d *Device) Events() ([]Event, error) {
	if err := d.refresh(); err != nil {
		return nil, err
	}
	return slices.Clone(d.record.History.Events), nil
}

// Remove removes all events with an item, and returns their number. A model that was trained on them does not
// change.
func (d *Device) Remove(item string) (removed int, err error) {
	err = d.update(func(r *record) error {
		before := len(r.History.Events)
		r.History.Events = slices.DeleteFunc(r.History.Events, func(e Event) bool { return e.Item == item })
		if removed = before - len(r.History.Events); removed == 0 {
			return errUnchanged
		}
		return nil
	})
	return removed, err
}

// wordsOf returns the words of a text in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// matches reports whether a text has, for each of the words, a word that starts with it.
func matches(text string, words []string) bool {
	if len(words) == 0 {
		return true
	}
	have := wordsOf(text)
	for _, word := range words {
		if !slices.ContainsFunc(have, func(h string) bool { return strings.HasPrefix(h, word) }) {
			return false
		}
	}
	return true
}
