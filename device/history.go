package device

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/local"
)

// Event is one thing that the owner of a device did. Item is the catalogue's id;
// one that the catalogue does not have is kept, and learnt from when it has it.
type Event struct {
	Item string `json:"i"`
	Time int64  `json:"t"` // milliseconds since 1970
	// Features is the moment, for methods with features of interactions: columns and their
	// values as a query such as daytime=evening&weather=sunny. In sets it.
	Features string `json:"w,omitempty"`
}

// history is what a device has recorded, in the order in which it was told.
type history struct {
	Events []Event `json:"events,omitempty"`
	Last   int     `json:"last,omitempty"` // only so many newest are kept; 0 keeps what fits
	Days   int     `json:"days,omitempty"` // and none older; 0 for no such limit
}

// Limits of a history.
const (
	maxEvents  = 100_000
	maxIDBytes = 256
)

func (h *history) check() error {
	if len(h.Events) > maxEvents || h.Last < 0 || h.Days < 0 {
		return fmt.Errorf("agent: a history of %d events: at most %d are kept", len(h.Events), maxEvents)
	}
	for _, e := range h.Events {
		if err := e.check(); err != nil {
			return err
		}
	}
	return nil
}

func (e *Event) check() error {
	if e.Item == "" || len(e.Item) > maxIDBytes {
		return fmt.Errorf("agent: an item id of %d bytes: want 1 to %d", len(e.Item), maxIDBytes)
	}
	if _, err := url.ParseQuery(e.Features); err != nil || len(e.Features) > 16*maxIDBytes {
		return fmt.Errorf("agent: an event with a moment of %d bytes: want columns and values, in at most %d bytes",
			len(e.Features), 16*maxIDBytes)
	}
	return nil
}

// retain drops what is older or more than the limits say.
func (h *history) retain(now time.Time) {
	if h.Days > 0 {
		from := now.AddDate(0, 0, -h.Days).UnixMilli()
		h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Time < from })
	}
	most := maxEvents
	if h.Last > 0 {
		most = min(most, h.Last)
	}
	n := len(h.Events) - most
	if n <= 0 {
		return
	}
	order := slices.Clone(h.Events)
	slices.SortStableFunc(order, byTime)
	drop := map[Event]int{}
	for _, e := range order[:n] {
		drop[e]++
	}
	h.Events = slices.DeleteFunc(h.Events, func(e Event) bool {
		drop[e]--
		return drop[e] >= 0
	})
}

func byTime(a, b Event) int {
	switch {
	case a.Time < b.Time:
		return -1
	case a.Time > b.Time:
		return 1
	}
	return 0
}

// Source is what a device trains on.
type Source interface {
	// Fill sets Train, Rating, Rows and Hide of a task, with the catalogue's places, and
	// returns the item that is held out for evaluation; false for none. The slices stay
	// the source's.
	Fill(c *Catalogue, t *local.Task) (held uint32, ok bool)
}

// recordedEvents is the source of a device that is told events.
type recordedEvents struct {
	*history
	holdOut  bool
	features []string // the moments of what was filled
}

// Fill is by time. The item held out is the one whose first event is the newest: with
// all its events it stays out of training until a newer item comes, and then joins.
func (h *recordedEvents) Fill(c *Catalogue, t *local.Task) (held uint32, ok bool) {
	order := slices.Clone(h.Events)
	slices.SortStableFunc(order, byTime)
	t.Train, h.features = t.Train[:0], h.features[:0]
	seen := map[uint32]bool{}
	for _, e := range order {
		at, known := c.Index(e.Item)
		if !known {
			continue
		}
		t.Train, h.features = append(t.Train, at), append(h.features, e.Features)
		if !seen[at] {
			seen[at], held = true, at
		}
	}
	if !h.holdOut || len(seen) < 2 {
		return 0, false
	}
	n := 0
	for x, i := range t.Train {
		if i != held {
			t.Train[n], h.features[n] = i, h.features[x]
			n++
		}
	}
	t.Train, h.features = t.Train[:n], h.features[:n]
	return held, true
}

// ReadEvents reads lines of item id, or item id and time (seconds since 1970, or as
// 2026-05-01T10:00:00Z). Lines without a time keep their order, before those with one.
// A head, which begins with item, item_id or id, may name more columns: time is the time,
// and others are what the moment was like.
func ReadEvents(r io.Reader) ([]Event, error) {
	in := csv.NewReader(io.LimitReader(r, maxHeaderBytes))
	in.FieldsPerRecord, in.ReuseRecord, in.TrimLeadingSpace, in.Comment = -1, true, true, '#'
	head := []string{"item", "time"}
	var out []Event
	for first := true; ; first = false {
		f, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("agent: a history: %w", err)
		}
		line, _ := in.FieldPos(0)
		if first && slices.Contains([]string{"item", "item_id", "id"}, strings.TrimSpace(f[0])) {
			if len(f) > 2 {
				head = columnsOf(f)
			}
			continue
		}
		if len(f) > len(head) {
			return nil, fmt.Errorf("agent: line %d of a history has %d columns: want item id, or item id and time; "+
				"a first line may name more", line, len(f))
		}
		e := Event{Time: int64(len(out))}
		if err := e.read(head, f); err != nil {
			return nil, fmt.Errorf("agent: line %d of a history: %w", line, err)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("line %d of a history: %w", line, err)
		}
		if out = append(out, e); len(out) > maxEvents {
			return nil, fmt.Errorf("agent: a history of more than %d lines; keep the newest", maxEvents)
		}
	}
}

// columnsOf are the names in a head.
func columnsOf(f []string) []string {
	head := []string{"item"}
	for _, name := range f[1:] {
		if name = strings.TrimSpace(name); name == "timestamp" {
			name = "time"
		}
		head = append(head, strings.Clone(name))
	}
	return head
}

// read takes the fields of a line. Empty ones were not told.
func (e *Event) read(head, f []string) (err error) {
	with := map[string]string{}
	for i, text := range f {
		text = strings.TrimSpace(strings.Clone(text))
		switch {
		case i == 0:
			e.Item = text
		case head[i] == "time" && (text != "" || len(head) == 2):
			if e.Time, err = parseTime(text); err != nil {
				return err
			}
		case head[i] != "time" && text != "":
			with[head[i]] = text
		}
	}
	*e = e.WithFeatures(with)
	return nil
}

func parseTime(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 && n < 1<<42 {
		return 1000 * n, nil
	}
	for _, form := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("time %q: want seconds since 1970, or a time such as 2026-05-01T10:00:00Z", s)
}
