package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hostile is a title that would be markup if it were not escaped.
const hostile = `"><img src=x onerror=alert(1)><script>alert(2)</script>`

// fake is a coordinator.
type fake struct {
	mu    sync.Mutex
	s     Snapshot
	calls []string
	looks int
	fails error
	plain atomic.Bool // titles are ordinary
}

// text is hostile, or an ordinary one.
func (f *fake) text(plain string) string {
	if f.plain.Load() {
		return plain
	}
	return hostile
}

func (f *fake) Snapshot() Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return f.s
}

func (f *fake) set(change func(*Snapshot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.s)
}

func (f *fake) Devices(from uint32, limit int) (out []Device, next uint32) {
	for i := range uint32(limit) {
		out = append(out, Device{
			ID: from + i, State: "excluded", Reason: f.text("its shares contradict each other"),
			Software: f.text("tacit-android 2.4.1"), Note: f.text("first wave"),
		})
	}
	return out, from + uint32(limit)
}

func (f *fake) Items(from uint64, limit int) Items {
	out := Items{Version: 3, Count: 100_000, Next: int(from) + limit}
	for i := range limit {
		title := f.text("Some film (1987)")
		out.List = append(out.List, Item{ID: fmt.Sprint(int(from) + i), Title: title, Retired: i%2 == 1})
	}
	return out
}

func (f *fake) Vectors(limit int) (*Vectors, error) {
	if f.fails != nil {
		return nil, f.fails
	}
	v := &Vectors{Version: 9, Table: "item", Dim: 3, Items: 100_000}
	for i := range limit {
		v.Titles = append(v.Titles, f.text(fmt.Sprintf("Film number %d (1987)", i)))
		v.Rows = append(v.Rows, float32(i%7), float32(i%11), float32(i%3))
	}
	return v, nil
}

func (f *fake) Audit(int) ([]Entry, string, error) {
	return []Entry{{Call: "POST pause", Operator: "ann", Args: f.text("{}"), Outcome: "ok"}}, "", nil
}

func (f *fake) Call(_ *http.Request, o Operator, path string, args any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprint(o.Name, " ", path, " ", args))
	return f.fails
}

func (f *fake) made() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, "; ")
}

// full is a snapshot in which every part has something to show.
func full() Snapshot {
	at := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	e, b, d := 3.5, 8.0, 1e-6
	s := Snapshot{
		Time: at, Name: hostile, State: "training", Message: hostile,
		Run: Run{
			Begun: true, Number: 2, Method: "fedmf", Round: 12, Rounds: 40, Version: 17, Items: 800, NextRun: &at,
		},
		Open: &OpenRound{Number: 13, Began: at, Stages: Stages{CheckedIn: 90, Selected: 80, Reported: 61}},
		Privacy: Privacy{
			On: true, Epsilon: &e, Budget: &b, Delta: &d, Period: 1, Run: 1, Runs: 1, Lines: 143, LedgerOK: true,
		},
		Devices: Devices{
			Enrolled: 100, Active: 90, Excluded: 2, List: []Excluded{{ID: 7, Reason: hostile}, {ID: 9, Reason: "lied"}},
			Programs: []Program{{Name: hostile, Devices: 90}},
		},
		Upload:  Upload{Sent: []string{"change of " + hostile}, Kept: []string{hostile}, Bytes: 1234},
		Traffic: Traffic{Received: 123456, Sent: 999, Refusals: []Refusal{{Code: "unknown_key", Count: 4}}},
		History: []Version{{Number: 17, Run: 2, Round: 12, Newest: true}, {Number: 16, Run: 2, Round: 11}},
	}
	for i := range 30 {
		s.Rounds = append(s.Rounds, Round{
			Run: 2, Number: i + 1, Seconds: 2, Ended: at, Received: 1000, Sent: 2000, Discarded: i == 3,
			Stages: Stages{CheckedIn: 90, Selected: 80, Reported: 70},
		})
		s.Quality.Evaluations = append(s.Quality.Evaluations, Evaluation{
			Run: 2, Round: i + 1, HR10: .2 + float64(i)/100, Popular: true, PopHR10: .3, NoiseFraction: .02,
			Devices: 80,
		})
	}
	return s
}

