package experiment

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
)

// Agenda is what a reproduction will run, with its data open.
type Agenda struct {
	Paper   Paper
	Cells   []*Cell // at least one
	Seconds float64 // a rough guess for those that are not kept
}

// Cell is a row of a table that is to be made.
type Cell struct {
	Set, Protocol string
	Folder        string // where its runs are kept; empty for nowhere
	Kept          bool   // they are there
	paperCell
	seeds  int
	spec   *Spec
	source data.Source
}

func (c *Cell) place() string { return c.Set + " " + c.Protocol + " " }

// tests reports whether a cell is tested against the method.
func (p *Agenda) tests(method string) bool {
	return slices.ContainsFunc(p.Cells, func(c *Cell) bool { return c.against == method })
}

// Sets names the data of the plan with its size.
func (p *Agenda) Sets() []string {
	return names(p.Cells, func(c *Cell) string {
		return fmt.Sprintf("%s (%d users, %d items, %d interactions)", c.Set, c.source.Users(), c.source.Items(),
			Rows(c.source))
	})
}

// Protocols names those of the plan.
func (p *Agenda) Protocols() []string {
	return names(p.Cells, func(c *Cell) string { return c.Protocol })
}

// Kept is how many of the cells are among the runs.
func (p *Agenda) Kept() int {
	n := 0
	for _, c := range p.Cells {
		if c.Kept {
			n++
		}
	}
	return n
}

// plan opens the data and lists the cells, data set by data set.
func (c *ParityConfig) plan(jobs int) (*Agenda, error) {
	p := &Agenda{Paper: c.Paper}
	opened := map[string]data.Source{}
	for _, set := range c.Sets {
		for _, protocol := range c.Protocols {
			// A page of the project is made without the presets of whoever makes it.
			about := append([]Setting{
				{"data", set, "parity"},
				{"preset", "built-in", "parity"},
				{"protocol", protocol, "parity"},
			}, c.Paper.data[set]...)
			spec, err := Resolve(about)
			if err != nil {
				return nil, err
			}
			// A protocol may leave more users out than another.
			key := fmt.Sprint(set, " ", spec.MinRows)
			if opened[key] == nil {
				if opened[key], err = OpenData(&spec.Settings, c.DataDir); err != nil {
					return nil, err
				}
			}
			for _, cell := range c.Paper.cells {
				one := &Cell{Set: set, Protocol: protocol, paperCell: cell, source: opened[key]}
				if wanted, err := c.fill(one, about); err != nil {
					return nil, err
				} else if !wanted {
					continue
				}
				p.Cells = append(p.Cells, one)
				if !one.Kept {
					p.Seconds += float64(one.seeds) * one.spec.Guess(one.source) / float64(jobs)
				}
			}
		}
	}
	if len(p.Cells) == 0 {
		return nil, input(fmt.Errorf("--only %s: no row of %s has such a method on %s", strings.Join(c.Only, ","),
			c.Paper.Name, strings.Join(c.Sets, ",")),
			"its methods are "+strings.Join(c.Paper.methods(), ", "))
	}
	return p, nil
}

// fill resolves a cell, or reports that it is left out.
func (c *ParityConfig) fill(cell *Cell, about []Setting) (wanted bool, err error) {
	if !c.wants(cell.paperCell, cell.Set) {
		return false, nil
	}
	seeds, every, wanted := c.effort(cell.paperCell, cell.Protocol, Rows(cell.source) > large)
	if !wanted {
		return false, nil
	}
	given := append(slices.Clone(about), Setting{"method", cell.method, "parity"},
		Setting{"seeds", fmt.Sprint(seeds), "parity"}, Setting{"eval-every", fmt.Sprint(every), "parity"})
	for _, word := range strings.Fields(cell.variant) {
		key, value, _ := strings.Cut(word, "=")
		given = append(given, Setting{key, value, "parity"})
	}
	if cell.spec, err = Resolve(given); err != nil {
		return false, err
	}
	cell.seeds = seeds
	cell.Folder = c.folder(cell)
	cell.Kept = cell.Folder != "" && exists(filepath.Join(cell.Folder, ResultFile))
	return true, nil
}

// large is how many rows make data large: there networks are trained with one
// seed, every second round is evaluated (of networks every fifth), noise is tried
// under the paper's protocol only, FedRecon has one seed under isolated, and some
// cells are left out.
const large = 500_000

// rarely is how often a run under privrec is evaluated: each held-out user trains on
// its device for it, and the last round is reported whatever came before.
const rarely = 20

// effort is how many seeds a cell has and how often it is evaluated, or that it is
// left out.
func (c *ParityConfig) effort(cell paperCell, protocol string, big bool) (seeds, every int, wanted bool) {
	switch {
	case big && (cell.small || cell.table == parityNoise && protocol != "paper"):
		return 0, 0, false
	case protocol == "privrec" && (big || cell.small):
		return 1, rarely, true
	case protocol == "privrec":
		return c.Seeds, rarely, true
	case !big && cell.deep && cell.small:
		return 1, 1, true
	case !big:
		return c.Seeds, 1, true
	case cell.deep:
		return 1, 5, true
	case protocol == "isolated" && strings.HasPrefix(cell.method, "fedrecon"):
		return 1, 2, true
	}
	return c.Seeds, 2, true
}

func (c *ParityConfig) wants(cell paperCell, set string) bool {
	return (len(c.Only) == 0 || slices.Contains(c.Only, cell.method)) &&
		(len(cell.sets) == 0 || slices.Contains(cell.sets, set))
}

// folder is where the runs of a cell are kept, or empty.
func (c *ParityConfig) folder(cell *Cell) string {
	if c.Runs == "" {
		return ""
	}
	name := cell.method
	if cell.variant != "" {
		name += "-" + strings.NewReplacer("=", "-", ":", "-", ",", "-", " ", "-").Replace(cell.variant)
	}
	return filepath.Join(c.Runs, cell.Set, cell.Protocol, name)
}
