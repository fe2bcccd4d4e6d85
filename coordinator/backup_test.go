package coordinator

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/store"
)

// backUp makes a backup of a running coordinator.
func (r *harness) backUp(dir string, o BackupOptions) *Backup {
	r.t.Helper()
	var b bytes.Buffer
	if err := r.admin.Backup(r.t.Context(), &b, o); err != nil {
		r.t.Fatal(err)
	}
	out, err := ReceiveBackup(&b, dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// A backup that is made while rounds go on restores a coordinator that continues, knows its devices
// and ends with the model of an undisturbed run. Its files are closed to others.
func TestABackupIsAFederation(t *testing.T) {
	t.Parallel()
	s := small(4)
	s.Rounds = 5
	want := undisturbed(t, s)
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), &s, nil)
	if err := os.MkdirAll(filepath.Join(tmp, "state", "tls"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, "state", "tls", "tls.pem"), []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := r.enrolled(4)
	r.play(d, 2)
	saved := filepath.Join(tmp, "saved")
	var wg sync.WaitGroup
	wg.Go(func() { r.play(d[:3], 2) })
	b := r.backUp(saved, BackupOptions{})
	wg.Wait()
	if b.Version < 3 || b.Partial {
		t.Errorf("the backup is %+v", b)
	}
	r.stop()
	dir := filepath.Join(tmp, "restored")
	if _, err := Restore(saved, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(saved, dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a restoration over a folder: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "tls", "tls.pem")); err != nil || string(b) != "key" {
		t.Errorf("the certificate: %s, %v", b, err)
	}
	for _, root := range []string{saved, dir} {
		err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 && !strings.Contains(path, "jetstream") {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r = open(t, dir, nil, nil)
	if st := r.c.Status(); st.Round != 2 || st.Enrolled != 4 {
		t.Fatalf("the restored coordinator: %+v", st)
	}
	r.play(r.enrolled(4), s.Rounds)
	if _, bits := r.model(); bits != want {
		t.Error("the model is not that of a run that nothing happened to")
	}
	r.stop()
	// The folder of a coordinator that does not run, into the same backup.
	out, in := io.Pipe()
	go func() { in.CloseWithError(WriteFolderBackup(dir, in, BackupOptions{})) }()
	again, err := ReceiveBackup(out, saved)
	if err != nil || again.Version <= b.Version {
		t.Errorf("offline: %+v, %v", again, err)
	}
}

// Shipped ledger lines are in the restored folder: what was spent after the backup stays spent, and
// nothing of it pays for another release.
func TestARestoredLedgerIsNotTooShort(t *testing.T) {
	t.Parallel()
	s := withDP(small(4), "epsilon=20,delta=1e-3,clip=0.5")
	s.Rounds = 6
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), &s, nil)
	d := r.enrolled(4)
	r.play(d, 1)
	saved := filepath.Join(tmp, "saved")
	b := r.backUp(saved, BackupOptions{})
	r.play(d, 4)
	have := b.ShippedBytes()
	if have[budget.File] == 0 {
		t.Fatalf("the backup has %v", have)
	}
	b = r.backUp(saved, BackupOptions{Partial: true, Have: have})
	if len(b.Files) < 5 || b.Released < 4 || b.Version > 2 {
		t.Errorf("after shipping: %+v", b)
	}
	spent, last := *r.c.Status().Epsilon, r.c.models.Last()
	r.stop()
	dir := filepath.Join(tmp, "restored")
	if _, err := Restore(saved, dir); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir, nil, nil)
	st := r.c.Status()
	if *st.Epsilon < spent || !st.LedgerOK || st.Version <= last {
		t.Errorf("epsilon %g was spent and is now %g; version %d after %d", spent, *st.Epsilon, st.Version, last)
	}
	if n := r.c.budget.Unused(); n != 0 {
		t.Errorf("%d entries may pay for another release", n)
	}
}

// Lines of a ledger are not added to a backup without their run, from which nothing could be restored.
func TestABackupLacksTheNewestRun(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), nil, nil)
	saved := filepath.Join(tmp, "saved")
	b := r.backUp(saved, BackupOptions{})
	if err := r.c.Begin(withDP(small(2), "epsilon=20,delta=1e-3,clip=0.5"), stock(10)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.c.WriteBackup(&out, BackupOptions{Partial: true, Have: b.ShippedBytes()}); err != nil {
		t.Fatal(err)
	}
	if _, err := ReceiveBackup(&out, saved); !errors.Is(err, ErrOtherRun) {
		t.Errorf("the lines of run 1 were added to a backup without a run: %v", err)
	}
	if b := r.backUp(saved, BackupOptions{}); b.RunNumber != 1 {
		t.Errorf("%+v", b)
	}
}

