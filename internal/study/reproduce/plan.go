package reproduce

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/param"
)

// Plan is the list of rows that a reproduction runs, with their data open.
type Plan struct {
	Paper   Paper
	Rows    []*Row  // at least one
	Seconds float64 // rough estimate for the rows that are not stored
	LeftOut int     // rows that a quick reproduction leaves out
}

// Row is a row of a table on one data set under one protocol.
type Row struct {
	Set, Protocol string
	Folder        string // of its runs; empty if they are not stored
	Stored        bool   // the folder holds a finished run
	tableRow
	seeds  int
	spec   *experiment.Spec
	source data.Source
}

// key identifies a method on the row's data set and protocol.
func (r *Row) key(method string) string { return r.Set + " " + r.Protocol + " " + method }

// tests reports whether a row is tested against the method.
func (p *Plan) tests(method string) bool {
	return slices.ContainsFunc(p.Rows, func(r *Row) bool { return r.against == method })
}

// Sets names the data sets of the plan and their sizes.
func (p *Plan) Sets() []string {
	return distinct(p.Rows, func(r *Row) string {
		return fmt.Sprintf("%s (%d users, %d items, %d interactions)", r.Set, r.source.Users(), r.source.Items(),
			experiment.Rows(r.source))
	})
}

// Protocols names the protocols of the plan.
func (p *Plan) Protocols() []string {
	return distinct(p.Rows, func(r *Row) string { return r.Protocol })
}

// Stored counts the rows whose runs are stored.
func (p *Plan) Stored() int {
	n := 0
	for _, r := range p.Rows {
		if r.Stored {
			n++
		}
	}
	return n
}

// Seeds says how many seeds the rows have: "5 seeds" or "1 to 5 seeds".
func (p *Plan) Seeds() string {
	lo, hi := p.Rows[0].seeds, p.Rows[0].seeds
	for _, r := range p.Rows {
		lo, hi = min(lo, r.seeds), max(hi, r.seeds)
	}
	switch {
	case hi == 1:
		return "one seed"
	case lo == hi:
		return fmt.Sprint(lo, " seeds")
	}
	return fmt.Sprintf("%d to %d seeds", lo, hi)
}

