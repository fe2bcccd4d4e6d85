package models

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

func open(t *testing.T, dir string, fault func(string) error) *Models {
	t.Helper()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	m := New(Options{
		Store: st, Dir: dir, Federation: make([]byte, 16), Signer: ed25519.NewKeyFromSeed(make([]byte, 32)),
		Fault: fault,
	})
	m.Begin([]byte("0123456789abcdef"))
	return m
}

// snapshot is one of 100 items after a round, with a public table of which a few rows depend on it.
func snapshot(round int) *Snapshot {
	s := &Snapshot{
		Now: time.Unix(1, 0), Round: round, Items: 100,
		Plan: &pb.Plan{
			Method: "test", Items: 100, Users: 3, Rounds: 9, Batch: 1, Keep: "f32", Cover: "dense",
			Shape: []uint64{100, 8, 1, 2},
		},
		Catalogue: &pb.Catalogue{Version: 1},
		Slots: []method.Slot{
			{Name: "item", Rows: 100, Dim: 8, PerItem: true, Scope: method.Shared},
			{Name: "own", Rows: 1, Dim: 2, Scope: method.Server},
		},
		Rules: make([]aggregate.State, 2),
	}
	for i := range 100 {
		s.Catalogue.Items = append(s.Catalogue.Items, &pb.Item{Id: fmt.Sprint("i", i)})
	}
	for i := range s.Slots {
		s.Values = append(s.Values, make([]float32, s.Slots[i].Rows*vec.Pad(s.Slots[i].Dim)))
	}
	s.Values[0][0] = float32(round + 1)
	s.Values[1][1] = 7
	s.Rules[0] = aggregate.State{M: make([]float32, 800), V: make([]float32, 800), Steps: round}
	s.Rules[0].M[5] = float32(round)
	return s
}

