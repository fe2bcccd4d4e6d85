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

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/store"
)

// ErrOtherRun says that a backup lacks the run to which new lines of the ledger belong.
var ErrOtherRun = errors.New("the backup lacks the newest run: make a complete backup")

// ReceiveBackup unpacks an archive of WriteBackup into the folder of a backup, and verifies the
// result. Files are readable by their owner only. Until it succeeds, and also if the machine stops
// meanwhile, the folder holds the backup from before. It refuses a folder that another call writes to.
func ReceiveBackup(r io.Reader, dir string) (*Backup, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, owner, err := store.LockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, fmt.Errorf("another backup is being written to %s (process %s); wait for its end, or choose "+
			"another folder", dir, owner)
	}
	defer lock.Close()
	b, err := receiveBackup(r, dir, func(string) error { return nil })
	if err != nil {
		_ = removeUnused(dir) // otherwise the next backup does it
	}
	return b, err
}

// receiveBackup writes a new generation beside that of the folder and then renames backup.json, which
// decides which files belong to the backup. The folder exists and is locked. Tests interrupt it with step.
func receiveBackup(r io.Reader, dir string, step func(name string) error) (*Backup, error) {
	old, err := ReadBackup(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := removeUnused(dir); err != nil {
		return nil, err
	}
	generation := 1
	if old != nil {
		generation = old.Generation + 1
	}
	fresh := filepath.Join(dir, generationFolder(generation))
	b, err := unpack(r, fresh, step)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Federation != b.Federation {
		return nil, fmt.Errorf("%s holds a backup of federation %s, and this is %s; choose another folder", dir,
			old.Federation, b.Federation)
	}
	if b.Partial && old == nil {
		return nil, fmt.Errorf("%s holds no complete backup, and this one has only the ledger and released.json", dir)
	}
	if b.Partial && old.RunNumber != b.RunNumber {
		return nil, fmt.Errorf("%w (run %d; %s has run %d)", ErrOtherRun, b.RunNumber, dir, old.RunNumber)
	}
	b.Generation = generation
	if err := b.complete(old, dir); err != nil {
		return nil, err
	}
	if b.Partial {
		b = old.with(b)
	}
	for _, sub := range append(slices.Clone(backupFolders), ".") {
		if err := atomicfile.SyncDir(filepath.Join(fresh, sub)); err != nil {
			return nil, err
		}
	}
	if err := step("completed"); err != nil {
		return nil, err
	}
	if err := b.install(dir, step); err != nil {
		return nil, err
	}
	return b, removeUnused(dir)
}

func generationFolder(n int) string { return fmt.Sprintf("%06d", n) }

// with is a backup of which some files are replaced.
func (b *Backup) with(partial *Backup) *Backup {
	out := *b
	out.Updated, out.Released, out.Generation = partial.Updated, partial.Released, partial.Generation
	out.Files = slices.Clone(b.Files)
	for _, f := range partial.Files {
		i := slices.IndexFunc(out.Files, func(x BackupFile) bool { return x.Name == f.Name })
		if i >= 0 {
			out.Files[i] = f
		} else {
			out.Files = append(out.Files, f)
		}
	}
	return &out
}

// unpack writes an archive to a new folder.
func unpack(r io.Reader, dir string, step func(string) error) (*Backup, error) {
	for _, sub := range backupFolders {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err != nil {
			return nil, fmt.Errorf("the backup is not complete: %w", err)
		}
		if !validBackupName(h.Name) || h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("the archive contains %.60q, which is not a file of a backup", h.Name)
		}
		if h.Name != backupManifest {
			if err := writeSecret(filepath.Join(dir, filepath.FromSlash(h.Name)), t); err != nil {
				return nil, fmt.Errorf("the backup is not complete: %w", err)
			}
			if err := step("received " + h.Name); err != nil {
				return nil, err
			}
			continue
		}
		b, err := io.ReadAll(t)
		if err != nil {
			return nil, fmt.Errorf("the backup is not complete: %w", err)
		}
		return parseBackup(b, "the backup")
	}
}

// writeSecret writes a new file that only its owner can read, and syncs it.
func writeSecret(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}

// complete prepends the bytes that the generation before has, and compares all hashes.
func (b *Backup) complete(old *Backup, dir string) error {
	for i := range b.Files {
		f := &b.Files[i]
		f.Generation = b.Generation
		if f.From > 0 {
			if err := f.prepend(old, dir); err != nil {
				return err
			}
		}
		if err := f.check(dir); err != nil {
			return err
		}
	}
	return nil
}

