// Package leaderboard is the leaderboard: every method of the registry, and the reference
// rows, on some data sets under honest protocols. A run is a cell; what came of it is kept
// as one small file, so that cells may be run anywhere and put together by copying.
// Nothing is left out quietly: a cell that was not run is there with its reason.
package leaderboard

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/sim"
)

// Cell is one run of the board.
type Cell struct {
	Method, Set, Protocol string
	Reference             bool // Method is a reference row
	Seed                  uint64
	New                   bool    // some users take no part in training
	Guess                 float64 // seconds on one core, roughly
	Kept                  *Kept   // nil where there is no file
	Reason                string  // why there is none

	spec   *experiment.Spec
	source data.Source
	file   string
	busy   bool
	late   bool // Reason is the time
	known  bool // Guess is what a cell of the row took
}

// Name is what people call it.
func (c *Cell) Name() string {
	name := c.row() + fmt.Sprintf(", seed %d", c.Seed)
	if c.New {
		name += ", new users"
	}
	return name
}

// row names the cells that make one row.
func (c *Cell) row() string {
	name := fmt.Sprintf("%s on %s under %s", c.Method, c.Set, c.Protocol)
	if c.Reference {
		name = "reference " + name
	}
	return name
}

// Kept is what a cell's file holds.
type Kept struct {
	Key       string          `json:"key"` // names all that decides the bits
	Method    string          `json:"method"`
	Reference bool            `json:"reference,omitempty"`
	Epsilon   float64         `json:"epsilon,omitempty"` // spent; 0 without a promise
	Central   bool            `json:"central,omitempty"`
	Dataset   string          `json:"dataset"`
	DataHash  string          `json:"data_hash"`
	Protocol  string          `json:"protocol"`
	Seed      uint64          `json:"seed"`
	Refused   string          `json:"refused,omitempty"` // why nothing was measured: it would be again
	Settings  map[string]any  `json:"settings,omitempty"`
	From      string          `json:"settings_from,omitempty"`
	Choice    *report.Choice  `json:"chosen_settings,omitempty"`
	Rounds    int             `json:"rounds,omitempty"`
	Selected  int             `json:"selected_round,omitempty"`
	Test      metrics.Summary `json:"test"`
	// the metrics of the quarter of the users with the fewest train rows
	Few      [4]float64       `json:"few_rows"`
	NewUsers *report.NewUsers `json:"new_users,omitempty"` // users that took no part in training
	Up       float64          `json:"bytes_up"`            // by a device in the whole of training
	Down     float64          `json:"bytes_down"`
	Seconds  report.Seconds   `json:"seconds"`
	Jobs     int              `json:"jobs"`
	Each     [4]string        `json:"each"` // packed: sampled HR@10 and NDCG@10, full HR@10 and NDCG@10 of each user
	Version  string           `json:"version,omitempty"`
	Commit   string           `json:"commit,omitempty"`
	CPU      string           `json:"cpu,omitempty"`
}

// read takes a cell from its file, if that is there and is of this cell.
func (c *Cell) read(key string) {
	b, err := os.ReadFile(c.file)
	if err != nil || len(b) > 64<<20 {
		return
	}
	var k Kept
	if json.Unmarshal(b, &k) != nil || k.Key != key || k.Refused == "" && (k.Test.Sampled == nil && k.NewUsers == nil) {
		return
	}
	c.Kept = &k
}

func (c *Cell) write(k *Kept) error {
	b, err := json.MarshalIndent(k, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Write(c.file, append(b, '\n'))
}

// run measures the cell. What the program refuses, such as a method without the features
// that it needs, is kept too; what was stopped is not. It changes no cell: others look at
// them meanwhile.
func (c *Cell) run(ctx context.Context, a *Agenda) (*Kept, error) {
	k := &Kept{
		Key: c.key(), Method: c.Method, Reference: c.Reference, Dataset: c.Set, DataHash: c.source.Info().Hash,
		Protocol: c.Protocol, Seed: c.Seed,
		Jobs: a.Jobs, Version: a.Version, Commit: a.Commit, CPU: experiment.CPU(), From: "default",
	}
	err := k.fill(ctx, c, a)
	var wrong *experiment.Input
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &wrong):
		k.Refused = err.Error()
	case err != nil:
		return nil, err
	}
	return k, c.write(k)
}

