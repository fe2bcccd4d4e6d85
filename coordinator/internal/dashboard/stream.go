package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// hub looks at the coordinator while pages are open, once for all of them. No lock is held while a page is written to.
type hub struct {
	source   Source
	interval time.Duration
	limit    int
	life     context.Context
	end      context.CancelFunc

	looking sync.Mutex // one look at a time

	mu      sync.Mutex
	streams int
	newest  *frame
	changed chan struct{} // closed when newest is replaced
	stop    context.CancelFunc
}

// frame is a snapshot, and its cards as far as pages asked for them.
type frame struct {
	at       time.Time
	snapshot Snapshot

	mu    sync.Mutex
	cards map[access]map[string]string
}

// cardsFor renders the cards once for each kind of reader.
func (f *frame) cardsFor(a access) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cards[a] == nil {
		f.cards[a] = renderCards(&f.snapshot, a)
	}
	return f.cards[a]
}

func newHub(source Source, interval time.Duration, limit int) *hub {
	h := &hub{source: source, interval: interval, limit: limit, changed: make(chan struct{})}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

func (h *hub) close() { h.end() }

// look returns a frame that is at most half an interval old.
func (h *hub) look() *frame { return h.lookSince(time.Now().Add(-h.interval / 2)) }

// lookSince returns a frame that is not older than a time.
func (h *hub) lookSince(oldest time.Time) *frame {
	h.looking.Lock()
	defer h.looking.Unlock()
	h.mu.Lock()
	f := h.newest
	h.mu.Unlock()
	if f != nil && f.at.After(oldest) {
		return f
	}
	f = &frame{at: time.Now(), snapshot: h.source.Snapshot(), cards: map[access]map[string]string{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = f
	close(h.changed)
	h.changed = make(chan struct{})
	return f
}

var errFull = errors.New("too many pages are open")

// enter adds a stream. The first one starts the looks, and the last one that leaves ends them.
func (h *hub) enter() (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams >= h.limit {
		return nil, errFull
	}
	if h.streams++; h.streams == 1 {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(h.life)
		go func() {
			for pause := h.interval; sleep(ctx, pause); {
				start := time.Now()
				h.look()
				pause = max(h.interval, 20*time.Since(start)) // of one core, looks take 5 % at most
			}
		}()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.streams--; h.streams == 0 {
			h.stop()
		}
	}, nil
}

// wait returns the newest frame, and a channel that is closed when there is another.
func (h *hub) wait() (*frame, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest, h.changed
}

const (
	keepAlive   = 15 * time.Second // between signs of life
	writeWithin = 10 * time.Second // a page that reads slower is dropped, and may connect again
)

// events streams the cards of the overview that change.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request, s *session) {
	leave, err := d.hub.enter()
	if err != nil {
		w.Header().Set("Retry-After", "30")
		d.fail(w, r, http.StatusServiceUnavailable, "Too many pages receive events. Close some, or reload this one "+
			"for new numbers.")
		return
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies must not collect events
	out := &stream{w: w, control: http.NewResponseController(w), sent: map[string]string{}}
	_ = out.control.SetReadDeadline(time.Time{})
	if out.write("retry: 3000\n\n") != nil {
		return
	}
	d.hub.look()
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	level := levelOf(s)
	for {
		if s != nil && d.session(r) == nil { // it has ended
			return
		}
		f, changed := d.hub.wait()
		if out.cards(f.cardsFor(level)) != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-d.hub.life.Done():
			return
		case <-alive.C:
			if out.write(": alive\n\n") != nil {
				return
			}
		case <-changed:
		}
	}
}

// stream is a page that receives events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    map[string]string
}

func (s *stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin)) // tests have no connection
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}

// cards sends those that differ from what the page has.
func (s *stream) cards(all map[string]string) error {
	news := map[string]string{}
	for id, html := range all {
		if s.sent[id] != html {
			news[id], s.sent[id] = html, html
		}
	}
	if len(news) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("event: cards\ndata: ")
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(news); err != nil { // on one line, with its end
		return err
	}
	return s.write(b.String() + "\n")
}
