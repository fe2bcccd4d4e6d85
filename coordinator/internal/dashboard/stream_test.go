package dashboard

import (
	"bufio"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// stream opens a stream and returns its events, until the test ends.
func (s *site) stream(url string) (status int, events chan string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/dashboard/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: s.cookie})
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	events = make(chan string, 1000)
	go func() {
		defer a.Body.Close()
		defer close(events)
		for lines := bufio.NewScanner(a.Body); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				events <- text
			}
		}
	}()
	return a.StatusCode, events
}

// receive waits for an event with a text.
func receive(t *testing.T, events chan string, want string) {
	t.Helper()
	for end := time.After(patience); ; {
		select {
		case e, open := <-events:
			if !open {
				t.Fatalf("the stream ended before %q", want)
			}
			if strings.Contains(e, want) {
				return
			}
		case <-end:
			t.Fatalf("no event with %q in %v", want, patience)
		}
	}
}

func (f *fake) looked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks
}

func TestStreamsSendWhatChanges(t *testing.T) {
	s := newSite(t, true)
	web := httptest.NewServer(s.d)
	t.Cleanup(func() { s.d.Close(); web.Close() })
	_, events := s.stream(web.URL)
	receive(t, events, `"history":`) // all cards at first
	s.set(func(x *Snapshot) { x.State = "paused" })
	for end := time.After(patience); ; {
		select {
		case e := <-events:
			if !strings.Contains(e, "Paused") {
				continue
			}
			if strings.Contains(e, `"history":`) {
				t.Error("a card that did not change is sent again")
			}
			return
		case <-end:
			t.Fatal("the change did not arrive")
		}
	}
}

func TestStreamsAreLimited(t *testing.T) {
	s := newSite(t, true) // two streams
	web := httptest.NewServer(s.d)
	t.Cleanup(func() { s.d.Close(); web.Close() })
	for range 2 {
		status, events := s.stream(web.URL)
		if status != http.StatusOK {
			t.Fatalf("a stream: %d", status)
		}
		receive(t, events, "state")
	}
	if status, _ := s.stream(web.URL); status != http.StatusServiceUnavailable {
		t.Errorf("a third stream: %d, want %d", status, http.StatusServiceUnavailable)
	}
	if w := s.do("/dashboard/", nil); w.Code != http.StatusOK {
		t.Errorf("the overview beside two streams: %d", w.Code)
	}
}

// A page that nobody looks at costs nothing: the looks end with the last stream.
func TestLooksEndWithTheLastStream(t *testing.T) {
	s := newSite(t, true)
	leave, err := s.d.hub.enter()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); s.looked() < 3 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	leave()
	s.d.hub.looking.Lock() // a look that had begun has ended
	n := s.looked()
	s.d.hub.looking.Unlock()
	time.Sleep(10 * s.d.opt.Interval)
	if got := s.looked(); n < 3 || got > n+1 {
		t.Errorf("%d looks while a page was open, %d afterwards", n, got-n)
	}
}

func TestAStreamEndsWithItsSession(t *testing.T) {
	s := newSite(t, false)
	s.signIn("secret")
	web := httptest.NewServer(s.d)
	t.Cleanup(func() { s.d.Close(); web.Close() })
	_, events := s.stream(web.URL)
	receive(t, events, "b-pause")
	s.revoked.Store(true)
	for end := time.After(patience); ; {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-end:
			t.Fatal("the stream of a revoked token does not end")
		}
	}
}

// stuck is a client that does not read.
type stuck struct {
	http.ResponseWriter
	deadline chan time.Time
	release  chan struct{}
}

func (s *stuck) Write([]byte) (int, error) {
	<-s.release
	return 0, os.ErrDeadlineExceeded
}

func (s *stuck) Flush() {}

func (s *stuck) SetWriteDeadline(at time.Time) error {
	select {
	case s.deadline <- at:
	default:
	}
	return nil
}

// A client that does not read holds up nobody, and has a deadline.
func TestAStuckClientHoldsUpNobody(t *testing.T) {
	s := newSite(t, true)
	web := httptest.NewServer(s.d)
	t.Cleanup(func() { s.d.Close(); web.Close() })
	w := &stuck{httptest.NewRecorder(), make(chan time.Time, 1), make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.d.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/dashboard/events", nil))
	}()
	select {
	case at := <-w.deadline:
		if left := time.Until(at); left > writeWithin {
			t.Errorf("the deadline is %v from now", left)
		}
	case <-time.After(patience):
		t.Fatal("the stuck client has no deadline")
	}
	_, events := s.stream(web.URL)
	receive(t, events, "state")
	s.set(func(x *Snapshot) { x.State = "disk-full" })
	receive(t, events, "Disk full")
	close(w.release)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the stream of a client that missed its deadline does not end")
	}
}

func TestTheDashboardIsSmall(t *testing.T) {
	s := newSite(t, true)
	s.set(func(x *Snapshot) { *x = calm() })
	s.plain.Store(true)
	total := len(s.do("/dashboard/", nil).Body.String())
	for name := range contentTypes {
		total += s.do("/dashboard/assets/"+name, nil).Body.Len()
	}
	if total > 200_000 {
		t.Errorf("the overview and its assets have %d bytes, more than 200,000", total)
	}
	if n := s.do("/dashboard/catalogue", nil).Body.Len(); n > 120_000 {
		t.Errorf("the catalogue with its map has %d bytes", n)
	}
}

func TestMapsAreLeftOutWithAReason(t *testing.T) {
	for _, v := range []*Vectors{
		{Dim: 2, Titles: []string{"a", "b"}, Rows: make([]float32, 4)},
		{Dim: 1, Titles: []string{"a", "b", "c"}, Rows: make([]float32, 3)},
		{Dim: 2, Titles: []string{"a", "b", "c"}, Rows: make([]float32, 6)},
		{Dim: 2, Titles: []string{"a", "b", "c"}, Rows: make([]float32, 5)},
	} {
		if m, err := project(v); err == nil {
			t.Errorf("%+v has a map: %+v", v, m)
		}
	}
	wide := &Vectors{Dim: 5000, Titles: []string{"a", "like a", "other"}, Rows: make([]float32, 15000)}
	for j := range 5000 {
		wide.Rows[j], wide.Rows[5000+j] = float32(j%7), float32(j%7)+.01
		wide.Rows[10000+j] = float32(j % 5)
	}
	m, err := project(wide)
	if err != nil {
		t.Fatal(err)
	}
	if p := m.Points; math.Hypot(p[0].X-p[1].X, p[0].Y-p[1].Y) > math.Hypot(p[0].X-p[2].X, p[0].Y-p[2].Y)/2 {
		t.Errorf("of three items, the two that are alike are not near each other: %v", p)
	}
	v := &Vectors{Dim: 2, Titles: []string{"left", "right", "middle"}, Rows: []float32{-1, 0, 1, 0, 0, 0}}
	if m, err = project(v); err != nil {
		t.Fatal(err)
	}
	if p := m.Points; p[2].X < min(p[0].X, p[1].X) || p[2].X > max(p[0].X, p[1].X) {
		t.Errorf("the point between two others is at %v", p)
	}
	for i, p := range m.Points {
		for _, q := range m.Points[:i] {
			if p.Label != "" && q.Label != "" && p.LabelY == q.LabelY && p.LabelX == q.LabelX {
				t.Error("two labels have the same place")
			}
		}
	}
}
