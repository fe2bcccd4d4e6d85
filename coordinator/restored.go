package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/atomicfile"
)

// Restored says that a folder was restored from a backup.
type Restored struct {
	At      time.Time `json:"at"`
	Version uint64    `json:"version"` // the newest model of the backup
	Ledger  time.Time `json:"ledger"`  // what was spent after this time may be missing from the ledger
	// Incomplete says that Restore has not yet verified the folder, or was interrupted.
	Incomplete bool `json:"incomplete,omitempty"`
}

// ErrIncomplete says that the restoration of a folder was interrupted.
var ErrIncomplete = errors.New("the folder is not restored completely")

func (r Restored) write(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteSecret(filepath.Join(dir, RestoredFile), b); err != nil {
		return err
	}
	return atomicfile.SyncDir(dir)
}

// refuseIncomplete refuses a folder whose restoration was interrupted. It accepts a damaged file: see reclaims.
func refuseIncomplete(dir string) error {
	if r, err := restored(dir); err == nil && r != nil && r.Incomplete {
		return fmt.Errorf("%w: %s; remove it, and run tacit admin restore again", ErrIncomplete, dir)
	}
	return nil
}

// restored reads whether the folder was restored; nil if not.
func restored(dir string) (*Restored, error) {
	b, err := os.ReadFile(filepath.Join(dir, RestoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out := &Restored{}
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	return out, err
}

// reclaims reports whether ledger entries beyond the newest version may pay for another release. After
// a restoration they may not: their releases may have been seen.
func (c *Coordinator) reclaims(v *models.Version) bool {
	r, err := restored(c.opt.Dir)
	switch {
	case c.budget == nil:
		return false
	case err != nil:
		c.opt.Warn(fmt.Sprintf("%s cannot be read, so all lines of %s count as spent: %v", RestoredFile, budget.File,
			err))
		return false
	case r == nil || v.Version > r.Version:
		return true
	}
	c.opt.Warn(fmt.Sprintf("this folder was restored from a backup whose ledger is of %s: what was spent later is "+
		"not in it, and the budget shown may be too low until devices have checked in", r.Ledger.Format(time.RFC3339)))
	return false
}
