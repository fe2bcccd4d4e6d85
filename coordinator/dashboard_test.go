package coordinator

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/method"
)

// operatorPage is an operator's browser without scripts.
type operatorPage struct {
	t       *testing.T
	handler http.Handler
	cookie  *http.Cookie
	form    string
}

func (p *operatorPage) do(path string, form url.Values) (int, string) {
	p.t.Helper()
	q := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+DashboardPath+path, nil)
	if form != nil {
		form.Set("form_token", p.form)
		q = httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+DashboardPath+path, strings.NewReader(form.Encode()))
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	q.RemoteAddr = "192.0.2.9:1"
	if p.cookie != nil {
		q.AddCookie(p.cookie)
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, q)
	a := w.Result()
	for _, c := range a.Cookies() {
		p.cookie = c
	}
	b, err := io.ReadAll(a.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if m := regexp.MustCompile(`name="form_token" value="(\w+)"`).FindStringSubmatch(string(b)); m != nil {
		p.form = m[1]
	}
	return a.StatusCode, string(b)
}

func (p *operatorPage) signIn(token string) {
	p.t.Helper()
	if code, text := p.do("sign-in", url.Values{"token": {token}}); code != http.StatusSeeOther {
		p.t.Fatalf("signing in: %d %s", code, text)
	}
	p.do("", nil)
}

// What a form does is a call of the admin API: with the rights of the token, and in the audit log.
func TestFormsOfTheDashboardAreCallsOfTheAdminAPI(t *testing.T) {
	t.Parallel()
	s := small(3)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.play(r.enrolled(3), 2)
	for name, handler := range map[string]http.Handler{"mounted": r.server.Handler(), "alone": r.c.Dashboard(nil)} {
		p := &operatorPage{t: t, handler: handler}
		p.signIn("operator")
		if code, _ := p.do("pause", url.Values{}); code != http.StatusSeeOther || !r.c.Status().Paused {
			t.Errorf("%s: pause: %d, paused is %v", name, code, r.c.Status().Paused)
		}
		if code, _ := p.do("resume", url.Values{}); code != http.StatusSeeOther || r.c.Status().Paused {
			t.Errorf("%s: resume: %d, paused is %v", name, code, r.c.Status().Paused)
		}
		p.do("rollback", url.Values{"version": {"99"}})
		if _, text := p.do("", nil); !strings.Contains(text, "version 99 is not on disk") {
			t.Errorf("%s: the overview does not say that version 99 is not on disk", name)
		}
	}
	token, err := r.c.admin.operators.Add("viewer", true, r.c.now())
	if err != nil {
		t.Fatal(err)
	}
	viewer := &operatorPage{t: t, handler: r.server.Handler()}
	viewer.signIn(token)
	viewer.do("pause", url.Values{})
	if _, text := viewer.do("", nil); r.c.Status().Paused || !strings.Contains(text, "may only read") {
		t.Error("a token that may only read pauses training, or the page does not say why not")
	}
	log, err := r.c.Audit(100)
	if err != nil || !log.OK {
		t.Fatalf("%+v, %v", log, err)
	}
	found := map[string]int{}
	for _, e := range log.Entries {
		found[e.Operator+" "+e.Name+" "+e.Outcome+" "+e.Remote]++
	}
	for line, n := range map[string]int{
		"local POST pause ok 192.0.2.9": 2, "local POST resume ok 192.0.2.9": 2,
		"local POST rollback not_found 192.0.2.9": 2, "viewer POST pause forbidden 192.0.2.9": 1,
	} {
		if found[line] != n {
			t.Errorf("%d lines of %q, want %d: %v", found[line], line, n, found)
		}
	}
	if err := r.c.admin.operators.Remove("viewer"); err != nil {
		t.Fatal(err)
	}
	if code, _ := viewer.do("devices", nil); code != http.StatusSeeOther {
		t.Errorf("a session whose token was revoked: %d", code)
	}
}

