package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"sync"
	"time"
)

const (
	cookieName  = "tacit_session"
	sessionTime = 8 * time.Hour
	maxSessions = 200
)

// sessions are in memory: a restart ends them.
type sessions struct {
	mu  sync.Mutex
	all map[[32]byte]*session // by the hash of the cookie
}

// session is an operator who signed in. The token is kept in memory, so that a session ends when the token does.
type session struct {
	operator Operator
	token    string // of the operator
	form     string // token of forms
	begun    time.Time

	mu     sync.Mutex
	notice *notice // shown on the next page
}

// notice says what became of a form.
type notice struct {
	Text string
	Good bool
}

func random() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// hasToken reports whether a form is one of the session.
func (s *session) hasToken(got string) bool {
	return subtle.ConstantTimeCompare([]byte(got), []byte(s.form)) == 1
}

func (s *session) setNotice(n notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notice = &n
}

func (s *session) takeNotice() *notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.notice
	s.notice = nil
	return n
}

// add begins a session and returns its cookie. If there are too many, the oldest ends.
func (l *sessions) add(s *session) string {
	cookie := random()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.all) >= maxSessions {
		var oldest [32]byte
		var first *session
		for key, other := range l.all {
			if first == nil || other.begun.Before(first.begun) {
				oldest, first = key, other
			}
		}
		delete(l.all, oldest)
	}
	l.all[sha256.Sum256([]byte(cookie))] = s
	return cookie
}

func (l *sessions) find(cookie string, now time.Time) *session {
	key := sha256.Sum256([]byte(cookie))
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.all[key]
	if s != nil && now.Sub(s.begun) > sessionTime {
		delete(l.all, key)
		return nil
	}
	return s
}

func (l *sessions) remove(cookie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, sha256.Sum256([]byte(cookie)))
}

// session returns the session of a request, or nil. It ends when its operator's token is revoked.
func (d *Dashboard) session(r *http.Request) *session {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	s := d.sessions.find(c.Value, d.opt.Now())
	if s == nil {
		return nil
	}
	o, ok := d.opt.Valid(r, s.token)
	if !ok || o != s.operator {
		d.sessions.remove(c.Value)
		return nil
	}
	return s
}

func (d *Dashboard) signInPage(w http.ResponseWriter, r *http.Request, s *session) {
	if s != nil {
		http.Redirect(w, r, Prefix+"/", http.StatusSeeOther)
		return
	}
	d.render(w, r, http.StatusOK, "sign-in", page{Title: "Sign in"})
}

func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request, _ *session) {
	token := r.PostForm.Get("token")
	o, err := d.opt.SignIn(r, token)
	if err != nil {
		d.render(w, r, http.StatusUnauthorized, "sign-in", page{Title: "Sign in", Problem: err.Error()})
		return
	}
	cookie := d.sessions.add(&session{operator: o, token: token, form: random(), begun: d.opt.Now()})
	setCookie(w, r, cookie, int(sessionTime/time.Second))
	http.Redirect(w, r, Prefix+"/", http.StatusSeeOther)
}

func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request, _ *session) {
	if c, err := r.Cookie(cookieName); err == nil {
		d.sessions.remove(c.Value)
	}
	setCookie(w, r, "", -1)
	http.Redirect(w, r, Prefix+"/sign-in", http.StatusSeeOther)
}

func setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: Prefix, MaxAge: age, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	})
}
