package leaderboard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// Config says which cells there are and how they are run.
type Config struct {
	Sets      []string // data sets; Sets() where it is empty
	Protocols []string // deployed and temporal where it is empty
	Only      []string // methods and reference rows; all of the registry where it is empty
	Seeds     int      // at most, for each row
	// of users that take no part in training, in cells of their own under deployed; 0 for no such cells
	Share    float64
	Given    []experiment.Setting // of every run
	DataDir  string
	Folder   string  // of the cells
	Jobs     int     // goroutines of one cell
	Parallel int     // cells at a time
	Minutes  float64 // what running may take; 0 is without a limit
	Version  string
	Commit   string
	Tell     func(Told)
}

// Sets are the data sets of the board, with how they are read: 80 % of Frappe's rows
// repeat a pair of user and app, and what remembers would win.
func Sets() map[string][]experiment.Setting {
	return map[string][]experiment.Setting{
		"ml-100k": nil, "ml-1m": nil, "filmtrust": nil,
		"frappe": {{Key: "dedup", Value: "first", From: "leaderboard"}},
	}
}

var allSets = []string{"ml-100k", "ml-1m", "filmtrust", "frappe"}

// Agenda is a board with its data open: the cells, by table and row.
type Agenda struct {
	Config
	Cells  []*Cell
	Tables []Table
}

// Table is one data set under one protocol.
type Table struct {
	Set, Protocol      string
	Users, Items, Rows int
	Read               string // how the data was read, where that is not as it is
	Reason             string // why nothing can be measured; it then has no cells
}

// A run is evaluated every so many rounds, to choose one on validation, or more rarely if
// its method says so; on large data half as often.
const every, large = 5, 500_000