// site is a dashboard with a client that keeps cookies by hand.
type site struct {
	*fake
	d       *Dashboard
	t       *testing.T
	cookie  string
	revoked atomic.Bool
	now     time.Time
}

func newSite(t *testing.T, open bool) *site {
	s := &site{fake: &fake{s: full()}, t: t, now: time.Now()}
	operators := map[string]Operator{"secret": {Name: "ann"}, "look": {Name: "grafana", ReadOnly: true}}
	find := func(token string) (Operator, bool) {
		o, ok := operators[token]
		return o, ok && !s.revoked.Load()
	}
	s.d = New(Options{
		Source: s.fake, Open: open, Interval: 20 * time.Millisecond, Streams: 2,
		Now: func() time.Time { return s.now },
		SignIn: func(_ *http.Request, token string) (Operator, error) {
			if o, ok := find(token); ok {
				return o, nil
			}
			return Operator{}, errors.New("wrong token")
		},
		Valid: func(_ *http.Request, token string) (Operator, bool) { return find(token) },
	})
	t.Cleanup(s.d.Close)
	return s
}

// do sends a request; form is nil for GET.
func (s *site) do(path string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
	if form != nil {
		r = httptest.NewRequest("POST", "http://127.0.0.1"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if s.cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: s.cookie})
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.d.ServeHTTP(w, r)
	return w
}

// signIn signs in and returns the token of forms.
func (s *site) signIn(token string) string {
	s.t.Helper()
	w := s.do("/dashboard/sign-in", url.Values{"token": {token}})
	c := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(c) != 1 {
		s.t.Fatalf("signing in: %d, %d cookies", w.Code, len(c))
	}
	s.cookie = c[0].Value
	m := regexp.MustCompile(`name="form_token" value="([0-9a-f]{64})"`).FindStringSubmatch(
		s.do("/dashboard/", nil).Body.String())
	if m == nil {
		s.t.Fatal("the overview has no form token")
	}
	return m[1]
}

func TestPagesRequireAToken(t *testing.T) {
	s := newSite(t, false)
	for _, path := range []string{"/", "/catalogue", "/devices", "/log", "/rollback?version=16"} {
		w := s.do("/dashboard"+path, nil)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/dashboard/sign-in" {
			t.Errorf("%s without a session: %d to %q, want the sign-in page", path, w.Code, w.Header().Get("Location"))
		}
	}
	if w := s.do("/dashboard/events", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("events without a session: %d", w.Code)
	}
	if w := s.do("/dashboard/sign-in", url.Values{"token": {"guess"}}); w.Code != http.StatusUnauthorized ||
		len(w.Result().Cookies()) > 0 || !strings.Contains(w.Body.String(), "wrong token") {
		t.Errorf("a wrong token: %d, cookies %v", w.Code, w.Result().Cookies())
	}
	w := s.do("/dashboard/sign-in", url.Values{"token": {"secret"}}, func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if w.Code != http.StatusForbidden {
		t.Errorf("a sign-in from another site: %d", w.Code)
	}
	s.signIn("secret")
	for _, path := range []string{"/", "/catalogue", "/devices", "/log", "/rollback?version=16"} {
		if w := s.do("/dashboard"+path, nil); w.Code != http.StatusOK {
			t.Errorf("%s with a session: %d", path, w.Code)
		}
	}
	c := s.do("/dashboard/sign-in", url.Values{"token": {"secret"}}).Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != Prefix {
		t.Errorf("the cookie is %+v, want HttpOnly, SameSite=Strict and the path of the pages", c)
	}
}

