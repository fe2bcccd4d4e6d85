package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// WorldConfig configures a synthetic world. ParseWorld("") returns the defaults; zero fields are invalid.
type WorldConfig struct {
	Users    int     // 1 to 100 million
	Items    int     // 20 to 10 million
	MeanRows int     // rows per user; 5 to a third of the items
	Seed     uint64  // worlds with different seeds are unrelated
	Drift    float64 // how far tastes move over a user's history, from 0 (fixed) to 1 (a new mixture of genres)
}

var worldKeys = []string{"users", "items", "mean-rows", "seed", "drift"}

// ParseWorld parses "users=1000,items=500,mean-rows=40,seed=7,drift=0.5". Missing keys have their defaults;
// mean-rows defaults to at most a third of the items.
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
	expected := "an integer"
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
		expected = "a number"
		c.Drift, err = strconv.ParseFloat(val, 64)
	default:
		return badWorld(short([]byte(key)), oneOf("key", worldKeys), nearest(key, worldKeys))
	}
	if err != nil {
		return badWorld(short([]byte(val)), expected+" for "+key, "")
	}
	return nil
}

func badWorld(found, expected, hint string) error {
	return &InputError{File: "world", Found: found, Expected: expected, Hint: hint}
}

// String returns the form that ParseWorld parses.
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

// hash identifies the world without generating it. The number is the generator's version: it increases when the rows
// of any world change.
func (c WorldConfig) hash() string {
	sum := sha256.Sum256([]byte("tacit world 1 " + c.String()))
	return hex.EncodeToString(sum[:])
}

// World is a synthetic data set that generates users on demand, independently and with the same bits on every
// platform. It keeps a few dozen bytes per item and nothing per user.
//
// A film has one or two genres, a vector near theirs, a rank in a Zipf law of popularity and perhaps a release date.
// A user likes two or three genres, which drift over time, and sees films drawn by popularity and accepted by taste,
// none twice and none before its release.
//
// Info.Hash is the hash of the configuration, also in the set that Generate returns; Hash(w) is the hash of the rows.
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

// maxTitled is the largest catalogue with titles; more titles would need more memory than the world.
const maxTitled = 200_000

// NewWorld returns a world with its films generated.
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

// Generate returns all users as a set, which shares Info with the world.
func (w *World) Generate() *Set {
	s := &Set{Meta: w.info, NumItems: w.cfg.Items, Start: make([]int, 1, w.cfg.Users+1)}
	var h History
	for u := range w.cfg.Users {
		w.History(u, &h)
		s.Item = append(s.Item, h.Items...)
		s.Time = append(s.Time, h.Times...)
		s.Start = append(s.Start, len(s.Item))
	}
	return s
}