func save(t *testing.T, m *Models, s *Snapshot) *Version {
	t.Helper()
	v, err := m.Save(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestASavedVersionLoadsUnchanged(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir, nil)
	s := snapshot(3)
	s.Participants = []byte{5}
	v := save(t, m, s)
	if v.Version != 1 || m.Last() != 1 || m.Round() != 3 || m.Newest() != v {
		t.Errorf("version %d, last %d, round %d", v.Version, m.Last(), m.Round())
	}
	got := snapshot(0)
	found, err := m.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Load(found, got.Slots, got.Values, got.Rules); err != nil {
		t.Fatal(err)
	}
	for i := range s.Values {
		if !slices.Equal(got.Values[i], s.Values[i]) || !slices.Equal(got.Rules[i].M, s.Rules[i].M) {
			t.Errorf("slot %d differs", i)
		}
	}
	if got.Rules[0].Steps != 3 {
		t.Errorf("the rule counts %d steps", got.Rules[0].Steps)
	}
	if b, err := m.Read(found.Participants); err != nil || !bytes.Equal(b, s.Participants) {
		t.Errorf("participants %v, %v", b, err)
	}
	if err := m.Load(found, got.Slots[:1], got.Values, got.Rules); err == nil {
		t.Error("a method with other slots loads the version")
	}
	p, err := ReadPublished(dir)
	if err != nil || p.Version != 1 || p.Round != 3 {
		t.Errorf("published %+v, %v", p, err)
	}
}

// An interrupted save publishes nothing, and the next one uses the same number.
func TestAnInterruptedSaveIsNotPublished(t *testing.T) {
	dir := t.TempDir()
	cut := errors.New("interrupted")
	at := ""
	m := open(t, dir, func(point string) error {
		if point == at {
			return cut
		}
		return nil
	})
	save(t, m, snapshot(0))
	for _, at = range []string{"versioned", "published"} {
		if _, err := m.Save(snapshot(1)); !errors.Is(err, cut) {
			t.Fatalf("%s: %v", at, err)
		}
		if m.Last() != 1 || m.Round() != 0 {
			t.Errorf("%s: version %d is published", at, m.Last())
		}
	}
	at = ""
	if v := save(t, m, snapshot(1)); v.Version != 2 {
		t.Errorf("the next version is %d", v.Version)
	}
}

func TestOldVersionsAndTheirBlobsAreDeleted(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	first := save(t, m, snapshot(0))
	for round := 1; round < VersionsOnDisk+3; round++ {
		save(t, m, snapshot(round))
	}
	all, err := m.List()
	if err != nil || len(all) != VersionsOnDisk || all[0].Version != 4 {
		t.Fatalf("%d versions, %v", len(all), err)
	}
	if _, err := m.Read(first.Values[0]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a blob of a deleted version: %v", err)
	}
	if _, err := m.Read(first.Values[1]); err != nil {
		t.Errorf("a blob that newer versions share: %v", err)
	}
}

// Devices may fetch what a manifest names, and nothing else.
func TestOnlyPublicBlobsAreServed(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	if m.Blob(store.Hash{}) != nil {
		t.Error("a blob before the first version")
	}
	v := save(t, m, snapshot(0))
	if m.Blob(hash(v.Values[0])) == nil || m.Blob(hash(v.Plan)) == nil || m.Blob(hash(v.Catalogue)) == nil {
		t.Error("a public blob is missing")
	}
	for _, name := range []string{v.Values[1], v.Rules[0].M} {
		if m.Blob(hash(name)) != nil {
			t.Error("the server's own state is served")
		}
	}
}

// A patch that crosses a round without noise would show which items its cohort has.
func TestPatchesNeverCrossASumWithoutNoise(t *testing.T) {
	for _, noisy := range []bool{false, true} {
		m := open(t, t.TempDir(), nil)
		save(t, m, snapshot(0))
		next := snapshot(1)
		next.Noisy = noisy
		v := save(t, m, next)
		manifest := &pb.Manifest{}
		if err := proto.Unmarshal(m.Signed().Body, manifest); err != nil {
			t.Fatal(err)
		}
		if got := len(manifest.Patches) > 0; got != noisy || v.DiffSafe != noisy {
			t.Errorf("noise %v: %d patches", noisy, len(manifest.Patches))
		}
	}
}

func TestVersionsWithMissingBlobsAreDropped(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	save(t, m, snapshot(0))
	v := save(t, m, snapshot(1))
	if err := m.store.DropBlob(hash(v.Values[0])); err != nil {
		t.Fatal(err)
	}
	left, err := m.Complete()
	if err != nil || len(left) != 1 || left[0].Version != 1 {
		t.Errorf("%d versions, %v", len(left), err)
	}
	if err := m.Resume(left[0]); err != nil || m.Last() != 1 {
		t.Errorf("resumes at %d, %v", m.Last(), err)
	}
	m.Skip(9)
	if v := save(t, m, snapshot(1)); v.Version != 10 {
		t.Errorf("the next version is %d", v.Version)
	}
}

func TestTheFileOfThePublishedVersionIsChecked(t *testing.T) {
	dir := t.TempDir()
	if p, err := ReadPublished(dir); p != nil || err != nil {
		t.Errorf("a missing file: %v, %v", p, err)
	}
	if err := (Published{Run: "r", Version: 7}).write(dir); err != nil {
		t.Fatal(err)
	}
	if lost, err := RepairPublished(dir); lost || err != nil {
		t.Errorf("an intact file is repaired: %v", err)
	}
	path := filepath.Join(dir, PublishedFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(b, []byte("7"), []byte("6"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPublished(dir); !errors.As(err, new(*store.Damage)) {
		t.Errorf("a changed file: %v", err)
	}
	if lost, err := RepairPublished(dir); !lost || err != nil {
		t.Errorf("a corrupt file is kept: %v", err)
	}
	if p, err := ReadPublished(dir); err != nil || !p.Lost {
		t.Errorf("after the repair: %+v, %v", p, err)
	}
}

func TestExportRefusesUnknownFormatsAndVersions(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	s := snapshot(0)
	save(t, m, s)
	for _, format := range []string{"npy", "csv"} {
		if b, err := m.Export(0, format, s.Slots); err != nil || len(b) == 0 {
			t.Errorf("%s: %v", format, err)
		}
	}
	if _, err := m.Export(0, "xml", s.Slots); err == nil {
		t.Error("an unknown format is exported")
	}
	if _, err := m.Export(2, "npy", s.Slots); err == nil {
		t.Error("an unknown version is exported")
	}
}