func TestSessionsEnd(t *testing.T) {
	s := newSite(t, false)
	s.signIn("secret")
	s.now = s.now.Add(sessionTime + time.Second)
	if w := s.do("/dashboard/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("a session after %v: %d", sessionTime, w.Code)
	}
	form := s.signIn("secret")
	s.revoked.Store(true)
	w := s.do("/dashboard/pause", url.Values{"form_token": {form}})
	if w.Code != http.StatusUnauthorized || s.made() != "" {
		t.Errorf("the token is revoked: %d, calls %q", w.Code, s.made())
	}
	s.revoked.Store(false)
	form = s.signIn("secret")
	s.do("/dashboard/sign-out", url.Values{"form_token": {form}})
	if w := s.do("/dashboard/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("a session after signing out: %d", w.Code)
	}
	for range maxSessions + 5 {
		s.d.sessions.add(&session{begun: s.now})
	}
	if n := len(s.d.sessions.all); n > maxSessions {
		t.Errorf("%d sessions, the limit is %d", n, maxSessions)
	}
}

func TestChangesRequireTheTokenOfTheForm(t *testing.T) {
	s := newSite(t, true)
	if w := s.do("/dashboard/pause", url.Values{}); w.Code != http.StatusUnauthorized {
		t.Errorf("a change without a session: %d", w.Code)
	}
	form := s.signIn("secret")
	for _, bad := range []string{"", form[:63], strings.Repeat("0", 64)} {
		if w := s.do("/dashboard/pause", url.Values{"form_token": {bad}}); w.Code != http.StatusForbidden {
			t.Errorf("the form token %q: %d", bad, w.Code)
		}
	}
	w := s.do("/dashboard/pause", url.Values{"form_token": {form}}, func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "same-site")
	})
	if w.Code != http.StatusForbidden || s.made() != "" {
		t.Errorf("a form of another site: %d, calls %q", w.Code, s.made())
	}
	if w := s.do("/dashboard/pause?form_token="+form, nil); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET pause: %d", w.Code)
	}
	for path, more := range map[string]url.Values{
		"pause": {}, "resume": {}, "rollback": {"version": {"16"}}, "readmit": {"device_id": {"7"}},
	} {
		more.Set("form_token", form)
		if w := s.do("/dashboard/"+path, more); w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, want := range []string{
		"ann pause {}", "ann resume {}", "ann rollback map[version:16]", "ann devices/readmit map[device_id:7]",
	} {
		if !strings.Contains(s.made(), want) {
			t.Errorf("calls are %q, want %q", s.made(), want)
		}
	}
	before := s.made()
	for _, path := range []string{"rollback", "readmit"} { // otherwise version 0 or device 0
		s.do("/dashboard/"+path, url.Values{"form_token": {form}})
		if body := s.do("/dashboard/", nil).Body.String(); s.made() != before || !strings.Contains(body, "has no ") {
			t.Errorf("%s without a number: calls are %q", path, s.made())
		}
	}
	s.fails = errors.New("mechanism=tree cannot be rolled back <b>")
	s.do("/dashboard/rollback", url.Values{"form_token": {form}, "version": {"16"}})
	if body := s.do("/dashboard/", nil).Body.String(); !strings.Contains(body, "cannot be rolled back &lt;b&gt;") {
		t.Error("the overview does not say why a call failed")
	}
	if strings.Contains(s.do("/dashboard/", nil).Body.String(), "cannot be rolled back") {
		t.Error("the notice is shown twice")
	}
}