// The rounds of a run are remembered with their devices and bytes; after a restart, those whose models are on disk.
func TestRoundsAreRemembered(t *testing.T) {
	t.Parallel()
	s := small(3)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	if n := len(r.c.Rounds()); n != 0 {
		t.Errorf("%d rounds before the first", n)
	}
	r.play(r.enrolled(3), 2)
	waitFor(t, "two rounds", func() bool { return len(r.c.Rounds()) == 2 })
	for i, x := range r.c.Rounds() {
		if x.Round != i+1 || x.Cohort != 3 || x.Counted != 3 || x.CheckedIn != 3 || x.Received == 0 || x.Discarded ||
			x.RunNumber != 1 || x.Version != uint64(i+2) {
			t.Errorf("round %d is %+v", i+1, x)
		}
	}
	status, text := r.raw("GET", "rounds", "operator", "", "")
	if status != http.StatusOK || strings.Count(text, `"reported":3`) != 2 {
		t.Errorf("GET rounds: %d %s", status, text)
	}
	r.stop()
	again := open(t, dir, nil, nil)
	got := again.c.Rounds()
	if len(got) != 2 || got[1].Round != 2 || got[1].Counted != 3 || got[1].Received != 0 {
		t.Errorf("after a restart the rounds are %+v", got)
	}
}

// The map has the rows of the model that devices have.
func TestTheMapHasTheRowsOfTheModel(t *testing.T) {
	t.Parallel()
	s := small(3)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.play(r.enrolled(3), 1)
	v, err := (&dashboardSource{c: r.c}).Vectors(5)
	if err != nil || v.Dim != 2 || len(v.Titles) != 5 || len(v.Rows) != 10 || v.Items != 10 || v.Titles[0] != "Item 0" {
		t.Fatalf("%+v, %v", v, err)
	}
	code, text := (&operatorPage{t: t, handler: r.c.Dashboard(nil)}).do("catalogue", nil)
	if code != http.StatusOK || !strings.Contains(text, "Map of 10 items") || !strings.Contains(text, "Item 9") {
		t.Errorf("the catalogue: %d %s", code, text)
	}
}

// Guesses of a token in the form count as guesses at the admin API.
func TestGuessesInTheFormAreLimited(t *testing.T) {
	t.Parallel()
	s := small(3)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	for name, handler := range map[string]http.Handler{"mounted": r.server.Handler(), "alone": r.c.Dashboard(nil)} {
		p := &operatorPage{t: t, handler: handler}
		for range 10 {
			if code, text := p.do("sign-in", url.Values{"token": {"guess"}}); code != http.StatusUnauthorized ||
				!strings.Contains(text, "no operator has this token") {
				t.Fatalf("%s: a wrong token: %d %s", name, code, text)
			}
		}
		code, text := p.do("sign-in", url.Values{"token": {"operator"}})
		if code != http.StatusUnauthorized || !strings.Contains(text, "too many wrong tokens") {
			t.Errorf("%s: the right token after ten wrong ones: %d %s", name, code, text)
		}
	}
}

func TestTheDashboardSaysWhatLeavesADevice(t *testing.T) {
	t.Parallel()
	got := uploadOf([]method.Slot{
		{Scope: method.Shared, Upload: method.Delta, Doc: "item rows"},
		{Scope: method.Shared, Upload: method.Broadcast, Doc: "popularity"},
		{Scope: method.Shared, Upload: method.Sum, Doc: "counts"},
		{Scope: method.Shared, Upload: method.Gradient, Doc: "weights"},
		{Scope: method.Private, Doc: "the user's vector"},
		{Scope: method.Server, Doc: "momentum"},
	})
	sent, kept := []string{"change of item rows", "counts", "gradient of weights"}, []string{"the user's vector"}
	if !slices.Equal(got.Sent, sent) || !slices.Equal(got.Kept, kept) {
		t.Errorf("sent %q, kept %q; want %q and %q", got.Sent, got.Kept, sent, kept)
	}
}