// New opens the data and lists the cells.
func New(c Config) (*Agenda, error) {
	if c.Folder == "" {
		return nil, &experiment.Input{
			Err:  errors.New("no folder of cells is given"),
			Hint: "as in: tacit docs leaderboard --cells cells",
		}
	}
	if len(c.Sets) == 0 {
		c.Sets = allSets
	}
	if len(c.Protocols) == 0 {
		c.Protocols = []string{"deployed", "temporal"}
	}
	c.Jobs, c.Parallel, c.Seeds = max(c.Jobs, 1), max(c.Parallel, 1), max(c.Seeds, 1)
	if c.Tell == nil {
		c.Tell = func(Told) {}
	}
	a := &Agenda{Config: c}
	if err := a.known(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return nil, &experiment.Input{Err: err, Hint: "give another --cells"}
	}
	opened := map[string]data.Source{}
	for _, set := range c.Sets {
		for _, protocol := range c.Protocols {
			if err := a.table(set, protocol, opened); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}

// known refuses names that nothing has.
func (a *Agenda) known() error {
	names := slices.Clone(reference.Names)
	for _, e := range append(methods.Default().Entries(), methods.Default().Composed()...) {
		names = append(names, e.Name)
	}
	for _, name := range a.Only {
		if !slices.Contains(names, name) {
			err := fmt.Errorf("--only %s: no method and no reference row has this name", name)
			if near := param.Nearest(name, names); near != "" {
				err = fmt.Errorf("%w; did you mean %q?", err, near)
			}
			return &experiment.Input{Err: err, Hint: "tacit methods lists them; references are " +
				strings.Join(reference.Names, ", ")}
		}
	}
	return nil
}

// table lists the cells of a data set under a protocol.
func (a *Agenda) table(set, protocol string, opened map[string]data.Source) error {
	const from = "leaderboard"
	about := append([]experiment.Setting{{Key: "data", Value: set, From: from}, {
		Key: "protocol", Value: protocol,
		From: from,
	}, {Key: "preset", Value: "built-in", From: from}}, Sets()[set]...)
	about = append(about, a.Given...)
	spec, err := experiment.Resolve(about)
	if err != nil {
		return err
	}
	key := fmt.Sprint(set, " ", spec.MinRows) // a protocol may leave more users out than another
	if opened[key] == nil {
		if opened[key], err = experiment.OpenData(&spec.Settings, a.DataDir); err != nil {
			return err
		}
	}
	src := opened[key]
	t := Table{Set: set, Protocol: protocol, Users: src.Users(), Items: src.Items(), Rows: experiment.Rows(src)}
	for _, s := range Sets()[set] {
		t.Read = strings.TrimSpace(t.Read + " " + s.Key + "=" + s.Value)
	}
	split, err := spec.Split(src)
	if err != nil {
		t.Reason = err.Error()
	}
	if a.Tables = append(a.Tables, t); t.Reason != "" {
		return nil
	}
	for _, name := range a.rows() {
		for seed := range uint64(a.Seeds) {
			for _, isNew := range []bool{false, true} {
				if isNew && (a.Share == 0 || protocol != "deployed") {
					continue
				}
				one, err := a.cell(name, about, src, seed+1, isNew)
				if err != nil {
					return err
				}
				one.Reason = lacks(one, split)
				a.Cells = append(a.Cells, one)
			}
		}
	}
	return nil
}

// lacks says what a method of features misses in the data; it is empty for one that can be
// run, as far as that is known before.
func lacks(c *Cell, split *data.Split) string {
	spec, err := c.spec.With(nil) // binding leaves a mark on a method
	if err != nil {
		return err.Error()
	}
	m, ok := method.As[method.Featured](spec.Params)
	if c.Reference || !ok {
		return ""
	}
	f, err := split.Features()
	if err == nil {
		err = m.Bind(f)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// name is a row's: a method, or a reference, which may have the name of a method.
type name struct {
	text      string
	reference bool
}

// rows are the methods, and then the references.
func (a *Agenda) rows() []name {
	var out []name
	for _, e := range methods.Default().Entries() {
		if len(a.Only) == 0 || slices.Contains(a.Only, e.Name) {
			out = append(out, name{e.Name, false})
		}
	}
	for _, e := range methods.Default().Composed() {
		if slices.Contains(a.Only, e.Name) {
			out = append(out, name{e.Name, false})
		}
	}
	for _, r := range reference.Names {
		if len(a.Only) == 0 || slices.Contains(a.Only, r) {
			out = append(out, name{r, true})
		}
	}
	return out
}

// cell resolves a cell and looks for its file.
func (a *Agenda) cell(n name, about []experiment.Setting, src data.Source, seed uint64, isNew bool) (*Cell, error) {
	const from = "leaderboard"
	c := &Cell{Method: n.text, Reference: n.reference, Seed: seed, New: isNew, source: src}
	given := append(slices.Clone(about), experiment.Setting{Key: "seed", Value: fmt.Sprint(seed), From: from})
	if !n.reference {
		given = append(given, experiment.Setting{Key: "method", Value: n.text, From: from})
	}
	if isNew {
		given = append(given, experiment.Setting{Key: "new-users", Value: fmt.Sprint(a.Share), From: from})
	}
	spec, err := experiment.Resolve(given)
	if err != nil {
		return nil, err
	}
	rarely := max(spec.EvalEvery, every)
	if experiment.Rows(src) > large {
		rarely = max(spec.EvalEvery, 2*every)
	}
	if s, ok := method.As[method.Settled](spec.Params); ok && s.Settles() || spec.DP.On() {
		rarely = spec.Rounds // the last round counts
	}
	if c.spec, err = spec.With([]experiment.Setting{{
		Key: "eval-every", Value: fmt.Sprint(rarely),
		From: from,
	}}); err != nil {
		return nil, err
	}
	c.Set, c.Protocol, c.Guess = spec.Data, spec.Protocol, c.guess()
	key := c.key()
	parts := []string{c.Set, c.Protocol, c.Method, fmt.Sprintf("s%d", seed), key[:12]}
	if n.reference {
		parts[2] = "ref-" + c.Method
	}
	if isNew {
		parts[3] += "-new"
	}
	c.file = filepath.Join(a.Folder, plain(strings.Join(parts, "_"))+".json")
	c.read(key)
	return c, nil
}

// key names everything that decides the bits of a cell: what lab says of a run, the grid
// where settings are chosen from one, and the bits of this program.
func (c *Cell) key() string {
	text := fmt.Sprint(c.spec.Fingerprint(c.source.Info().Hash), " ", experiment.SelfTestDigest, " ", c.New)
	if job := (&experiment.Job{Spec: c.spec}); c.Reference {
		text = fmt.Sprintf("reference %s %s %s %d %g %s", c.Method, c.source.Info().Hash, c.Protocol, c.Seed,
			c.spec.NewUsers, experiment.SelfTestDigest)
	} else if job.Chooses() {
		text += fmt.Sprint(" of ", c.spec.Entry.Grid)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// guess is what the cell takes on one core.
func (c *Cell) guess() float64 {
	users, items, rows := float64(c.source.Users()), float64(c.source.Items()), float64(experiment.Rows(c.source))
	if c.Reference {
		rank := users * items * 10e-9
		switch c.Method {
		case "ease":
			return rank + items*items*items*3.5e-10 + rows*items*1e-9
		case "local":
			return rank + 60*5*rows*0.1e-6*min(1, 2000/users)
		case "memoriser":
			return rank + 100*5*rows*20e-9
		}
		return rank
	}
	g := c.spec.Guess(c.source)
	if (&experiment.Job{Spec: c.spec}).Chooses() {
		g *= 3 // a grid of cheaper runs, and the run
	}
	return g
}

// Left are the cells that have no file, the cheapest first; later seeds come later.
func (a *Agenda) Left() []*Cell {
	var out []*Cell
	for _, c := range a.Cells {
		if c.Kept == nil && !c.busy {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(x, y *Cell) int { return cmp.Compare(x.worth(), y.worth()) })
	return out
}

// worth orders cells: the fifth seed of a cheap row comes before the first of one that
// takes five times as long.
func (c *Cell) worth() float64 {
	w := c.Guess * float64(c.Seed)
	if c.New {
		w *= 2
	}
	return w
}
