package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
	"google.golang.org/protobuf/proto"
)

// kept is what the store remembers of a run.
type kept struct {
	Run      []byte   `json:"run"`
	Settings Settings `json:"settings"`
	Items    string   `json:"items"` // hash of the first catalogue
	Count    int      `json:"count"` // of its items
	Features string   `json:"features,omitempty"`
}

// resume goes on with the run of the folder.
func (c *Coordinator) resume() error {
	b, err := c.st.Get("run")
	if errors.Is(err, store.ErrNotFound) {
		c.say("waiting for a run: tacit admin begin, or tacit fleet")
		return nil
	}
	if err != nil {
		return err
	}
	var r kept
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("coord: the run: %w", err)
	}
	defer close(c.ready)
	c.run, c.settings = r.Run, r.Settings
	c.settings.methods = c.opt.Methods
	if err := c.restore(); err != nil {
		return err
	}
	all, err := c.versions()
	if err != nil {
		return err
	}
	if all, err = c.wholeOnes(all); err != nil {
		return err
	}
	if len(all) == 0 {
		b, err := c.st.Blob(hashOf(r.Items))
		if err != nil {
			return err
		}
		first, err := wire.ReadCatalogue(b, r.Count)
		if err == nil {
			err = c.loadFeatures(r.Features, r.Count)
		}
		if err != nil {
			return err
		}
		return c.first(first)
	}
	return c.resumeAt(all[len(all)-1])
}

// resumeAt goes on from a version.
func (c *Coordinator) resumeAt(v *version) error {
	if err := errors.Join(c.loadCatalogue(v), c.loadFeatures(v.Features, v.Items)); err != nil {
		return err
	}
	if err := c.openLedger(); err != nil {
		return err
	}
	if err := c.makeEngine(v.Items); err != nil {
		return err
	}
	if err := c.paid(v); err != nil {
		return err
	}
	if err := c.load(v); err != nil {
		return err
	}
	c.last, c.newest, c.signed = v.Version, v, &pb.SignedManifest{}
	if err := proto.Unmarshal(v.Manifest, c.signed); err != nil {
		return err
	}
	if err := c.overtaken(v); err != nil {
		return err
	}
	c.interrupted()
	c.redeem()
	return c.recall()
}

// interrupted says that a readout was cut off, until there is another: it is not made again.
func (c *Coordinator) interrupted() {
	n := len(c.readouts)
	if c.reading == 0 || c.newest.Round < c.reading || n > 0 && c.readouts[n-1].Round == c.reading {
		return
	}
	c.missed = fmt.Sprintf("the coordinator was stopped during the readout after round %d", c.reading)
}

// restore reads what else was going on.
func (c *Coordinator) restore() error {
	for key, to := range map[string]any{
		"counted": &c.counted, "back": &c.back, "readouts": &c.readouts,
		"paused": &c.paused, "times": &c.times, "reach": &c.reach, "reading": &c.reading, "barred": &c.barred,
	} {
		b, err := c.st.Get(key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		if err != nil {
			return fmt.Errorf("coord: %s: %w", key, err)
		}
	}
	return c.waiting()
}
