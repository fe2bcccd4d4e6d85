package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// WorldConfig says which synthetic world to make. ParseWorld("") has the
// defaults; no field has one of its own.
type WorldConfig struct {
	Users    int     // 1 to 100 million
	Items    int     // 20 to 10 million
	MeanRows int     // rows per user; 5 to a third of the items
	Seed     uint64  // worlds with different seeds have nothing in common
	Drift    float64 // how far tastes move over a user's history, 0 (not at all) to 1 (to a new mixture of genres)
}

var worldKeys = []string{"users", "items", "mean-rows", "seed", "drift"}

// ParseWorld reads "users=1000,items=500,mean-rows=40,seed=7,drift=0.5". What is
// not named has its default, and mean-rows never defaults to more than a third
// of the items.
func ParseWorld(s string) (WorldConfig, error) {
	c := WorldConfig{Users: 600, Items: 800, MeanRows: 60, Seed: 1, Drift: 0.3}
	given := map[string]bool{}
	for _, part := range strings.Split(s, ",") {
		if strings.TrimSpace(s) == "" {
			break
		}
		key, val, _ := strings.Cut(part, "=")
		key, val = strings.TrimSpace(key), strings.TrimSpace(val)
		if given[key] {
			return WorldConfig{}, badWorld(short([]byte(s)), "each key once", "")
		}
		given[key] = true
		if err := c.set(key, val); err != nil {
			return WorldConfig{}, err
		}
	}
	if !given["mean-rows"] {
		c.MeanRows = min(c.MeanRows, c.Items/3)
	}
	return c, c.check()
}

func (c *WorldConfig) set(key, val string) error {
	var err error
	want := "a whole number"
	switch key {
	case "users":
		c.Users, err = strconv.Atoi(val)
	case "items":
		c.Items, err = strconv.Atoi(val)
	case "mean-rows":
		c.MeanRows, err = strconv.Atoi(val)
	case "seed":
		c.Seed, err = strconv.ParseUint(val, 10, 64)
	case "drift":
		want = "a number"
		c.Drift, err = strconv.ParseFloat(val, 64)
	default:
		return badWorld(short([]byte(key)), oneOf("key", worldKeys), nearest(key, worldKeys))
	}
	if err != nil {
		return badWorld(short([]byte(val)), want+" for "+key, "")
	}
	return nil
}

func badWorld(found, want, hint string) error {
	return &BadInput{File: "world", Found: found, Want: want, Hint: hint}
}

// String is the form that ParseWorld reads.
func (c WorldConfig) String() string {
	return fmt.Sprintf("users=%d,items=%d,mean-rows=%d,seed=%d,drift=%s",
		c.Users, c.Items, c.MeanRows, c.Seed, strconv.FormatFloat(c.Drift, 'g', -1, 64))
}

func (c WorldConfig) check() error {
	switch {
	case c.Users < 1 || c.Users > 100e6:
		return badWorld(fmt.Sprintf("users=%d", c.Users), "1 to 100000000 users", "")
	case c.Items < 20 || c.Items > 10e6:
		return badWorld(fmt.Sprintf("items=%d", c.Items), "20 to 10000000 items", "")
	case c.MeanRows < 5 || c.MeanRows > c.Items/3:
		return badWorld(fmt.Sprintf("mean-rows=%d", c.MeanRows),
			fmt.Sprintf("5 to %d rows per user, a third of the items", c.Items/3), "")
	case !(c.Drift >= 0 && c.Drift <= 1):
		return badWorld(fmt.Sprintf("drift=%v", c.Drift), "a drift from 0 to 1", "")
	}
	return nil
}

// hash names the world without generating it. The number stands for the
// generator: it goes up when the rows of any world change (a test knows).
func (c WorldConfig) hash() string {
	sum := sha256.Sum256([]byte("tacit world 1 " + c.String()))
	return hex.EncodeToString(sum[:])
}

// World is a synthetic data set whose users are generated when they are asked
// for, alone and each time with the same bits on every platform. It keeps a
// few dozen bytes per item and nothing per user.
//
// A film has one or two genres, a vector near theirs, a place in a Zipf law of
// popularity and perhaps a release date. A user likes two or three genres, less
// or more of others as time goes by, and sees films drawn by popularity and
// taken by taste, none twice and none before its release.
//
// Info.Hash is that of the configuration, also in what Load returns; Hash(w) is
// that of the rows.
type World struct {
	cfg  WorldConfig
	info Info

	centre  [len(genreNames)]vector
	item    []vector
	release []int32  // seconds after worldStart
	cut     []uint32 // with alt: the alias table of the popularities
	alt     []uint32
	accept  [acceptBins]uint32 // by affinity: the chance to take a film, of 2^32
}

var _ Source = (*World)(nil)

// maxTitled bounds the catalogues that get titles: beyond it nobody reads them,
// and they would take more memory than the world.
const maxTitled = 200_000

// NewWorld makes the films of a world.
func NewWorld(cfg WorldConfig) (*World, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	w := &World{cfg: cfg}
	w.info = Info{Name: "world", Hash: cfg.hash(), TimeKind: RealTime}
	w.makeItems()
	w.makeAccept()
	return w, nil
}

func (w *World) Users() int  { return w.cfg.Users }
func (w *World) Items() int  { return w.cfg.Items }
func (w *World) Info() *Info { return &w.info }

// Load generates all users. The set shares Info with the world.
func (w *World) Load() *Set {
	s := &Set{Meta: w.info, NItem: w.cfg.Items, Start: make([]int, 1, w.cfg.Users+1)}
	var h History
	for u := range w.cfg.Users {
		w.History(u, &h)
		s.Item = append(s.Item, h.Items...)
		s.Time = append(s.Time, h.Times...)
		s.Start = append(s.Start, len(s.Item))
	}
	return s
}
