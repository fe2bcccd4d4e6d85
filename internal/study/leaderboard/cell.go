// Package leaderboard measures every method of the registry and the reference rows on several data
// sets under protocols that do not leak. One run is a cell, and its result is one small file, so that
// cells can be run on several machines and collected by copying files. Nothing is left out silently:
// a cell without a result is listed with the reason.
package leaderboard

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/sweep"
	"github.com/tacit-rec/tacit/sim"
)

// Cell is one run of the leaderboard and its job: Result is nil until it was measured.
type Cell struct {
	*sweep.Job[*CellResult]
	Method, Set, Protocol string
	Reference             bool // Method is a reference row
	Seed                  uint64
	New                   bool // some users do not train: they are measured as cold-start users

	spec   *experiment.Spec
	source data.Source
	file   string
}

// row names the row that the cell belongs to.
func (c *Cell) row() string {
	name := fmt.Sprintf("%s on %s under %s", c.Method, c.Set, c.Protocol)
	if c.Reference {
		name = "reference " + name
	}
	return name
}

// CellResult is the content of a cell's file.
type CellResult struct {
	Key       string          `json:"key"` // identifies everything that determines the result
	Method    string          `json:"method"`
	Reference bool            `json:"reference,omitempty"`
	Epsilon   float64         `json:"epsilon,omitempty"` // spent; 0 without a privacy guarantee
	Central   bool            `json:"central,omitempty"`
	Dataset   string          `json:"dataset"`
	DataHash  string          `json:"data_hash"`
	Protocol  string          `json:"protocol"`
	Seed      uint64          `json:"seed"`
	Refused   string          `json:"refused,omitempty"` // why the program rejects the run; empty if it was measured
	Settings  map[string]any  `json:"settings,omitempty"`
	From      string          `json:"settings_from,omitempty"`
	Choice    *result.Choice  `json:"chosen_settings,omitempty"`
	Rounds    int             `json:"rounds,omitempty"`
	Selected  int             `json:"selected_round,omitempty"`
	Test      metrics.Summary `json:"test"`
	// Few are the metrics of the quarter of the users with the fewest training rows.
	Few      [4]float64       `json:"few_rows"`
	NewUsers *result.NewUsers `json:"new_users,omitempty"` // of cells with cold-start users
	Up       float64          `json:"bytes_up"`            // of one device in all rounds
	Down     float64          `json:"bytes_down"`
	Seconds  result.Seconds   `json:"seconds"`
	Jobs     int              `json:"jobs"`
	Each     [4]string        `json:"each"` // packed: sampled HR@10 and NDCG@10, full HR@10 and NDCG@10 per user
	Version  string           `json:"version,omitempty"`
	Commit   string           `json:"commit,omitempty"`
	CPU      string           `json:"cpu,omitempty"`
}

// measure runs the cell. If the program rejects it, such as a method without the features that it
// requires, the result says so and is stored too. measure changes no cell: other goroutines read them.
func (c *Cell) measure(ctx context.Context, b *Board, cores int) (*CellResult, error) {
	r := &CellResult{
		Key: c.key(), Method: c.Method, Reference: c.Reference, Dataset: c.Set, DataHash: c.source.Info().Hash,
		Protocol: c.Protocol, Seed: c.Seed,
		Jobs: cores, Version: b.Version, Commit: b.Commit, CPU: experiment.CPU(), From: "default",
	}
	err := r.fill(ctx, c, cores)
	var refused *experiment.InputError
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &refused):
		r.Refused = err.Error()
	case err != nil:
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return r, nil
}

func (r *CellResult) fill(ctx context.Context, c *Cell, cores int) error {
	spec, err := c.spec.With(nil) // Bind changes the method
	if err != nil {
		return err
	}
	if c.Reference {
		return r.fillReference(ctx, c, spec, cores)
	}
	job := &experiment.Job{Spec: spec, Source: c.source, Jobs: cores, NoReferences: true}
	var run *sim.Run
	var split *data.Split
	job.OnEvent = func(e experiment.Event) {
		if s, ok := e.(experiment.Started); ok {
			run, split = s.Run, s.Split
		}
	}
	if err := job.ChooseSettings(ctx); err != nil {
		return err
	}
	res, err := job.Run(ctx)
	if err != nil {
		return err
	}
	r.Central, r.Settings, r.Choice = res.Central, res.Params, res.Choice
	r.Rounds, r.Selected = res.Rounds, res.SelectedRound
	if res.Privacy != nil {
		r.Epsilon, _ = res.Privacy.Epsilon.(float64)
	}
	switch {
	case res.Choice != nil:
		r.From = "chosen on validation"
	case res.Preset != nil:
		r.From = "preset " + *res.Preset
	}
	devices := float64(max(run.DeviceCount(), 1))
	r.Test, r.NewUsers, r.Seconds = res.Test, res.NewUsers, res.Seconds
	r.Up, r.Down = float64(run.Bytes)/devices, res.Bytes.Down*float64(run.Devices)/devices
	if r.Central {
		r.Up, r.Down = 0, 0
	}
	sampled, full := run.Best.PerUser(spec.TieRule())
	return r.perUser(split, sampled, full)
}

// fillReference measures a reference row.
func (r *CellResult) fillReference(ctx context.Context, c *Cell, spec *experiment.Spec, jobs int) error {
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
		return &experiment.InputError{Err: errors.New(row.Reason)}
	}
	r.Central, r.From, r.Test = true, row.About, *row.Test
	r.Seconds.Total = time.Since(start).Seconds()
	r.Seconds.Train = r.Seconds.Total
	if row.New != nil {
		r.NewUsers = &result.NewUsers{Share: spec.NewUsers, How: "as the others", Test: *row.New}
	}
	return r.perUser(split, row.Sampled, row.Full)
}

// perUser packs the metrics of every user, and takes the means of the users with few rows.
func (r *CellResult) perUser(split *data.Split, sampled, full metrics.PerUser) error {
	var p data.Part
	train := make([]int, split.Users())
	for u := range train {
		split.User(u, &p)
		train[u] = len(p.Train)
	}
	for i, e := range [2]metrics.PerUser{sampled, full} {
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
				r.Few[2*i+m] += float64(values[x]) / float64(len(few))
			}
			var err error
			if r.Each[2*i+m], err = pack(all); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack encodes numbers as text. Metrics take few different values and compress well.
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

// unpack decodes what pack wrote. Files may come from other machines, so the decoded size is bounded.
func unpack(s string) ([]float32, error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("metrics per user are corrupt: %w", err)
	}
	const most = 64 << 20
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), most+1))
	if err != nil {
		return nil, fmt.Errorf("metrics per user are corrupt: %w", err)
	}
	if len(b) > most || len(b)%4 != 0 {
		return nil, fmt.Errorf("metrics per user have %d bytes: must be a multiple of 4, at most %d", len(b), most)
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out, nil
}

// plain replaces the characters of a name that a file name cannot have.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("+.-", r) {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}