// Without the shipped lines a restored coordinator uses no entry of its ledger again.
func TestARestoredLedgerPaysOnce(t *testing.T) {
	t.Parallel()
	s := withDP(small(4), "epsilon=20,delta=1e-3,clip=0.5")
	tmp := t.TempDir()
	saved, dir := filepath.Join(tmp, "saved"), filepath.Join(tmp, "restored")
	var r *harness
	r = open(t, filepath.Join(tmp, "state"), &s, func(o *Options) {
		o.fault = func(point string) error {
			if point == "closed" && r.c.Status().Round == 1 { // the ledger has a line for a version that is not there
				if _, err := os.Stat(saved); err != nil {
					r.backUp(saved, BackupOptions{})
				}
			}
			return nil
		}
	})
	r.play(r.enrolled(4), 2)
	r.stop()
	if _, err := Restore(saved, dir); err != nil {
		t.Fatal(err)
	}
	var warned []string
	r = open(t, dir, nil, func(o *Options) { o.Warn = func(text string) { warned = append(warned, text) } })
	if n := r.c.budget.Unused(); n != 0 || len(r.c.budget.All()) == 0 {
		t.Errorf("%d entries may pay for another release", n)
	}
	if !strings.Contains(strings.Join(warned, "\n"), "restored from a backup") {
		t.Errorf("the operator was told %q", warned)
	}
}

// A restoration that is interrupted leaves a folder that does not open: its ledger might pay for releases twice.
func TestAnInterruptedRestoreDoesNotOpen(t *testing.T) {
	s := withDP(small(2), "epsilon=20,delta=1e-3,clip=0.5")
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), &s, nil)
	r.play(r.enrolled(2), 1)
	saved, dir := filepath.Join(tmp, "saved"), filepath.Join(tmp, "restored")
	b := r.backUp(saved, BackupOptions{})
	r.stop()
	b.Files = append(b.Files, b.Files[len(b.Files)-1]) // Restore cannot write it twice
	if err := b.install(saved, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(saved, dir); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a restoration that cannot write a file: %v", err)
	}
	if _, err := tryOpen(t, dir, nil, nil); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a folder that is not restored completely opens: %v", err)
	}
	if err := WriteFolderBackup(dir, io.Discard, BackupOptions{}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a folder that is not restored completely is backed up: %v", err)
	}
}

// A damaged backup is not restored, and an archive cannot write outside of its folder.
func TestADamagedBackupIsRefused(t *testing.T) {
	s := small(2)
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), &s, nil)
	saved := filepath.Join(tmp, "saved")
	r.backUp(saved, BackupOptions{})
	for _, name := range []string{"store/values.json", "files/" + models.PublishedFile} {
		path := filepath.Join(saved, generationFolder(1), filepath.FromSlash(name))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Restore(saved, filepath.Join(tmp, "restored"))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is damaged: %v", name, err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"../x", "store/../../x", "/x", "files/", "other/x", "files/..", `files/a\b`} {
		if validBackupName(name) {
			t.Errorf("%s is accepted", name)
		}
	}
	var whole bytes.Buffer
	if err := r.c.WriteBackup(&whole, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	cut := bytes.NewReader(whole.Bytes()[:whole.Len()/2])
	if _, err := ReceiveBackup(cut, filepath.Join(tmp, "cut")); err == nil {
		t.Error("half an archive is accepted")
	}
}