// distinct returns the distinct texts of rows, in the order of their first use.
func distinct(rows []*Row, of func(*Row) string) []string {
	var out []string
	for _, r := range rows {
		if s := of(r); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// plan opens the data and lists the rows, data set by data set.
func (c *Config) plan(jobs int) (*Plan, error) {
	if err := c.check(); err != nil { // before data is read
		return nil, err
	}
	p := &Plan{Paper: c.Paper}
	opened := map[string]data.Source{}
	for _, set := range c.Sets {
		for _, protocol := range c.Protocols {
			// Presets of the user must not change a reproduction.
			about := experiment.Pairs(from, "data="+set, "preset=built-in", "protocol="+protocol)
			about = append(about, c.Paper.data[set]...)
			spec, err := experiment.Resolve(about)
			if err != nil {
				return nil, err
			}
			key := fmt.Sprint(set, " ", spec.MinRows) // protocols may require different minimums
			if opened[key] == nil {
				if opened[key], err = experiment.OpenData(&spec.Settings, c.DataDir); err != nil {
					return nil, err
				}
			}
			for _, one := range c.Paper.rows {
				row := &Row{Set: set, Protocol: protocol, tableRow: one, source: opened[key]}
				selected, err := c.fill(row, about)
				if err != nil {
					return nil, err
				}
				if !selected {
					continue
				}
				p.Rows = append(p.Rows, row)
			}
		}
	}
	if len(p.Rows) == 0 {
		return nil, experiment.AsInput(fmt.Errorf("--only %s: %s has no such row on %s", strings.Join(c.Only, ","),
			c.Paper.Name, strings.Join(c.Sets, ",")),
			"its methods are "+strings.Join(c.Paper.methods(), ", "))
	}
	if c.Quick {
		p.shorten()
	}
	for _, row := range p.Rows {
		if !row.Stored {
			p.Seconds += row.seconds() / float64(jobs)
		}
	}
	return p, nil
}

// quickSeconds is the estimated time of a quick reproduction on one core, and quickEvery how often it evaluates
// networks.
const quickSeconds, quickEvery = 110, 10

// seconds estimates the time of a row on one core.
func (r *Row) seconds() float64 { return float64(r.seeds) * r.spec.EstimateSeconds(r.source) }

// shorten leaves out rows until the estimate fits a quick reproduction. The paper's own method stays, then come the
// rows in the order of the tables, each under all protocols or none.
func (p *Plan) shorten() {
	cost, order := map[string]float64{}, []string{}
	name := func(r *Row) string { return r.method + " " + r.variant }
	for _, r := range p.Rows {
		if _, seen := cost[name(r)]; !seen {
			order = append(order, name(r))
		}
		cost[name(r)] += r.seconds()
	}
	own := p.Paper.Name + " "
	left, kept := quickSeconds-cost[own], map[string]bool{own: true}
	if cost[own] == 0 { // a plug-in: its first row
		own, left = order[0], quickSeconds-cost[order[0]]
		kept[own] = true
	}
	for _, n := range order {
		if n != own && cost[n] <= left {
			left -= cost[n]
			kept[n] = true
		}
	}
	all := len(p.Rows)
	p.Rows = slices.DeleteFunc(p.Rows, func(r *Row) bool { return !kept[name(r)] })
	p.LeftOut = all - len(p.Rows)
}

// check rejects unknown protocols, and methods that the paper does not have.
func (c *Config) check() error {
	for _, name := range c.Protocols {
		if _, err := data.ProtocolNamed(name); err != nil {
			return experiment.AsInput(fmt.Errorf("--protocols: %w", err), "tacit help protocols describes them")
		}
	}
	names := c.Paper.methods()
	for _, name := range c.Only {
		if slices.Contains(names, name) {
			continue
		}
		hint := "its methods are " + strings.Join(names, ", ")
		if near := param.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s? %s", near, hint)
		}
		return experiment.AsInput(fmt.Errorf("--only %s: the tables of %s have no such method", name, c.Paper.Name),
			hint)
	}
	return nil
}

// fill resolves a row, and reports whether the configuration selects it.
func (c *Config) fill(row *Row, about []experiment.Setting) (selected bool, err error) {
	if !c.selects(row.tableRow, row.Set) {
		return false, nil
	}
	seeds, every, selected := c.effort(row.tableRow, row.Protocol, experiment.Rows(row.source) > large)
	if !selected {
		return false, nil
	}
	if c.Quick && row.deep {
		every = max(every, quickEvery)
	}
	words := []string{"method=" + row.method, fmt.Sprint("seeds=", seeds), fmt.Sprint("eval-every=", every)}
	words = append(words, strings.Fields(row.variant)...)
	given := append(slices.Clone(about), experiment.Pairs(from, words...)...)
	if row.spec, err = experiment.Resolve(given); err != nil {
		return false, err
	}
	row.spec.FitTo(row.source)
	row.seeds = seeds
	row.Folder = c.folder(row)
	if row.Folder != "" {
		_, err := os.Stat(filepath.Join(row.Folder, experiment.ResultFile))
		row.Stored = err == nil
	}
	return true, nil
}

// large is the number of rows from which data counts as large. On large data, networks are trained
// with one seed, every second round is evaluated (every fifth for networks), noise is measured under
// the paper's protocol only, FedRecon has one seed under isolated, and some rows are omitted.
const large = 500_000

// privrecEvery is how often a run under privrec is evaluated. Each held-out user trains for an
// evaluation, and only the last round is reported.
const privrecEvery = 20

// effort returns how many seeds a row has and how often it is evaluated, or that it is omitted.
func (c *Config) effort(row tableRow, protocol string, big bool) (seeds, every int, selected bool) {
	switch {
	case big && (row.small || row.table == parityNoise && protocol != "paper"):
		return 0, 0, false
	case protocol == "privrec" && (big || row.small):
		return 1, privrecEvery, true
	case protocol == "privrec":
		return c.Seeds, privrecEvery, true
	case !big && row.deep && row.small:
		return 1, 1, true
	case !big:
		return c.Seeds, 1, true
	case row.deep:
		return 1, 5, true
	case protocol == "isolated" && strings.HasPrefix(row.method, "fedrecon"):
		return 1, 2, true
	}
	return c.Seeds, 2, true
}

func (c *Config) selects(row tableRow, set string) bool {
	return (len(c.Only) == 0 || slices.Contains(c.Only, row.method)) &&
		(len(row.sets) == 0 || slices.Contains(row.sets, set))
}

// folder returns the folder of a row's runs, or an empty string.
func (c *Config) folder(row *Row) string {
	if c.Runs == "" {
		return ""
	}
	name := row.method
	if row.variant != "" {
		name += "-" + strings.NewReplacer("=", "-", ":", "-", ",", "-", " ", "-").Replace(row.variant)
	}
	return filepath.Join(c.Runs, row.Set, row.Protocol, name)
}
