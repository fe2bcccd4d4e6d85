// Package dashboard serves the pages on which operators follow a coordinator and act on it: plain HTML that the server
// renders, a script that replaces the cards of the overview as events arrive, and forms that make calls of the admin
// API. It keeps no state but sessions, and never shows data of users. Its one convention: every change is a call of
// the admin API with an operator's rights, so that it is checked and audited there.
package dashboard

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Prefix begins the path of every page.
const Prefix = "/dashboard"

// Source is the coordinator. Many goroutines call it.
type Source interface {
	Snapshot() Snapshot
	// Devices lists devices from an ID on, and returns the first ID of the next page, or 0.
	Devices(from uint32, limit int) ([]Device, uint32)
	Items(from uint64, limit int) Items
	// Vectors returns rows of the newest model for at most limit items, or an error for people that says why the
	// model has no such rows.
	Vectors(limit int) (*Vectors, error)
	// Audit returns the last entries of the audit log, and what is damaged; otherwise empty.
	Audit(limit int) (entries []Entry, damage string, err error)
	// Call makes a call of the admin API that changes something, with the rights of an operator.
	Call(r *http.Request, o Operator, path string, args any) error
}

// Operator is who signed in.
type Operator struct {
	Name     string
	ReadOnly bool
}

// Options say who may see the pages.
type Options struct {
	Source Source
	// SignIn returns the operator whose token it is, or an error for people.
	SignIn func(r *http.Request, token string) (Operator, error)
	// Valid reports whether the token of a session is still that of an operator. It also marks the connection of the
	// request as one of an operator.
	Valid func(r *http.Request, token string) (Operator, bool)
	// Open lets everybody who reaches the address read the overview and the catalogue. The pages are then served to
	// clients that name the host by a loopback address only.
	Open bool
	// Intro is shown above the overview; nil for none.
	Intro *Intro
	// Streams is how many pages may receive events at a time; 0 means 32. Interval is the time between looks at the
	// coordinator; 0 means 1 s.
	Streams  int
	Interval time.Duration
	Now      func() time.Time // nil means time.Now
}

// Dashboard is the handler of the pages.
type Dashboard struct {
	opt      Options
	mux      *http.ServeMux
	sessions sessions
	hub      *hub
	origin   *http.CrossOriginProtection
	maps     mapCache
}

//go:embed assets
var assets embed.FS

// New returns the handler of the pages, for all paths below Prefix.
func New(o Options) *Dashboard {
	if o.Streams == 0 {
		o.Streams = 32
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Dashboard{opt: o, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection()}
	d.sessions.all = map[[32]byte]*session{}
	d.hub = newHub(o.Source, o.Interval, o.Streams)
	page := func(pattern string, needs access, h func(http.ResponseWriter, *http.Request, *session)) {
		method, path, _ := strings.Cut(pattern, " ")
		d.mux.HandleFunc(method+" "+Prefix+path, func(w http.ResponseWriter, r *http.Request) {
			d.guard(w, r, needs, h)
		})
	}
	page("GET /{$}", reader, d.overview)
	page("GET /events", reader, d.events)
	page("GET /catalogue", reader, d.catalogue)
	page("GET /devices", operator, d.devices)
	page("GET /log", operator, d.log)
	page("GET /rollback", operator, d.confirmRollback)
	page("GET /sign-in", public, d.signInPage)
	page("POST /sign-in", public, d.signIn)
	page("POST /sign-out", operator, d.signOut)
	page("POST /pause", operator, d.act("pause", "Training is paused. The round in progress ends at its deadline."))
	page("POST /resume", operator, d.act("resume", "Training resumes."))
	page("POST /rollback", operator, d.act("rollback", "The roll back is requested. It is done between two rounds."))
	page("POST /readmit", operator, d.act("devices/readmit", "The device is readmitted."))
	d.mux.HandleFunc("GET "+Prefix+"/assets/{name}", serveAsset)
	d.mux.HandleFunc("GET "+Prefix+"", redirect(Prefix+"/"))
	d.mux.HandleFunc("GET /{$}", redirect(Prefix+"/"))
	return d
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusSeeOther) }
}

// policy lets a page load its own script, style and icon, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if d.opt.Open && !isLoopback(r.Host) { // a page of another site that resolves its own name to this machine
		d.fail(w, r, http.StatusForbidden, "This address answers to localhost and loopback addresses only.")
		return
	}
	if err := d.origin.Check(r); err != nil {
		d.fail(w, r, http.StatusForbidden, "The request comes from a page of another site.")
		return
	}
	d.mux.ServeHTTP(w, r)
}

// isLoopback reports whether a Host header names this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// access is what a page requires.
type access int

const (
	public   access = iota
	reader          // a session, unless everybody may read
	operator        // a session
)

// guard checks the session of a request. Forms must have the token of the session.
func (d *Dashboard) guard(w http.ResponseWriter, r *http.Request, needs access,
	h func(http.ResponseWriter, *http.Request, *session),
) {
	s := d.session(r)
	if s == nil && (needs == operator || needs == reader && !d.opt.Open) {
		if r.Method == http.MethodGet && !isStream(r) {
			http.Redirect(w, r, Prefix+"/sign-in", http.StatusSeeOther)
			return
		}
		d.fail(w, r, http.StatusUnauthorized, "The session has ended. Sign in again.")
		return
	}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
		if err := r.ParseForm(); err != nil {
			d.fail(w, r, http.StatusBadRequest, "The form is malformed.")
			return
		}
		if needs == operator && !s.hasToken(r.PostForm.Get("form_token")) {
			d.fail(w, r, http.StatusForbidden, "The form belongs to another session. Go back, reload the page, and "+
				"try again.")
			return
		}
	}
	h(w, r, s)
}

func isStream(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/events") }

// act answers a form that makes a call of the admin API.
func (d *Dashboard) act(path, done string) func(http.ResponseWriter, *http.Request, *session) {
	return func(w http.ResponseWriter, r *http.Request, s *session) {
		args, err := formArgs(path, r)
		if err == nil {
			err = d.opt.Source.Call(r, s.operator, path, args)
		}
		note := notice{Text: done, Good: true}
		if err != nil {
			note = notice{Text: "It was not done: " + err.Error()}
		}
		s.setNotice(note)
		d.hub.lookSince(time.Now()) // the next page shows what the form did
		to := Prefix + "/"
		if path == "devices/readmit" {
			to = Prefix + "/devices"
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// formArgs are the arguments of a call that a form has.
func formArgs(path string, r *http.Request) (any, error) {
	switch path {
	case "rollback":
		n, err := required(r, "version")
		return map[string]uint64{"version": n}, err
	case "devices/readmit":
		n, err := required(r, "device_id")
		if n >= 1<<32 {
			err = errors.New("device IDs are below 4294967296")
		}
		return map[string]uint64{"device_id": n}, err
	}
	return struct{}{}, nil
}

// required reads a number that a form must have: without it, a form would act on number 0.
func required(r *http.Request, name string) (uint64, error) {
	text := r.PostForm.Get(name)
	if text == "" {
		return 0, fmt.Errorf("the form has no %s; reload the page, and try again", name)
	}
	return parse(text)
}

// Close ends all streams of events.
func (d *Dashboard) Close() { d.hub.close() }

var _ http.Handler = (*Dashboard)(nil)

// sleep waits, and reports false if ctx ends first.
func sleep(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