func TestReadersSeeNoFormsAndNoDevices(t *testing.T) {
	s := newSite(t, true)
	body := s.do("/dashboard/", nil).Body.String()
	for _, secret := range []string{`form="pause"`, "/dashboard/rollback", "form_token", "<b>7</b>"} {
		if strings.Contains(body, secret) {
			t.Errorf("a reader without a token sees %q", secret)
		}
	}
	for _, path := range []string{"/devices", "/log", "/rollback?version=16"} {
		if w := s.do("/dashboard"+path, nil); w.Code != http.StatusSeeOther {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
	s.signIn("look")
	body = s.do("/dashboard/", nil).Body.String()
	if strings.Contains(body, `form="pause"`) || strings.Contains(body, "/dashboard/rollback") {
		t.Error("an operator who may only read sees buttons")
	}
	if w := s.do("/dashboard/rollback?version=16", nil); w.Code != http.StatusForbidden {
		t.Errorf("a read-only operator confirms a roll back: %d", w.Code)
	}
}

// A site that resolves its own name to this machine cannot read the pages that need no token.
func TestOpenPagesAnswerToLoopbackNamesOnly(t *testing.T) {
	s := newSite(t, true)
	for host, want := range map[string]int{
		"127.0.0.1:7634": 200, "localhost:7634": 200, "[::1]:7634": 200, "localhost": 200,
		"evil.example:7634": 403, "127.0.0.1.evil.example": 403, "192.0.2.7:7634": 403, "": 403,
	} {
		if w := s.do("/dashboard/", nil, func(r *http.Request) { r.Host = host }); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

// A demonstration says what it shows, escaped, and offers no sign-in and no advice for operators.
func TestADemonstrationHasAnIntro(t *testing.T) {
	const advice = "tacit admin begin"
	s := newSite(t, true)
	s.fake.set(func(x *Snapshot) { x.State = "finished" })
	if text := s.do("/dashboard/", nil).Body.String(); !strings.Contains(text, advice) ||
		!strings.Contains(text, `/sign-in"`) || strings.Contains(text, "h-intro") {
		t.Error("a page without an intro lacks the advice or the link to sign in, or has an intro")
	}
	s = newSite(t, true)
	s.fake.set(func(x *Snapshot) { x.State, x.Demo = "finished", true })
	s.d.opt.Intro = &Intro{
		Title: hostile, Lines: []string{hostile}, Facts: [][2]string{{hostile, hostile}}, Note: hostile,
		Link: "javascript:alert(1)", LinkText: hostile,
	}
	text := s.do("/dashboard/", nil).Body.String()
	for _, bad := range []string{"<script>alert", "<img src=x", `"javascript:`, advice, `/sign-in"`} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(text, "h-intro") {
		t.Error("the page has no intro")
	}
}

func TestTextsAreEscaped(t *testing.T) {
	s := newSite(t, true)
	s.signIn("secret")
	for _, path := range []string{"/", "/catalogue", "/devices", "/log"} {
		w := s.do("/dashboard"+path, nil)
		body := w.Body.String()
		if strings.Contains(body, "<img src=x") || strings.Contains(body, "<script>alert") {
			t.Errorf("%s: a title became markup", path)
		}
		if !strings.Contains(body, "&lt;img src=x") {
			t.Errorf("%s does not show the title", path)
		}
		p := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: the policy is %q", path, p)
		}
		if m := regexp.MustCompile(`(?i)<[^>]+\s(style|on\w+)=`).FindString(body); m != "" {
			t.Errorf("%s has an inline style or script, which the policy forbids: %s", path, m)
		}
		if m := regexp.MustCompile(`(src|href|action)="(https?:)?//`).FindString(body); m != "" {
			t.Errorf("%s refers to another host: %s", path, m)
		}
	}
}

func TestSamplesAreNotShown(t *testing.T) {
	s := newSite(t, true)
	s.set(func(x *Snapshot) {
		x.Run.Sampled = true
		x.Open.Stages = Stages{CheckedIn: 90, Selected: 48211, Reported: 48212, Late: 48213}
		x.Traffic.Received, x.Traffic.Sent, x.Traffic.Late = 48214, 48215, 48216
		for i := range x.Rounds {
			x.Rounds[i].Sampled = true
		}
	})
	body := s.do("/dashboard/", nil).Body.String()
	if m := regexp.MustCompile(`48,21\d|48\.2 kB`).FindString(body); m != "" || !strings.Contains(body, "secret sample") {
		t.Errorf("the page shows %q of a secret sample", m)
	}
}

// The pages know every state that the operator's guide lists.
func TestThePagesKnowAllStates(t *testing.T) {
	b, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "## States and faults")
	table, _, _ = strings.Cut(table, "\n### ")
	listed := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 4 {
			for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
				listed[m[1]] = true
				if label(m[1]) == m[1] {
					t.Errorf("the pages have no words for the state %s", m[1])
				}
			}
		}
	}
	for state := range states {
		if !listed[state] {
			t.Errorf("docs/operate.md does not list the state %s", state)
		}
	}
}
