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

// Event is one interaction of the owner with an item. The device keeps events with items that the
// catalogue does not have, and trains on them once it has.
type Event struct {
	Item string `json:"i"` // item ID
	Time int64  `json:"t"` // milliseconds since 1970
	// Features are the features of the interaction as a URL query, such as
	// daytime=evening&weather=sunny. WithFeatures sets them.
	Features string `json:"w,omitempty"`
}

// history is the recorded events, in the order of Add.
type history struct {
	Events []Event `json:"events,omitempty"`
	Last   int     `json:"last,omitempty"` // keep only this many newest events; 0 means no limit below maxEvents
	Days   int     `json:"days,omitempty"` // drop older events; 0 means no limit
}

// Limits of a history.
const (
	maxEvents  = 100_000
	maxIDBytes = 256
)

func (h *history) check() error {
	if len(h.Events) > maxEvents || h.Last < 0 || h.Days < 0 {
		return fmt.Errorf("a history of %d events: must be at most %d", len(h.Events), maxEvents)
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
		return fmt.Errorf("item ID of %d bytes: must be 1 to %d", len(e.Item), maxIDBytes)
	}
	if _, err := url.ParseQuery(e.Features); err != nil || len(e.Features) > 16*maxIDBytes {
		return fmt.Errorf("event features of %d bytes: must be columns and values in at most %d bytes",
			len(e.Features), 16*maxIDBytes)
	}
	return nil
}

// retain drops the events beyond the limits.
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

// source is the training data of a device.
type source interface {
	// fill sets Train, Rating, Rows and Hide of a task, with indices in the catalogue, and returns
	// the held-out item, if any. The slices still belong to the source.
	fill(c *catalogue, t *local.Task) (heldOut uint32, ok bool)
}

// simulated is the source of a simulated device.
type simulated func(t *local.Task) (heldOut uint32, ok bool)

func (s simulated) fill(_ *catalogue, t *local.Task) (uint32, bool) { return s(t) }

// recordedEvents is the source of a device whose owner adds events.
type recordedEvents struct {
	*history
	holdOut  bool
	features []string // event features of the filled items
}

// fill orders events by time. The held-out item is the one whose first event is the newest. All its
// events stay out of training until the owner adds a newer item.
func (h *recordedEvents) fill(c *catalogue, t *local.Task) (heldOut uint32, ok bool) {
	order := slices.Clone(h.Events)
	slices.SortStableFunc(order, byTime)
	t.Train, h.features = t.Train[:0], h.features[:0]
	seen := map[uint32]bool{}
	for _, e := range order {
		at, known := c.lookup(e.Item)
		if !known {
			continue
		}
		t.Train, h.features = append(t.Train, at), append(h.features, e.Features)
		if !seen[at] {
			seen[at] = true
			heldOut = at
		}
	}
	if !h.holdOut || len(seen) < 2 {
		return 0, false
	}
	n := 0
	for x, i := range t.Train {
		if i != heldOut {
			t.Train[n], h.features[n] = i, h.features[x]
			n++
		}
	}
	t.Train, h.features = t.Train[:n], h.features[:n]
	return heldOut, true
}

// ReadEvents reads CSV lines of an item ID and an optional time: seconds since 1970, or a time such
// as 2026-05-01T10:00:00Z. Lines without a time keep their order, before those with one. A header
// line that begins with item, item_id or id may name more columns: time, and event features.
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
			return nil, fmt.Errorf("history: %w", err)
		}
		line, _ := in.FieldPos(0)
		if first && slices.Contains([]string{"item", "item_id", "id"}, strings.TrimSpace(f[0])) {
			if len(f) > 2 || len(f) == 2 && strings.TrimSpace(f[1]) == "rating" {
				head = columnsOf(f)
			}
			continue
		}
		if len(f) > len(head) {
			return nil, fmt.Errorf("history, line %d: %d columns: expected item ID, or item ID and time; a header "+
				"line may "+
				"name more", line, len(f))
		}
		e := Event{Time: int64(len(out))}
		if err := e.read(head, f); err != nil {
			return nil, fmt.Errorf("history, line %d: %w", line, err)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("history, line %d: %w", line, err)
		}
		if out = append(out, e); len(out) > maxEvents {
			return nil, fmt.Errorf("history: more than %d lines; keep the newest", maxEvents)
		}
	}
}

// columnsOf returns the column names of a header line.
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

// read sets the event from the fields of a line. Empty fields are missing values.
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
	return 0, fmt.Errorf("time %q: must be seconds since 1970, or a time such as 2026-05-01T10:00:00Z", s)
}
