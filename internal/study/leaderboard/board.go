package leaderboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/sweep"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// from is the origin of the settings that the leaderboard sets.
const from = "leaderboard"

// Config selects the cells and says how they are run.
type Config struct {
	Sets      []string // data sets; empty for the four of the leaderboard
	Protocols []string // empty for deployed and temporal
	Only      []string // methods and reference rows; empty for all of the registry
	Seeds     int      // per row, at most
	// Share is the fraction of cold-start users, measured in separate cells under deployed; 0 for
	// no such cells.
	Share    float64
	Given    []experiment.Setting // settings of every run
	DataDir  string
	Folder   string  // of the cell files
	Jobs     int     // goroutines of one cell
	Parallel int     // cells at a time
	Minutes  float64 // time limit of Run; 0 for none
	Version  string
	Commit   string
	OnEnd    func(CellEnded) // receives an event for each cell that ends in Run; may be nil
}

// CellEnded is the event of a cell that ended.
type CellEnded struct {
	sweep.Ended[*CellResult]
	Cell *Cell
}

// readingOf lists the data sets of the leaderboard and the settings that they are read with. 80 % of
// Frappe's rows repeat a pair of user and app, which would favour methods that memorise.
var readingOf = map[string][]experiment.Setting{
	"ml-100k": nil, "ml-1m": nil, "filmtrust": nil,
	"frappe": experiment.Pairs(from, "dedup=first"),
}

var defaultSets = []string{"ml-100k", "ml-1m", "filmtrust", "frappe"}

// Board is a leaderboard with its data open: its tables and their cells.
type Board struct {
	Config
	Cells  []*Cell
	Tables []Table

	sweep *sweep.Sweep[*CellResult]
}

// Table is one data set under one protocol.
type Table struct {
	Set, Protocol      string
	Users, Items, Rows int
	Read               string // settings that the data was read with; empty for the defaults
	Reason             string // why nothing can be measured; such a table has no cells
}

// Runs are evaluated every evalEvery rounds, and half as often on data with more than manyRows
// rows, unless their method asks for less.
const evalEvery, manyRows = 5, 500_000

// New opens the data, lists the cells and loads those that have a file.
func New(c Config) (*Board, error) {
	if c.Folder == "" {
		return nil, &experiment.InputError{
			Err:  errors.New("--cells is missing: the folder of the cell files"),
			Hint: "example: tacit docs leaderboard --cells cells",
		}
	}
	if len(c.Sets) == 0 {
		c.Sets = defaultSets
	}
	if len(c.Protocols) == 0 {
		c.Protocols = []string{"deployed", "temporal"}
	}
	c.Jobs, c.Parallel, c.Seeds = max(c.Jobs, 1), max(c.Parallel, 1), max(c.Seeds, 1)
	b := &Board{Config: c}
	if err := b.checkNames(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return nil, &experiment.InputError{Err: err, Hint: "choose another --cells"}
	}
	opened := map[string]data.Source{}
	for _, set := range c.Sets {
		for _, protocol := range c.Protocols {
			if err := b.addTable(set, protocol, opened); err != nil {
				return nil, err
			}
		}
	}
	return b, b.load()
}

// load makes a sweep of the cells, which loads those that have a file.
func (b *Board) load() error {
	var jobs []*sweep.Job[*CellResult]
	cell := map[*sweep.Job[*CellResult]]*Cell{}
	for _, c := range b.Cells {
		jobs = append(jobs, c.Job)
		cell[c.Job] = c
	}
	var err error
	b.sweep, err = sweep.New(jobs, sweep.Config[*CellResult]{
		Parallel: b.Parallel, Cores: b.Jobs, Limit: time.Duration(b.Minutes * float64(time.Minute)),
		Typical: func(r *CellResult) bool { return r.Refused == "" },
		OnEnd: func(e sweep.Ended[*CellResult]) {
			if b.OnEnd != nil && e.Job.Status != sweep.Stored {
				b.OnEnd(CellEnded{e, cell[e.Job]})
			}
		},
	})
	return err
}