// prepend puts the first bytes, which the receiver had, before those that were received.
func (f *BackupFile) prepend(old *Backup, dir string) error {
	at := -1
	if old != nil {
		at = slices.IndexFunc(old.Files, func(x BackupFile) bool { return x.Name == f.Name })
	}
	if at < 0 || old.Files[at].Bytes < f.From {
		return fmt.Errorf("%s has fewer than %d bytes of %s: make a complete backup", dir, f.From, f.Name)
	}
	before, err := os.Open(old.Files[at].path(dir))
	if err != nil {
		return err
	}
	defer before.Close()
	path := f.path(dir)
	if err := os.Rename(path, path+"-rest"); err != nil {
		return err
	}
	rest, err := os.Open(path + "-rest")
	if err != nil {
		return err
	}
	err = writeSecret(path, io.MultiReader(io.LimitReader(before, f.From), rest))
	f.From = 0
	return errors.Join(err, rest.Close(), os.Remove(path+"-rest"))
}

func (f *BackupFile) path(dir string) string {
	return filepath.Join(dir, generationFolder(f.Generation), filepath.FromSlash(f.Name))
}

// check reads a file again and compares its hash.
func (f *BackupFile) check(dir string) error {
	r, err := os.Open(f.path(dir))
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 || n != f.Bytes {
		return fmt.Errorf("%s of the backup is corrupt: its SHA-256 is not the one that was written", f.Name)
	}
	return nil
}

// install makes the folder hold this backup, by renaming one file.
func (b *Backup) install(dir string, step func(string) error) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, backupManifest)
	if err := writeSecret(path+".new", bytes.NewReader(text)); err != nil {
		return err
	}
	if err := errors.Join(atomicfile.SyncDir(dir), step("described")); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return errors.Join(atomicfile.SyncDir(dir), step("installed"))
}

// removeUnused removes what an interruption left, and generations that are not used any more.
func removeUnused(dir string) error {
	b, err := ReadBackup(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	used := map[string]bool{}
	if b != nil {
		for i := range b.Files {
			path := b.Files[i].path(dir)
			used[path], used[filepath.Join(dir, generationFolder(b.Files[i].Generation))] = true, true
		}
	}
	generations, err := filepath.Glob(filepath.Join(globEscaper.Replace(dir), "[0-9][0-9][0-9][0-9][0-9][0-9]*"))
	if err != nil {
		return err
	}
	for _, g := range generations {
		if !used[g] {
			err = errors.Join(err, os.RemoveAll(g))
			continue
		}
		err = errors.Join(err, filepath.WalkDir(g, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !used[path] {
				err = os.Remove(path)
			}
			return err
		}))
	}
	if e := os.Remove(filepath.Join(dir, backupManifest+".new")); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

// parseBackup reads the description of a backup.
func parseBackup(b []byte, where string) (*Backup, error) {
	out := &Backup{}
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("%s is corrupt: %w", where, err)
	}
	if out.Format != backupFormat {
		return nil, fmt.Errorf("%s has format %d, and this program reads %d: use another folder", where,
			out.Format, backupFormat)
	}
	for _, f := range out.Files {
		if !validBackupName(f.Name) || f.Generation < 0 {
			return nil, fmt.Errorf("%s names %.60q, which is not a file of a backup", where, f.Name)
		}
	}
	return out, nil
}

// ReadBackup reads the description of a backup; fs.ErrNotExist if the folder has none.
func ReadBackup(dir string) (*Backup, error) {
	path := filepath.Join(dir, backupManifest)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseBackup(b, path)
}

// ShippedBytes are the bytes of the ledger and the audit log in a backup, for BackupOptions.Have.
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

// Restore makes a state folder from a backup, and verifies both. The folder must not exist or be empty. A folder
// whose restoration was interrupted does not open.
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
		return nil, fmt.Errorf("%s is not empty: a backup is restored into a new folder", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	mark := Restored{At: time.Now().UTC(), Version: b.Version, Ledger: b.Updated, Incomplete: true}
	if err := mark.write(dir); err != nil {
		return nil, err
	}
	if err := b.fill(from, dir); err != nil {
		return nil, err
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(st.Verify(), st.Close()); err != nil {
		return nil, err
	}
	mark.Incomplete = false
	return b, mark.write(dir)
}

// fill writes the store and the files beside it.
func (b *Backup) fill(from, dir string) (err error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for _, f := range b.Files {
		text, err := os.ReadFile(f.path(from))
		if err != nil {
			return err
		}
		switch name, beside := strings.CutPrefix(f.Name, "files/"); {
		case beside && name == RestoredFile: // of an earlier restoration
		case beside:
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
				err = writeSecret(path, bytes.NewReader(text))
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
