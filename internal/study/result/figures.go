package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// Figures is figures.json: measurements of a run's model for the figures of a report. A figure that could not be
// made is nil, and Missing says why, by its name in the file.
type Figures struct {
	Schema     int               `json:"schema_version"`
	Seconds    float64           `json:"seconds"` // to compute the figures; not included in the run's
	Items      *ItemMap          `json:"items,omitempty"`
	Inference  *Inference        `json:"inference,omitempty"`
	Popularity *Popularity       `json:"popularity,omitempty"`
	Landscape  *Landscape        `json:"landscape,omitempty"`
	Missing    map[string]string `json:"missing,omitempty"`
}

// ItemMap is item rows in the plane, with one device's view of them.
type ItemMap struct {
	Catalogue int          `json:"catalogue"` // number of items; the map has the most popular ones
	Dim       int          `json:"dim"`
	User      string       `json:"user"`
	Items     []MapItem    `json:"items"`
	Maps      []Projection `json:"maps"`
}

// MapItem is an item of a map.
type MapItem struct {
	Item   int      `json:"item"`
	Title  string   `json:"title"`
	Rows   int      `json:"train_rows"` // of all users
	Kind   string   `json:"kind"`       // to the device: train, negative, valid, test, or empty
	Global float64  `json:"global_score"`
	Own    *float64 `json:"own_score,omitempty"`
}

// Projection is one projection. XY are in the order of the items.
type Projection struct {
	Table  string       `json:"table"` // coordinator, or device: its own tuned rows
	Kind   string       `json:"kind"`  // pca or tsne
	Shares *[2]float64  `json:"variance_shares,omitempty"`
	XY     [][2]float64 `json:"xy"`
}

// Inference is the test HR@10 and NDCG@10 of the last model with three tables.
type Inference struct {
	Users int         `json:"users"`
	Own   [2]float64  `json:"own"`
	Base  [2]float64  `json:"global"`
	Other *[2]float64 `json:"random"`
}

// Popularity compares recommendations with train rows, by tenths of the catalogue, the most popular first.
type Popularity struct {
	Data        []float64 `json:"data"`        // share of the train rows, by tenth
	Recommended []float64 `json:"recommended"` // share of the lists' places
	HeadItems   int       `json:"head_items"`  // the most popular, that hold 80 % of the train rows
	TailShare   float64   `json:"tail_share"`  // of the lists' places, of items that are not among those
	Coverage    float64   `json:"coverage"`    // share of the catalogue that is in some list
	Gini        float64   `json:"gini"`        // of the places of items: 0 for all equal, 1 for one item
	GiniData    float64   `json:"gini_data"`   // of their train rows
	Users       int       `json:"users"`
	Most        []TopItem `json:"most"`
}

// TopItem is one of the most recommended items.
type TopItem struct {
	Title string  `json:"title"`
	Share float64 `json:"share_of_users"`
	Rows  int     `json:"train_rows"`
}

// Landscape is the training loss around the last model, along two directions of the shared parameters.
type Landscape struct {
	Loss    string       `json:"loss"`
	Devices int          `json:"devices"`
	Samples int          `json:"samples"`
	Shared  int          `json:"shared_numbers"`
	Norm    float64      `json:"norm"` // of the shared parameters
	Centre  float64      `json:"centre"`
	Grids   []Grid       `json:"grids"`
	Ascent  []AscentStep `json:"ascent"`
}

// Grid is a landscape in one mode: Loss[b][a] at Axis[a] along the first direction
// and Axis[b] along the second.
type Grid struct {
	Mode string      `json:"mode"` // authors or filter
	Axis []float64   `json:"axis"`
	Loss [][]float64 `json:"loss"`
	Most float64     `json:"sharpness_most"`
	Mean float64     `json:"sharpness_mean"`
}

// AscentStep is the increase of the loss after a step of length Rho along the gradient: the sharpness of
// sharpness-aware minimisation.
type AscentStep struct {
	Rho  float64 `json:"rho"`
	Rise float64 `json:"rise"`
}

// Spectrum is the spread of an item table after a round.
type Spectrum struct {
	Of            string    `json:"of"` // all rows; trained: of items with a train row; unit: the trained, of length 1
	Rows          int       `json:"rows"`
	Singular      []float64 `json:"singular"`
	EffectiveRank float64   `json:"effective_rank"`
	Abundance     float64   `json:"information_abundance"`
	Participation float64   `json:"participation_ratio"`
}

// Limits on figures, which may come from an untrusted file.
const (
	maxMapItems = 5000
	maxMaps     = 8
	maxGrid     = 101
	maxDims     = 4096
)

