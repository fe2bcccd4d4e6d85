package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

// page is what a template of a whole page reads.
type page struct {
	Title   string
	Here    string // path of the page, for the navigation
	Problem string
	Notice  *notice
	Session *session
	Open    bool // everybody may read
	Intro   *Intro
	Demo    bool // a demonstration, to which nobody can sign in
	Cards   map[string]template.HTML
	Data    any
}

// FormToken is the token of forms of the session.
func (p page) FormToken() string {
	if p.Session == nil {
		return ""
	}
	return p.Session.form
}

// Operator is who signed in; nil for nobody.
func (p page) Operator() *Operator {
	if p.Session == nil {
		return nil
	}
	return &p.Session.operator
}

// CanAct reports whether the page has forms that change something.
func (p page) CanAct() bool { return p.Session != nil && !p.Session.operator.ReadOnly }

func levelOf(s *session) access {
	if s == nil {
		return public
	}
	if s.operator.ReadOnly {
		return reader
	}
	return operator
}

var templates = template.Must(template.New("").Funcs(functions).ParseFS(assets, "assets/*.html"))

// cardNames are the cards of the overview. Each is a template, and an element of the page with this ID.
var cardNames = []string{
	"state", "run", "round", "privacy", "upload", "accuracy", "devices", "rounds", "traffic", "history",
}

// cardView is what the template of a card reads.
type cardView struct {
	*Snapshot
	Signed bool // an operator reads it
	CanAct bool
}

func renderCards(s *Snapshot, a access) map[string]string {
	out := map[string]string{}
	v := cardView{s, a != public, a == operator}
	for _, name := range cardNames {
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, "card-"+name, v); err != nil {
			panic(err) // a template does not fit the view: tests render every card
		}
		out[name] = b.String()
	}
	return out
}

// render answers with a page.
func (d *Dashboard) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Here, p.Open, p.Demo = r.URL.Path, d.opt.Open, d.opt.Intro != nil
	if p.Session != nil {
		p.Notice = p.Session.takeNotice()
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, p); err != nil {
		http.Error(w, "internal error of the coordinator", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client has gone
}

// fail answers with a page that says why a request is refused.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, status int, why string) {
	d.render(w, r, status, "problem", page{Title: "Refused", Problem: why})
}

func (d *Dashboard) overview(w http.ResponseWriter, r *http.Request, s *session) {
	f := d.hub.look()
	cards := map[string]template.HTML{}
	for name, html := range f.cardsFor(levelOf(s)) {
		cards[name] = template.HTML(html)
	}
	d.render(w, r, http.StatusOK, "overview", page{
		Title: f.snapshot.Name, Session: s, Intro: d.opt.Intro, Cards: cards, Data: &f.snapshot,
	})
}

// perPage is the number of lines of a list.
const perPage = 100

// list is a page of a list.
type list struct {
	Rows      any
	From      uint64
	Next      uint64 // where the next page begins; 0 if this is the last one
	Snapshot  *Snapshot
	Catalogue *Items
	Map       *itemMap
	NoMap     string
	Damage    string
}

func (d *Dashboard) devices(w http.ResponseWriter, r *http.Request, s *session) {
	from, err := parse(r.URL.Query().Get("from"))
	if err != nil || from >= 1<<32 {
		d.fail(w, r, http.StatusBadRequest, "from must be a device ID.")
		return
	}
	rows, next := d.opt.Source.Devices(uint32(from), perPage)
	d.render(w, r, http.StatusOK, "devices", page{Title: "Devices", Session: s, Data: list{
		Rows: rows, From: from, Next: uint64(next), Snapshot: &d.hub.look().snapshot,
	}})
}

func (d *Dashboard) catalogue(w http.ResponseWriter, r *http.Request, s *session) {
	from, err := parse(r.URL.Query().Get("from"))
	if err != nil {
		d.fail(w, r, http.StatusBadRequest, "from must be the position of an item.")
		return
	}
	items := d.opt.Source.Items(from, perPage)
	data := list{Rows: items.List, From: from, Next: uint64(items.Next), Catalogue: &items}
	if from == 0 {
		data.Map, err = d.maps.get(d.opt.Source)
		if err != nil {
			data.NoMap = err.Error()
		}
	}
	d.render(w, r, http.StatusOK, "catalogue", page{Title: "Catalogue", Session: s, Data: data})
}

func (d *Dashboard) log(w http.ResponseWriter, r *http.Request, s *session) {
	entries, damage, err := d.opt.Source.Audit(2 * perPage)
	if err != nil {
		d.fail(w, r, http.StatusServiceUnavailable, "The audit log cannot be read: "+err.Error())
		return
	}
	d.render(w, r, http.StatusOK, "log", page{Title: "Audit log", Session: s, Data: list{
		Rows: entries, Damage: damage,
	}})
}

func (d *Dashboard) confirmRollback(w http.ResponseWriter, r *http.Request, s *session) {
	n, err := parse(r.URL.Query().Get("version"))
	if err != nil || s.operator.ReadOnly {
		d.fail(w, r, http.StatusForbidden, "A roll back requires a version, and a token that may change something.")
		return
	}
	for _, v := range d.hub.look().snapshot.History {
		if v.Number == n {
			d.render(w, r, http.StatusOK, "rollback", page{Title: "Roll back", Session: s, Data: v})
			return
		}
	}
	d.fail(w, r, http.StatusNotFound, fmt.Sprintf("Version %d is no longer on disk.", n))
}

// parse reads a number; empty text is 0.
func parse(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q: must be an integer of 0 or more", text)
	}
	return n, nil
}

var contentTypes = map[string]string{
	"dashboard.css": "text/css; charset=utf-8", "dashboard.js": "text/javascript; charset=utf-8",
	"icon.svg": "image/svg+xml",
}

// serveAsset serves the script, the style and the icon.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	kind, ok := contentTypes[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(b)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(b)
}