// Left lists the cells without a result, in the order in which they run: the cheapest first, later
// seeds later.
func (b *Board) Left() []*Cell {
	var out []*Cell
	for _, j := range b.sweep.Left() {
		at := slices.IndexFunc(b.Cells, func(c *Cell) bool { return c.Job == j })
		out = append(out, b.Cells[at])
	}
	return out
}

// Run measures the cells without a file until all are done or the time limit ends. Cells that do
// not fit into the limit are no error: their Reason says so.
func (b *Board) Run(ctx context.Context) error {
	err := b.sweep.Run(ctx)
	if ctx.Err() != nil {
		return &experiment.Stopped{
			Dir:  b.Folder,
			Hint: "run the same command again to continue: finished cells are kept",
		}
	}
	return err
}

// checkNames rejects names in Only that are neither a method nor a reference row.
func (b *Board) checkNames() error {
	names := slices.Clone(reference.Names)
	for _, e := range append(methods.Default().Entries(), methods.Default().Composed()...) {
		names = append(names, e.Name)
	}
	for _, name := range b.Only {
		if slices.Contains(names, name) {
			continue
		}
		err := fmt.Errorf("--only %s: unknown method or reference row", name)
		if near := param.Nearest(name, names); near != "" {
			err = fmt.Errorf("%w; did you mean %q?", err, near)
		}
		return &experiment.InputError{Err: err, Hint: "tacit methods lists the methods; reference rows are " +
			strings.Join(reference.Names, ", ")}
	}
	return nil
}

// addTable adds a data set under a protocol, with its cells.
func (b *Board) addTable(set, protocol string, opened map[string]data.Source) error {
	about := experiment.Pairs(from, "data="+set, "protocol="+protocol, "preset=built-in")
	about = append(append(about, readingOf[set]...), b.Given...)
	spec, err := experiment.Resolve(about)
	if err != nil {
		return err
	}
	key := fmt.Sprint(set, " ", spec.MinRows) // protocols may require different minimums
	if opened[key] == nil {
		if opened[key], err = experiment.OpenData(&spec.Settings, b.DataDir); err != nil {
			return err
		}
	}
	src := opened[key]
	t := Table{Set: set, Protocol: protocol, Users: src.Users(), Items: src.Items(), Rows: experiment.Rows(src)}
	for _, s := range readingOf[set] {
		t.Read = strings.TrimSpace(t.Read + " " + s.Key + "=" + s.Value)
	}
	split, err := spec.Split(src)
	if err != nil {
		t.Reason = err.Error()
		b.Tables = append(b.Tables, t)
		return nil
	}
	b.Tables = append(b.Tables, t)
	for _, name := range b.names() {
		for seed := range uint64(b.Seeds) {
			for _, isNew := range []bool{false, true} {
				if isNew && (b.Share == 0 || protocol != "deployed") {
					continue
				}
				c, err := b.newCell(name, about, src, seed+1, isNew)
				if err != nil {
					return err
				}
				c.Skip = missingFeatures(c, split)
				b.Cells = append(b.Cells, c)
			}
		}
	}
	return nil
}