// readFigures reads figures.json.
func readFigures(in io.Reader) (*Figures, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxResult))
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	f := new(Figures)
	if err := decode(b, b, 0, f); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return f, nil
}

// sane reports whether numbers can be drawn: their differences stay finite.
func sane(xs ...float64) bool {
	for _, x := range xs {
		if !(math.Abs(x) <= 1e30) {
			return false
		}
	}
	return true
}

// share reports whether numbers are fractions, up to rounding.
func share(xs ...float64) bool {
	for _, x := range xs {
		if !(x >= 0 && x <= 1.000001) {
			return false
		}
	}
	return true
}

// check reports the first value that cannot be drawn.
func (f *Figures) check() error {
	if f.Schema != Schema {
		return fmt.Errorf("schema_version is %d, expected %d", f.Schema, Schema)
	}
	if len(f.Missing) > 20 {
		return fmt.Errorf("missing has %d entries, expected at most 20", len(f.Missing))
	}
	if p := f.Popularity; p != nil {
		shares := append(append([]float64{p.TailShare, p.Coverage}, p.Data...), p.Recommended...)
		for _, m := range p.Most {
			shares = append(shares, m.Share)
		}
		if len(p.Data) > 100 || len(p.Data) != len(p.Recommended) || len(p.Most) > 100 {
			return fmt.Errorf("popularity has %d shares of data, %d of recommendations and %d items, expected equal "+
				"numbers of shares and at most 100 of each",
				len(p.Data), len(p.Recommended), len(p.Most))
		}
		if !share(shares...) || !sane(p.Gini, p.GiniData) {
			return errors.New("popularity has a share outside 0 to 1")
		}
	}
	if in := f.Inference; in != nil && (!share(in.Own[:]...) || !share(in.Base[:]...) || in.Other != nil &&
		!share(in.Other[:]...)) {
		return errors.New("inference has a metric outside 0 to 1")
	}
	return errors.Join(f.Items.check(), f.Landscape.check())
}

func (m *ItemMap) check() error {
	if m == nil {
		return nil
	}
	if len(m.Items) > maxMapItems || len(m.Maps) > maxMaps {
		return fmt.Errorf("items has %d items in %d maps, expected at most %d in %d", len(m.Items), len(m.Maps),
			maxMapItems,
			maxMaps)
	}
	for i, p := range m.Maps {
		if len(p.XY) != len(m.Items) {
			return fmt.Errorf("items.maps[%d] has %d points, expected %d", i, len(p.XY), len(m.Items))
		}
		for _, xy := range p.XY {
			if !sane(xy[:]...) {
				return fmt.Errorf("items.maps[%d] has a coordinate beyond 1e30", i)
			}
		}
		if p.Shares != nil && !share(p.Shares[:]...) {
			return fmt.Errorf("items.maps[%d] has a share of the variance outside 0 to 1", i)
		}
	}
	return nil
}

func (l *Landscape) check() error {
	if l == nil {
		return nil
	}
	if len(l.Grids) > 4 || len(l.Ascent) > 20 {
		return fmt.Errorf("landscape has %d grids and %d steps, expected at most 4 and 20", len(l.Grids), len(l.Ascent))
	}
	for _, g := range l.Grids {
		if len(g.Axis) < 2 || len(g.Axis) > maxGrid || len(g.Loss) != len(g.Axis) {
			return fmt.Errorf("landscape %s has %d rows for %d positions, expected equal numbers, from 2 to %d",
				format.Clip(g.Mode, 20),
				len(g.Loss), len(g.Axis), maxGrid)
		}
		for _, row := range g.Loss {
			if len(row) != len(g.Axis) {
				return fmt.Errorf("landscape %s has a row of %d values for %d positions", format.Clip(g.Mode, 20),
					len(row),
					len(g.Axis))
			}
			if !sane(row...) || !sane(g.Axis...) {
				return fmt.Errorf("landscape %s has a value beyond 1e30", format.Clip(g.Mode, 20))
			}
		}
	}
	return nil
}

// check reports a spectrum that cannot be drawn.
func (s *Spectrum) check() error {
	if len(s.Singular) > maxDims || !sane(s.Singular...) || !sane(s.EffectiveRank, s.Abundance, s.Participation) {
		return fmt.Errorf("spectrum has %d values, expected at most %d, none beyond 1e30", len(s.Singular), maxDims)
	}
	return nil
}

// JSON returns the content of figures.json.
func (f *Figures) JSON() ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("figures: %w", err)
	}
	return append(b, '\n'), nil
}

// SixDigits rounds a number to six significant digits, for files.
func SixDigits(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(x))))
	if math.IsInf(scale, 0) || scale == 0 {
		return x
	}
	return math.Round(x*scale) / scale
}
