package coordinator

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
)

// mark is how far a coordinator has told anybody, in a file beside its store. A repair
// may take the store back in time; devices, and what was spent, do not go back with it.
// It is written after a version is on disk and before anybody hears of it, so it is never
// ahead of a store that is whole.
type mark struct {
	Run     string `json:"run"`
	Version uint64 `json:"version"`
	Round   int    `json:"round"` // rounds that are in it
	Turns   int    `json:"turns"`
	Paid    int    `json:"paid"` // lines of the ledger
	Lost    bool   `json:"lost,omitempty"`
	Sum     string `json:"sum"`
}

const markFile = "released.json"

// Where a mark is lost nobody knows how far devices were: so far ahead is far enough.
const (
	versionLeap = 1 << 20
	turnLeap    = 1 << 10
)

func (m mark) sum() string {
	m.Sum = ""
	b, err := json.Marshal(m)
	if err != nil {
		return "none"
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

func (m mark) write(dir string) error {
	m.Sum = m.sum()
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, markFile), append(b, '\n'))
}

// readMark is nil where there is none.
func readMark(dir string) (*mark, error) {
	b, err := os.ReadFile(filepath.Join(dir, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &mark{}
	if err := json.Unmarshal(b, m); err != nil || m.Sum != m.sum() {
		return nil, damaged(dir, "file "+markFile, "is not as it was written")
	}
	return m, nil
}

func damaged(dir, where, what string) error {
	return &store.Damage{Where: where, What: what, Hint: fmt.Sprintf("`tacit serve --state %s --repair` keeps what "+
		"is whole and says what was lost", dir)}
}

// Repair makes a damaged folder one that opens. What it takes back in time is not told
// anybody twice: see mark.
func Repair(dir string) (*store.Report, error) {
	r, err := store.Repair(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	m, err := readMark(dir)
	if errors.As(err, new(*store.Damage)) || err == nil && m == nil {
		r.Lost = append(r.Lost, "how far devices were told: versions and turns leap ahead of all that may have been")
		err = mark{Lost: true}.write(dir)
	}
	return r, err
}

// leave writes the mark of the newest version.
func (c *Coordinator) leave(v *version) error {
	return mark{Run: v.Run, Version: v.Version, Round: v.Round, Turns: c.times, Paid: v.Paid}.write(c.opt.Dir)
}

// overtaken compares the newest version that the store has with the mark: what is behind
// it was taken back by a repair. The model then is a new version, of another turn, and
// devices answer its rounds anew.
func (c *Coordinator) overtaken(v *version) error {
	m, err := readMark(c.opt.Dir)
	switch {
	case err != nil:
		return err
	case m == nil && v.Version > 1:
		return damaged(c.opt.Dir, "file "+markFile, "is not there")
	case m == nil, !m.Lost && m.Version <= v.Version:
		c.unreleased = c.ledger != nil
		return c.leave(v)
	case m.Lost:
		m = &mark{Run: v.Run, Version: v.Version + versionLeap, Round: c.settings.Rounds, Turns: c.times + turnLeap}
	case m.Run != v.Run:
		return damaged(c.opt.Dir, "file "+markFile, "is of another run")
	}
	c.opt.Warn(fmt.Sprintf("version %d of the model was told to devices, and the newest that is left is %d, after "+
		"round %d: it goes on from there", m.Version, v.Version, v.Round))
	return c.goOn(v, m)
}

// followMark is overtaken where no version is left at all.
func (c *Coordinator) followMark() error {
	m, err := readMark(c.opt.Dir)
	if err != nil || m == nil {
		return err
	}
	if m.Lost {
		m.Version, m.Turns, m.Round = versionLeap, turnLeap, c.settings.Rounds
	}
	c.last, c.times = m.Version, m.Turns+1
	if err := c.put("times", c.times); err != nil {
		return err
	}
	if err := c.paid(&version{Run: m.Run}); err != nil {
		return err
	}
	if m.Round > 0 {
		return c.bar()
	}
	return nil
}

// bar sees that a tree is not gone back in: its noise would show what it hides.
func (c *Coordinator) bar() error {
	if !c.isTree() {
		return nil
	}
	c.barred = "mechanism=tree spreads its noise over rounds, and some of them are lost: no more is released; begin " +
		"another run"
	return c.put("barred", c.barred)
}

func (c *Coordinator) goOn(v *version, m *mark) error {
	if err := c.put("times", max(c.times, m.Turns)+1); err != nil {
		return err
	}
	c.times = max(c.times, m.Turns) + 1
	c.engine.Seed = c.cohortSeed()
	c.last = max(c.last, m.Version)
	if m.Round > v.Round {
		if err := c.bar(); err != nil {
			return err
		}
	}
	if err := c.dropGroups(); err != nil {
		return err
	}
	return c.save(&version{Manifest: v.Manifest})
}

func (c *Coordinator) isTree() bool {
	return c.settings.DP.On() && c.settings.DP.Mechanism == privacy.Tree
}

// paid checks that the ledger is as long as it was when a version was made.
func (c *Coordinator) paid(v *version) error {
	if c.ledger == nil {
		return nil
	}
	want := v.Paid
	if m, err := readMark(c.opt.Dir); err == nil && m != nil && m.Run == v.Run {
		want = max(want, m.Paid)
	}
	if n := c.ledger.Len(); n < want {
		return &store.Damage{
			Where: ledgerFile, What: fmt.Sprintf("has %d lines, and %d were written: what was spent is not known, "+
				"so nothing may be released", n, want),
			Hint: "begin another run: tacit serve --state ANOTHER-FOLDER",
		}
	}
	return nil
}

// freshKey is the key of a release's noise. It is drawn for each one and kept nowhere: a
// release that a kill has cut off was told nobody, and its noise is not used again,
// whatever the store goes back to. Only the noise of a tree must be drawn again, by the
// rounds to come, so it is from the federation's secret; a tree is not gone back in.
func (c *Coordinator) freshKey() {
	rand.Read(c.noise[:])
}

// treeKey is the key of the noise of trees.
func (c *Coordinator) treeKey() (key [32]byte) {
	mac := hmac.New(sha256.New, c.secret[:])
	mac.Write(append([]byte("tacit tree"), c.run...))
	copy(key[:], mac.Sum(nil))
	return key
}
