package coordinator

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/audit"
	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/store"
)

// A backup is a folder: backup.json lists its files with their hashes and generations. Each generation
// is a folder of its own, such as 000001. In it, store/ has the values, logs and blobs of the store,
// files/ the files beside the store, among them ledger.jsonl, released.json and audit.jsonl. A backup is
// sent as a tar archive whose last entry is backup.json. A partial backup has only the files that must
// never be older than what was released.

// Backup describes a backup.
type Backup struct {
	Format     int          `json:"format"`
	Created    time.Time    `json:"created"` // of the store's snapshot
	Updated    time.Time    `json:"updated"` // of the ledger and the released version
	Federation string       `json:"federation"`
	RunNumber  int          `json:"run_number"` // the newest run; 0 before the first
	Version    uint64       `json:"version"`    // the newest model
	Released   uint64       `json:"released"`
	Partial    bool         `json:"partial,omitempty"`    // the archive has shipped files only
	Generation int          `json:"generation,omitempty"` // of the newest files; 0 in an archive
	Files      []BackupFile `json:"files"`
}

// BackupFile is a file of a backup.
type BackupFile struct {
	Name   string `json:"name"` // with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	From   int64  `json:"from,omitempty"` // in an archive: the bytes before are at the receiver
	Log    string `json:"log,omitempty"`  // the log of the store that has its records; a long log has several files
	// Generation names the folder that has the file; 0 in an archive.
	Generation int `json:"generation,omitempty"`
}

const (
	backupFormat = 2
	// logFileBytes is about the size of a file with records of a log.
	logFileBytes   = 4 << 20
	backupManifest = "backup.json"
	// RestoredFile says that a folder was restored, and from when its ledger may be too short.
	RestoredFile = "restored.json"
)

// backupFolders are the folders of a backup.
var backupFolders = []string{"store", "files", "files/tls"}

// shipped are the files that grow between backups of the store.
var shipped = []string{budget.File, models.PublishedFile, audit.File}

// BackupOptions say what a backup contains.
type BackupOptions struct {
	Partial bool             // only the ledger, the released version and the audit log
	Have    map[string]int64 // bytes of the ledger and the audit log that the receiver has
}

// WriteBackup writes a backup as a tar archive while rounds continue. It contains the federation's
// keys.
func (c *Coordinator) WriteBackup(w io.Writer, o BackupOptions) error {
	return writeBackup(c.st, c.opt.Dir, c.now(), w, o)
}

