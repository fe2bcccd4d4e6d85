package coordinator

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/store"
)

// ReceiveBackup unpacks an archive of WriteBackup into the folder of a back-up, and verifies the
// result. Files are readable by their owner only. Until it succeeds, the folder holds the back-up
// from before.
func ReceiveBackup(r io.Reader, dir string) (*Backup, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	old, err := ReadBackup(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fresh := filepath.Join(dir, "receiving")
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	defer os.RemoveAll(fresh)
	b, err := unpack(r, fresh)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Federation != b.Federation {
		return nil, fmt.Errorf("%s holds a back-up of federation %s, and this is %s; choose another folder", dir,
			old.Federation, b.Federation)
	}
	if b.Partial && old == nil {
		return nil, fmt.Errorf("%s holds no complete back-up, and this one has only the ledger and released.json", dir)
	}
	if err := b.complete(dir, fresh); err != nil {
		return nil, err
	}
	if b.Partial {
		merged := *old
		merged.Updated, merged.Released = b.Updated, b.Released
		for _, f := range b.Files {
			i := slices.IndexFunc(merged.Files, func(x BackupFile) bool { return x.Name == f.Name })
			if i >= 0 {
				merged.Files[i] = f
			} else {
				merged.Files = append(merged.Files, f)
			}
		}
		*b = merged
		b.Partial = false
	}
	return b, b.install(dir, fresh)
}

// unpack writes an archive to a new folder.
func unpack(r io.Reader, dir string) (*Backup, error) {
	for _, sub := range backupFolders {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err != nil {
			return nil, fmt.Errorf("the back-up is not complete: %w", err)
		}
		if !validBackupName(h.Name) || h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("the archive contains %.60q, which is not a file of a back-up", h.Name)
		}
		b, err := io.ReadAll(t)
		if err != nil {
			return nil, fmt.Errorf("the back-up is not complete: %w", err)
		}
		if h.Name != backupManifest {
			if err := writeSecret(filepath.Join(dir, filepath.FromSlash(h.Name)), b); err != nil {
				return nil, err
			}
			continue
		}
		out := &Backup{}
		if err := json.Unmarshal(b, out); err != nil || out.Format != backupFormat {
			return nil, fmt.Errorf("the back-up has format %d, this program reads %d: %w", out.Format, backupFormat,
				err)
		}
		return out, out.checkNames()
	}
}

// checkNames refuses names of files outside of a back-up: a coordinator that lies may have sent them.
func (b *Backup) checkNames() error {
	for _, f := range b.Files {
		if !validBackupName(f.Name) {
			return fmt.Errorf("%s names %.60q, which is not a file of a back-up", backupManifest, f.Name)
		}
	}
	return nil
}

func writeSecret(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// complete prepends the bytes that the folder has, and compares all hashes.
func (b *Backup) complete(dir, fresh string) error {
	for i := range b.Files {
		f := &b.Files[i]
		path := filepath.Join(fresh, filepath.FromSlash(f.Name))
		if f.From > 0 {
			old, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Name)))
			if err != nil || int64(len(old)) < f.From {
				return fmt.Errorf("%s has fewer than %d bytes of %s: %w", dir, f.From, f.Name, err)
			}
			tail, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			whole := append(old[:f.From:f.From], tail...)
			if err := errors.Join(os.Remove(path), writeSecret(path, whole)); err != nil {
				return err
			}
			f.From = 0
		}
		if err := f.check(fresh); err != nil {
			return err
		}
	}
	return nil
}

// check reads a file again and compares its hash.
func (f *BackupFile) check(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Name)))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.SHA256 || int64(len(b)) != f.Bytes {
		return fmt.Errorf("%s of the back-up is corrupt: its SHA-256 is not the one that was written", f.Name)
	}
	return nil
}