// A coordinator that lies names a file beside the folder: `tacit admin backup` changes nothing outside of it.
func TestABackupStaysInItsFolder(t *testing.T) {
	base := t.TempDir()
	dir, victim := filepath.Join(base, "a", "backup"), filepath.Join(base, "a", "victim")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{victim: "precious", filepath.Join(base, "victim"): "evil"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(Backup{
		Format: backupFormat, Federation: "f", Files: []BackupFile{{Name: "../../victim", From: 4, Bytes: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := &tar.Header{Name: backupManifest, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o600}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = ReceiveBackup(&b, dir); err == nil || !strings.Contains(err.Error(), "not a file of a backup") {
		t.Errorf("the backup is accepted: %v", err)
	}
	if got, _ := os.ReadFile(victim); string(got) != "precious" {
		t.Errorf("the file beside the folder is now %q", got)
	}
}

// Wherever the machine stops while a backup is received, complete or partial, the folder holds a whole
// backup: the one from before, or after the switch the new one. The next backup succeeds, and leaves
// only files that it lists.
func TestAnInterruptedBackupLeavesTheOneBefore(t *testing.T) {
	s := withDP(small(2), "epsilon=20,delta=1e-3,clip=0.5")
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), &s, nil)
	d := r.enrolled(2)
	r.play(d, 1)
	saved := filepath.Join(tmp, "saved")
	first := r.backUp(saved, BackupOptions{})
	r.play(d, 2)
	for _, partial := range []bool{true, false} {
		var whole bytes.Buffer
		o := BackupOptions{Partial: partial}
		if partial {
			o.Have = first.ShippedBytes()
		}
		if err := r.c.WriteBackup(&whole, o); err != nil {
			t.Fatal(err)
		}
		steps := 0
		for ended := false; !ended; steps++ {
			before, err := ReadBackup(saved)
			if err != nil {
				t.Fatal(err)
			}
			n, at := 0, ""
			_, err = receiveBackup(bytes.NewReader(whole.Bytes()), saved, func(name string) error {
				if n++; n <= steps {
					return nil
				}
				at = name
				return errCut
			})
			if ended = err == nil; !ended && !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			after, err := ReadBackup(saved)
			if err != nil {
				t.Fatalf("after %q: %v", at, err)
			}
			if old := after.Generation == before.Generation; old != (!ended && at != "installed") {
				t.Errorf("after %q the folder holds generation %d, and held %d", at, after.Generation,
					before.Generation)
			}
			for i := range after.Files {
				if err := after.Files[i].check(saved); err != nil {
					t.Errorf("after %q: %v", at, err)
				}
			}
			if partial && at == "installed" { // what was shipped is now part of the backup
				break
			}
		}
		if steps < 4 {
			t.Errorf("%d steps were interrupted", steps)
		}
	}
	last := r.backUp(saved, BackupOptions{})
	if all, err := filepath.Glob(filepath.Join(saved, "*")); err != nil || len(all) != 3 { // with lock and backup.json
		t.Errorf("the folder has %v, %v", all, err)
	}
	if b, err := Restore(saved, filepath.Join(tmp, "restored")); err != nil || b.Version != last.Version {
		t.Errorf("restored: %+v, %v", b, err)
	}
}

// A second backup into a folder that one is being written to is refused, and changes nothing.
func TestTwoBackupsAtOnce(t *testing.T) {
	s := small(2)
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), &s, nil)
	saved := filepath.Join(tmp, "saved")
	r.backUp(saved, BackupOptions{})
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := r.c.WriteBackup(b, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	half := first.Len() / 2
	start := bytes.NewReader(first.Next(half))
	_, err := ReceiveBackup(io.MultiReader(start, readFunc(func(p []byte) (int, error) {
		if second.Len() > 0 {
			_, err := ReceiveBackup(&second, saved)
			second.Reset()
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s (process %d)", saved, os.Getpid())) {
				t.Errorf("a second backup meanwhile: %v", err)
			}
		}
		return first.Read(p)
	})), saved)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Restore(saved, filepath.Join(tmp, "restored"))
	if err != nil || b.Generation != 2 {
		t.Errorf("restored %+v, %v", b, err)
	}
	r.backUp(saved, BackupOptions{}) // the lock ends with the call
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// A follower sees each change of the state, and no change after a backup, of which it would otherwise make another.
func TestChangesThatABackupLacks(t *testing.T) {
	tmp := t.TempDir()
	r := open(t, filepath.Join(tmp, "state"), nil, nil)
	var calls int64
	last := r.c.Status().Changes
	for _, do := range []func() error{
		func() error { _, err := r.admin.AddOperator(t.Context(), "ann", false); return err },
		func() error { _, err := r.admin.MakeToken(t.Context(), 1, 1, ""); return err },
		func() error { return r.admin.RemoveOperator(t.Context(), "ann") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		calls++
		waitFor(t, "the audit line", func() bool { return r.c.Status().Counts[adminCallsMade] == calls })
		before := r.c.Status().Changes
		if before <= last {
			t.Errorf("after call %d changes is %d, and was %d", calls, before, last)
		}
		r.backUp(filepath.Join(tmp, "saved"), BackupOptions{Partial: calls > 1})
		waitFor(t, "the audit line", func() bool { return r.c.Status().Counts[backupsMade] == calls })
		after := r.c.Status()
		if after.Changes != before || after.Counts[adminCallsMade] != calls {
			t.Errorf("after a backup changes is %d, and was %d; counts %v", after.Changes, before, after.Counts)
		}
		last = before
	}
	r.stop()
	if r = open(t, filepath.Join(tmp, "state"), nil, nil); r.c.Status().Changes <= last {
		t.Errorf("after a restart changes is %d, and was %d", r.c.Status().Changes, last)
	}
}

// A long log has several files, and all of its records in their order.
func TestALongLogIsBackedUpInPieces(t *testing.T) {
	st, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for i := range 10 {
		if err := st.Append("log", []byte{byte(i), 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	a := &archive{tar: tar.NewWriter(&b), piece: 10}
	if err := st.Snapshot(func() error { return nil }, a.addStore); err != nil {
		t.Fatal(err)
	}
	var got []byte
	files := 0
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		var records [][]byte
		text, _ := io.ReadAll(r)
		if strings.HasPrefix(h.Name, "store/log-") && json.Unmarshal(text, &records) == nil {
			files++
			for _, x := range records {
				got = append(got, x[0])
			}
		}
	}
	if string(got) != "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09" || files != 3 {
		t.Errorf("%d files with the records %v", files, got)
	}
}
