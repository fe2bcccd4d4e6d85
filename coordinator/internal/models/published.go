package models

import (
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
)

// Published is the last version that was published, in a file beside the store. A repair may take
// the store back in time; devices, and the privacy budget that was spent, do not go back with it.
// The file is written after a version is on disk and before anybody sees it, so it is never ahead
// of a complete store.
type Published struct {
	Run         string `json:"run"`
	RunNumber   int    `json:"run_number"`
	Version     uint64 `json:"version"`
	Round       int    `json:"round"` // rounds that the version was trained for
	Rollbacks   int    `json:"turns"`
	LedgerLines int    `json:"paid"`
	Lost        bool   `json:"lost,omitempty"` // a repair did not find the file
	Checksum    string `json:"sum"`
}

// PublishedFile is the file's name.
const PublishedFile = "released.json"

func (p Published) checksum() string {
	p.Checksum = ""
	b, err := json.Marshal(p)
	if err != nil {
		return "none"
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

func (p Published) write(dir string) error {
	p.Checksum = p.checksum()
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, PublishedFile), append(b, '\n'))
}

// WritePublished says that a version is published.
func (m *Models) WritePublished(v *Version, rollbacks int) error {
	p := Published{
		Run: v.Run, RunNumber: v.RunNumber, Version: v.Version, Round: v.Round, Rollbacks: rollbacks,
		LedgerLines: v.LedgerLines,
	}
	return m.store.Retry(func() error { return p.write(m.dir) })
}

// ReadPublished reads the file of a folder; nil if it does not exist.
func ReadPublished(dir string) (*Published, error) {
	b, err := os.ReadFile(filepath.Join(dir, PublishedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Published{}
	if err := json.Unmarshal(b, p); err != nil || p.Checksum != p.checksum() {
		return nil, Damaged(dir, "is corrupt")
	}
	return p, nil
}

// Damaged is the error for a file of a folder that is missing, corrupt or of another run.
func Damaged(dir, problem string) error {
	return &store.Damage{
		Where: "file " + PublishedFile, What: problem,
		Hint: fmt.Sprintf("`tacit serve --state %s --repair` keeps what is intact and lists what was lost", dir),
	}
}

// RepairPublished replaces a missing or corrupt file by one that says so. lost reports that it did.
func RepairPublished(dir string) (lost bool, err error) {
	p, err := ReadPublished(dir)
	corrupt := errors.As(err, new(*store.Damage))
	if err != nil && !corrupt {
		return false, err
	}
	if p != nil {
		return false, nil
	}
	return true, Published{Lost: true}.write(dir)
}