// install moves received files into the folder. The list of files comes last: a crash before leaves
// a back-up whose hashes do not match, and the next one replaces it.
func (b *Backup) install(dir, fresh string) error {
	keep := map[string]bool{}
	for _, f := range b.Files {
		keep[f.Name] = true
	}
	for _, sub := range backupFolders {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
		received, err := os.ReadDir(filepath.Join(fresh, sub))
		if err != nil {
			return err
		}
		for _, e := range received {
			if e.IsDir() {
				continue
			}
			if err := os.Rename(filepath.Join(fresh, sub, e.Name()), filepath.Join(dir, sub, e.Name())); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(fresh, backupManifest)
	if err := errors.Join(writeSecret(path, text), os.Rename(path, filepath.Join(dir, backupManifest))); err != nil {
		return err
	}
	for _, sub := range backupFolders {
		all, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			return err
		}
		for _, e := range all {
			if !keep[sub+"/"+e.Name()] && !e.IsDir() {
				if err := os.Remove(filepath.Join(dir, sub, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ReadBackup reads the description of a back-up; fs.ErrNotExist if the folder has none.
func ReadBackup(dir string) (*Backup, error) {
	b, err := os.ReadFile(filepath.Join(dir, backupManifest))
	if err != nil {
		return nil, err
	}
	out := &Backup{}
	if err := json.Unmarshal(b, out); err != nil || out.Format != backupFormat {
		return nil, fmt.Errorf("%s: format %d, this program reads %d: %w", filepath.Join(dir, backupManifest),
			out.Format, backupFormat, err)
	}
	return out, out.checkNames()
}

// ShippedBytes are the bytes of the ledger and the audit log in a back-up, for BackupOptions.Have.
func (b *Backup) ShippedBytes() map[string]int64 {
	out := map[string]int64{}
	for _, f := range b.Files {
		name, ok := strings.CutPrefix(f.Name, "files/")
		if ok && slices.Contains(shipped, name) && name != models.PublishedFile {
			out[name] = f.Bytes
		}
	}
	return out
}

// Restored says that a folder was restored from a back-up.
type Restored struct {
	At      time.Time `json:"at"`
	Version uint64    `json:"version"` // the newest model of the back-up
	Ledger  time.Time `json:"ledger"`  // what was spent after this time may be missing from the ledger
}

// Restore makes a state folder from a back-up, and verifies both. The folder must not exist or be empty.
func Restore(from, dir string) (*Backup, error) {
	b, err := ReadBackup(from)
	if err != nil {
		return nil, err
	}
	for i := range b.Files {
		if err := b.Files[i].check(from); err != nil {
			return nil, err
		}
	}
	if all, err := os.ReadDir(dir); err == nil && len(all) > 0 {
		return nil, fmt.Errorf("%s is not empty: a back-up is restored into a new folder", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := b.fill(from, dir); err != nil {
		return nil, err
	}
	mark, err := json.Marshal(Restored{At: time.Now().UTC(), Version: b.Version, Ledger: b.Updated})
	if err != nil {
		return nil, err
	}
	if err := writeSecret(filepath.Join(dir, RestoredFile), mark); err != nil {
		return nil, err
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	return b, errors.Join(st.Verify(), st.Close())
}

// fill writes the store and the files beside it.
func (b *Backup) fill(from, dir string) (err error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for _, f := range b.Files {
		text, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(f.Name)))
		if err != nil {
			return err
		}
		switch name, beside := strings.CutPrefix(f.Name, "files/"); {
		case beside && name == RestoredFile: // of an earlier restoration
		case beside:
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
				err = writeSecret(path, text)
			}
		case f.Log != "":
			err = putLog(st, f.Log, text)
		case f.Name == "store/values.json":
			err = putValues(st, text)
		default:
			_, err = st.PutBlob(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func putLog(st *store.Store, log string, text []byte) error {
	var records [][]byte
	if err := json.Unmarshal(text, &records); err != nil {
		return err
	}
	for _, r := range records {
		if err := st.Append(log, r); err != nil {
			return err
		}
	}
	return nil
}

func putValues(st *store.Store, text []byte) error {
	var values map[string][]byte
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&values); err != nil {
		return err
	}
	for key, v := range values {
		if err := st.Put(key, v); err != nil {
			return err
		}
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
	c.opt.Warn(fmt.Sprintf("this folder was restored from a back-up whose ledger is of %s: what was spent later is "+
		"not in it, and the budget shown may be too low until devices have checked in", r.Ledger.Format(time.RFC3339)))
	return false
}