func (k *Kept) fill(ctx context.Context, c *Cell, a *Agenda) error {
	spec, err := c.spec.With(nil) // a method may keep what it was bound to
	if err != nil {
		return err
	}
	if c.Reference {
		return k.refer(ctx, c, spec, a.Jobs)
	}
	job := &experiment.Job{
		Spec: spec, Source: c.source, Jobs: a.Jobs, NoRefs: true, Version: a.Version,
		Commit: a.Commit,
	}
	var run *sim.Run
	var split *data.Split
	job.Tell = func(e any) {
		if s, ok := e.(experiment.Started); ok {
			run, split = s.Run, s.Split
		}
	}
	if err := job.Choose(ctx); err != nil {
		return err
	}
	res, err := job.Run(ctx)
	if err != nil {
		return err
	}
	k.Central, k.Settings, k.Choice, k.Rounds, k.Selected = res.Central, res.Params, res.Choice, res.Rounds,
		res.SelectedRound
	if res.Privacy != nil {
		k.Epsilon, _ = res.Privacy.Epsilon.(float64)
	}
	switch {
	case res.Choice != nil:
		k.From = "chosen on validation"
	case res.Preset != nil:
		k.From = "preset " + *res.Preset
	}
	devices := float64(max(run.Fleet.Users(), 1))
	k.Test, k.NewUsers, k.Seconds = res.Test, res.NewUsers, res.Seconds
	k.Up, k.Down = float64(run.Bytes)/devices, res.Bytes.Down*float64(run.Devices)/devices
	if k.Central {
		k.Up, k.Down = 0, 0
	}
	sampled, full := run.Best.Each(spec.TieRule())
	return k.each(split, sampled, full)
}

// refer measures a reference row.
func (k *Kept) refer(ctx context.Context, c *Cell, spec *experiment.Spec, jobs int) error {
	split, err := spec.Split(c.source)
	if err != nil {
		return err
	}
	start := time.Now()
	row, err := reference.Compute(ctx, c.Method, reference.Config{
		Split: split, Rounds: 100, Negatives: 4,
		Seed: c.Seed, Ties: spec.TieRule(), Jobs: jobs,
	})
	if err != nil {
		return err
	}
	if row.Test == nil {
		return &experiment.Input{Err: errors.New(row.Reason)}
	}
	k.Central, k.From, k.Test, k.Seconds.Total = true, row.About, *row.Test, time.Since(start).Seconds()
	k.Seconds.Train = k.Seconds.Total
	if row.New != nil {
		k.NewUsers = &report.NewUsers{Share: spec.NewUsers, How: "as the others", Test: *row.New}
	}
	return k.each(split, row.Sampled, row.Full)
}

// each keeps the metrics of every user, and those of users with few rows.
func (k *Kept) each(split *data.Split, sampled, full metrics.Each) error {
	var p data.Part
	train := make([]int, split.Users())
	for u := range train {
		split.User(u, &p)
		train[u] = len(p.Train)
	}
	for i, e := range [2]metrics.Each{sampled, full} {
		order := make([]int, len(e.Users))
		for x := range order {
			order[x] = x
		}
		slices.SortStableFunc(order, func(a, b int) int { return train[e.Users[a]] - train[e.Users[b]] })
		few := order[:len(order)/4]
		for m, values := range [2][]float32{e.HR, e.NDCG} {
			all := slices.Repeat([]float32{float32(math.NaN())}, split.Users())
			for x, u := range e.Users {
				all[u] = values[x]
			}
			for _, x := range few {
				k.Few[2*i+m] += float64(values[x]) / float64(len(few))
			}
			var err error
			if k.Each[2*i+m], err = pack(all); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack writes numbers as text: they are few different ones, and deflate well.
func pack(xs []float32) (string, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return "", err
	}
	if err := binary.Write(w, binary.LittleEndian, xs); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// unpack is pack backwards. A file may come from anywhere: what it unfolds to is bounded.
func unpack(s string) ([]float32, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("board: users' metrics: %w", err)
	}
	const most = 64 << 20
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), most+1))
	if err != nil {
		return nil, fmt.Errorf("board: users' metrics: %w", err)
	}
	if len(b) > most || len(b)%4 != 0 {
		return nil, fmt.Errorf("board: users' metrics have %d bytes: want a multiple of 4, and at most %d", len(b),
			most)
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out, nil
}

// plain makes a name fit for a file.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("+.-", r) {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}
