package dashboard

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/study/figure"
)

// mapItems is the number of items on the map.
const mapItems = 400

// mapLabels is the largest number of titles that are written on it.
const mapLabels = 24

// itemMap is a projection of the item vectors of a model on their two widest directions.
type itemMap struct {
	Version uint64
	Table   string
	Points  []mapPoint
	Items   int // of the catalogue
	Popular bool
	Shares  [2]float64 // of the variance
}

// mapPoint is an item on the map, in a drawing of mapWidth by mapHeight.
type mapPoint struct {
	X, Y           float64
	Title, Label   string // the label is empty if it would cover another one
	LabelX, LabelY float64
	End            bool // the label ends at LabelX
}

const mapWidth, mapHeight = 960, 500

// mapCache makes a map when a page asks for it and the last one is old.
type mapCache struct {
	mu   sync.Mutex
	last *itemMap
	err  error
	at   time.Time
}

// mapAge is how long a map is shown before it is made again.
const mapAge = 5 * time.Second

func (c *mapCache) get(source Source) (*itemMap, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > mapAge {
		v, err := source.Vectors(mapItems)
		if c.last, c.err = nil, err; err == nil {
			c.last, c.err = project(v)
		}
		c.at = time.Now()
	}
	return c.last, c.err
}

// project places items so that similar vectors are near each other.
func project(v *Vectors) (*itemMap, error) {
	n := len(v.Titles)
	if n < 3 || v.Dim < 2 || len(v.Rows) != n*v.Dim {
		return nil, fmt.Errorf("a map requires 3 items with vectors of 2 numbers or more; the model has %d with %d", n,
			v.Dim)
	}
	xy, shares := figure.PCA(narrow(figure.Rows{Data: v.Rows, N: n, Dim: v.Dim, Stride: v.Dim}))
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, p := range xy {
		for k := range 2 {
			if math.IsNaN(p[k]) || math.IsInf(p[k], 0) {
				return nil, fmt.Errorf("version %d has vectors that are not finite", v.Version)
			}
			low[k], high[k] = min(low[k], p[k]), max(high[k], p[k])
		}
	}
	if high[0] == low[0] {
		return nil, fmt.Errorf("all item vectors of version %d are equal: the model is not trained yet", v.Version)
	}
	m := &itemMap{
		Version: v.Version, Table: v.Table, Items: v.Items, Popular: v.Popular, Shares: shares,
		Points: make([]mapPoint, n),
	}
	scale := func(x, low, high, size float64) float64 {
		if high == low {
			return size / 2
		}
		return 14 + (x-low)/(high-low)*(size-28)
	}
	for i, p := range xy {
		m.Points[i] = mapPoint{
			X: scale(p[0], low[0], high[0], mapWidth), Y: scale(p[1], low[1], high[1], mapHeight), Title: v.Titles[i],
		}
	}
	m.place()
	return m, nil
}

// mapColumns is the widest table that is projected as it is: the time grows with the cube of the width.
const mapColumns = 128

// narrow adds up columns of a wide table with fixed signs, which keeps distances on average.
func narrow(r figure.Rows) figure.Rows {
	if r.Dim <= mapColumns {
		return r
	}
	out := figure.Rows{N: r.N, Dim: mapColumns, Stride: mapColumns, Data: make([]float32, r.N*mapColumns)}
	for i := range r.N {
		row := out.Row(i)
		for j, x := range r.Row(i) {
			mixed := uint64(j) * 0x9e3779b97f4a7c15
			if mixed>>40&1 == 1 {
				x = -x
			}
			row[mixed>>57] += x
		}
	}
	return out
}

// box is the room of a label.
type box struct{ left, top, right, bottom float64 }

func (a box) overlaps(b box) bool {
	return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

// place gives labels to points, the first ones first, if they have room.
func (m *itemMap) place() {
	const high, letter = 14.0, 6.4
	var taken []box
	for i := range m.Points {
		p := &m.Points[i]
		text := short(p.Title, 28)
		wide := letter * float64(len([]rune(text)))
		at := box{p.X + 7, p.Y - high/2, p.X + 7 + wide, p.Y + high/2}
		if p.End = at.right > mapWidth; p.End {
			at.left, at.right = p.X-7-wide, p.X-7
		}
		room := at.left >= 0 && at.right <= mapWidth && at.top >= 0 && at.bottom <= mapHeight
		for _, other := range taken {
			room = room && !at.overlaps(other)
		}
		if !room || text == "" {
			continue
		}
		p.Label, p.LabelX, p.LabelY = text, p.X+7, p.Y+4
		if p.End {
			p.LabelX = p.X - 7
		}
		if taken = append(taken, at); len(taken) == mapLabels {
			return
		}
	}
}