// WriteFolderBackup is WriteBackup for the folder of a coordinator that does not run.
func WriteFolderBackup(dir string, w io.Writer, o BackupOptions) error {
	if _, err := os.Stat(filepath.Join(dir, "format")); err != nil {
		return fmt.Errorf("%s holds no coordinator's state: %w", dir, err)
	}
	if err := refuseIncomplete(dir); err != nil {
		return err
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	return errors.Join(writeBackup(st, dir, time.Now(), w, o), st.Close())
}

func writeBackup(st *store.Store, dir string, now time.Time, w io.Writer, o BackupOptions) error {
	a := &archive{tar: tar.NewWriter(w), piece: logFileBytes}
	a.Backup = Backup{Format: backupFormat, Created: now, Updated: now, Partial: o.Partial}
	var files map[string][]byte
	beside := func() (err error) {
		files, err = besideStore(dir, o.Partial)
		return err
	}
	err := st.Snapshot(beside, func(s *store.Snapshot) error {
		if err := a.describe(s, files); err != nil {
			return err
		}
		if !o.Partial {
			if err := a.addStore(s); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := a.addFrom("files/"+name, files[name], o.Have[name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(a.Backup, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(a.write(backupManifest, b), a.tar.Close())
}

// besideStore reads the files of a folder that are not the store's. The released version is read
// before the ledger, which therefore covers it.
func besideStore(dir string, partial bool) (map[string][]byte, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := []string{models.PublishedFile}
	if certificates, err := os.ReadDir(filepath.Join(dir, "tls")); err == nil && !partial {
		for _, e := range certificates {
			if e.Type().IsRegular() {
				names = append(names, "tls/"+e.Name())
			}
		}
	}
	for _, e := range all {
		switch name := e.Name(); {
		case !e.Type().IsRegular(), strings.HasPrefix(name, "."), name == models.PublishedFile,
			partial && !slices.Contains(shipped, name),
			slices.Contains([]string{"lock", "format", "heads", "heads.new", "probe", "rewritten"}, name):
		default:
			names = append(names, name)
		}
	}
	out := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[name] = b
	}
	return out, nil
}

// archive is a backup while it is written.
type archive struct {
	tar   *tar.Writer
	piece int // bytes of records in a file
	Backup
}

func (a *archive) describe(s *store.Snapshot, files map[string][]byte) error {
	var id struct{ ID []byte }
	if err := json.Unmarshal(s.Values[identityKey], &id); err != nil {
		return fmt.Errorf("the folder has no federation: %w", err)
	}
	a.Federation = hex.EncodeToString(id.ID)
	for key := range s.Values {
		if v, ok := models.VersionOfKey(key); ok {
			a.Version = max(a.Version, v)
		}
	}
	var released models.Published
	if b := files[models.PublishedFile]; b != nil {
		if err := json.Unmarshal(b, &released); err != nil {
			return fmt.Errorf("%s is corrupt: %w", models.PublishedFile, err)
		}
	}
	a.Released = released.Version
	if b := s.Values[runKey]; b != nil {
		var run savedRun
		if err := json.Unmarshal(b, &run); err != nil {
			return fmt.Errorf("the run's settings are corrupt: %w", err)
		}
		a.RunNumber = run.Number
	}
	return nil
}

func (a *archive) addStore(s *store.Snapshot) error {
	values, err := json.Marshal(s.Values)
	if err == nil {
		err = a.addFrom("store/values.json", values, 0)
	}
	for i, log := range s.Logs {
		if err == nil {
			err = a.addLog(s, i, log)
		}
	}
	for _, h := range s.Blobs {
		var b []byte
		if err == nil {
			b, err = s.Blob(h)
		}
		if err == nil {
			err = a.addFrom(fmt.Sprintf("store/blob-%x", h), b, 0)
		}
	}
	return err
}

// addLog adds the records of a log in files of about logFileBytes, so that only one of them is in memory.
func (a *archive) addLog(s *store.Snapshot, i int, log string) error {
	piece, size := [][]byte{}, 0
	files := 0
	flush := func() error {
		b, err := json.Marshal(piece)
		if err == nil {
			err = a.addFrom(fmt.Sprintf("store/log-%06d-%06d.json", i, files), b, 0)
			a.Files[len(a.Files)-1].Log = log
		}
		piece, size, files = piece[:0], 0, files+1
		return err
	}
	err := s.Replay(log, func(record []byte) error {
		piece = append(piece, record)
		if size += len(record); size < a.piece {
			return nil
		}
		return flush()
	})
	if err == nil && (files == 0 || len(piece) > 0) {
		err = flush()
	}
	return err
}

// addFrom adds a file of which the receiver has the first bytes.
func (a *archive) addFrom(name string, b []byte, from int64) error {
	if from < 0 || from > int64(len(b)) {
		from = 0
	}
	sum := sha256.Sum256(b)
	a.Files = append(a.Files, BackupFile{
		Name: name, Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), From: from,
	})
	return a.write(name, b[from:])
}

func (a *archive) write(name string, b []byte) error {
	h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(b)), Typeflag: tar.TypeReg, ModTime: a.Updated}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := a.tar.Write(b)
	return err
}

// adminBackup sends a backup as a tar archive.
func adminBackup(c *Coordinator, w http.ResponseWriter, r *http.Request) (any, error) {
	if err := c.refuseReads(); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	o := BackupOptions{Partial: q.Get("partial") == "true", Have: map[string]int64{}}
	for key, name := range map[string]string{"ledger_from": budget.File, "audit_from": audit.File} {
		if !q.Has(key) {
			continue
		}
		n, err := number(q, key)
		if err != nil {
			return nil, err
		}
		o.Have[name] = int64(n)
	}
	if p := q.Get("partial"); p != "" && p != "true" && p != "false" {
		return nil, refusal(connect.CodeInvalidArgument, fmt.Errorf("partial=%.40q: must be true or false", p))
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if err := c.WriteBackup(w, o); err != nil {
		c.opt.Warn(fmt.Sprintf("the backup was not completed: %v", err)) // the receiver misses backup.json
	}
	return nil, nil
}

// validBackupName refuses names that would leave the folder of a backup.
func validBackupName(name string) bool {
	folder, file := path.Split(name)
	return name == backupManifest || slices.Contains(backupFolders, strings.TrimSuffix(folder, "/")) && file != "" &&
		file[0] != '.' && !strings.ContainsAny(file, `/\:`)
}