// missingFeatures says which features a method requires and the data lacks; it is empty if
// the data has them all.
func missingFeatures(c *Cell, split *data.Split) string {
	m, ok := method.As[method.Featured](c.spec.Params)
	if c.Reference || !ok {
		return ""
	}
	f, err := split.Features()
	if err == nil {
		_, err = m.Bind(f)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// rowName names a row: a method, or a reference row, which may have the name of a method.
type rowName struct {
	text      string
	reference bool
}

// names lists the rows of each table: the methods, then the reference rows.
func (b *Board) names() []rowName {
	var out []rowName
	for _, e := range methods.Default().Entries() {
		if len(b.Only) == 0 || slices.Contains(b.Only, e.Name) {
			out = append(out, rowName{e.Name, false})
		}
	}
	for _, e := range methods.Default().Composed() {
		if slices.Contains(b.Only, e.Name) {
			out = append(out, rowName{e.Name, false})
		}
	}
	for _, r := range reference.Names {
		if len(b.Only) == 0 || slices.Contains(b.Only, r) {
			out = append(out, rowName{r, true})
		}
	}
	return out
}

// newCell resolves the settings of a cell.
func (b *Board) newCell(n rowName, about []experiment.Setting, src data.Source, seed uint64, isNew bool) (*Cell,
	error,
) {
	words := []string{fmt.Sprint("seed=", seed)}
	if !n.reference {
		words = append(words, "method="+n.text)
	}
	if isNew {
		words = append(words, fmt.Sprint("new-users=", b.Share))
	}
	spec, err := experiment.Resolve(append(slices.Clone(about), experiment.Pairs(from, words...)...))
	if err != nil {
		return nil, err
	}
	spec.FitTo(src)
	every := max(spec.EvalEvery, evalEvery)
	if experiment.Rows(src) > manyRows {
		every = max(spec.EvalEvery, 2*evalEvery)
	}
	if s, ok := method.As[method.FinalRound](spec.Params); ok && s.ReportsFinalRound() || spec.DP.On() {
		every = spec.Rounds // only the last round counts
	}
	spec, err = spec.With(experiment.Pairs(from, fmt.Sprint("eval-every=", every)))
	if err != nil {
		return nil, err
	}
	c := &Cell{
		Method: n.text, Reference: n.reference, Set: spec.Data, Protocol: spec.Protocol, Seed: seed, New: isNew,
		spec: spec, source: src,
	}
	c.makeJob(b)
	return c, nil
}

// makeJob describes the cell to the sweep.
func (c *Cell) makeJob(b *Board) {
	key := c.key()
	parts := []string{c.Set, c.Protocol, c.Method, fmt.Sprintf("s%d", c.Seed), key[:12]}
	if c.Reference {
		parts[2] = "ref-" + c.Method
	}
	name, weight := c.row()+fmt.Sprintf(", seed %d", c.Seed), float64(c.Seed)
	if c.New {
		parts[3] += "-new"
		name += ", new users"
		weight *= 2
	}
	c.file = filepath.Join(b.Folder, plain(strings.Join(parts, "_"))+".json")
	file := sweep.File[CellResult]{Path: c.file, Valid: func(r *CellResult) bool {
		return r.Key == key && (r.Refused != "" || r.Test.Sampled != nil || r.NewUsers != nil)
	}}
	c.Job = &sweep.Job[*CellResult]{
		Name: name, Group: c.row(), Cost: c.cost(), Weight: weight,
		Load: file.Load, Store: file.Store,
		Run: func(ctx context.Context, cores int) (*CellResult, error) { return c.measure(ctx, b, cores) },
	}
}

// key identifies everything that determines the result of a cell: the fingerprint of the run, the
// grid if the settings are chosen from one, and the numerics of this program.
func (c *Cell) key() string {
	text := fmt.Sprint(c.spec.Fingerprint(c.source.Info().Hash), " ", experiment.SelfTestDigest, " ", c.New)
	job := &experiment.Job{Spec: c.spec}
	if c.Reference {
		text = fmt.Sprintf("reference %s %s %s %d %g %s", c.Method, c.source.Info().Hash, c.Protocol, c.Seed,
			c.spec.NewUsers, experiment.SelfTestDigest)
	} else if job.ChoosesSettings() {
		text += fmt.Sprint(" of ", c.spec.Entry.Grid)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// cost estimates the seconds that the cell takes on one core.
func (c *Cell) cost() float64 {
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
	cost := c.spec.EstimateSeconds(c.source)
	if (&experiment.Job{Spec: c.spec}).ChoosesSettings() {
		cost *= 3 // the runs of the grid are cheaper than the run itself
	}
	return cost
}
