package coordinator

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/wire"
)

// wide are settings with rows that are worth a change, of a table that is slot 0.
func wide(n int) Settings {
	s := small(n)
	s.Params = map[string]string{"dim": "64"}
	return s
}

// add has an operator add n items, and waits for the version that has them.
func (r *harness) add(n int) *pb.Manifest {
	r.t.Helper()
	m, _ := r.model()
	var q []*pb.Item
	for i := range n {
		q = append(q, &pb.Item{
			Id:    fmt.Sprintf("new %d of version %d", i, m.Version),
			Title: "a title that is as long as that of a film",
		})
	}
	if _, err := r.admin.Items(context.Background(), q); err != nil {
		r.t.Fatal(err)
	}
	return r.after(m.Version)
}

// after waits for a version after another one.
func (r *harness) after(version uint64) *pb.Manifest {
	r.t.Helper()
	waitFor(r.t, "the next version", func() bool { m, _ := r.model(); return m.Version > version })
	m, _ := r.model()
	return m
}

// get fetches a blob as a device does.
func (h *testDevice) get(b *pb.Blob) []byte {
	h.t.Helper()
	a, err := wire.Assemble(b, wire.MaxBlobBytes)
	for err == nil && !a.Done() {
		var piece *pb.FetchResponse
		if piece, err = h.Fetch(context.Background(), &pb.FetchRequest{Hash: b.Hash, Offset: a.Next()}); err == nil {
			err = a.Add(a.Next(), piece.Data)
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := a.Bytes()
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// leads are the bases of the changes to a blob, each of which leads there.
func (h *testDevice) leads(m *pb.Manifest, to *pb.Blob) (bases []string, size int) {
	h.t.Helper()
	for _, c := range m.Patches {
		if !bytes.Equal(c.Target, to.Hash) {
			continue
		}
		got, err := wire.ApplyPatch(h.get(c.Base), h.get(c.Patch), to.Bytes)
		if err != nil || !bytes.Equal(wire.HashBlob(got).Hash, to.Hash) {
			h.t.Errorf("a change does not lead where it says: %v", err)
		}
		if 2*c.Patch.Bytes >= to.Bytes {
			h.t.Errorf("a change has %d bytes, and the whole %d", c.Patch.Bytes, to.Bytes)
		}
		bases, size = append(bases, hex.EncodeToString(c.Base.Hash)), max(size, int(c.Patch.Bytes))
	}
	return bases, size
}

func nameOf(b *pb.Blob) string { return hex.EncodeToString(b.Hash) }

func (r *harness) pause(on bool) {
	r.t.Helper()
	if _, err := r.admin.Pause(context.Background(), on); err != nil {
		r.t.Fatal(err)
	}
}

// only is a round in which all devices send numbers of one row of the table. There is a
// pause before and after it.
func (r *harness) only(devices []*testDevice, row int) *pb.Manifest {
	r.t.Helper()
	m, _ := r.model()
	r.pause(false)
	var tasks []*pb.Task
	for _, h := range devices {
		tasks = append(tasks, h.task())
	}
	r.pause(true)
	for k, h := range devices {
		task := tasks[k]
		v := make([]int64, task.Length)
		for i := range 64 {
			v[64*row+i] = 1 << 20
		}
		if a, err := h.Report(context.Background(), request(task, wire.AppendUpdate(nil, v))); err != nil ||
			a.State != pb.ReportState_COUNTED {
			r.t.Fatalf("%v, %v", a, err)
		}
	}
	return r.after(m.Version)
}

func TestAddedItemsAreASmallDownload(t *testing.T) {
	t.Parallel()
	s := wide(2)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.pause(true)
	d := r.enrolled(2)
	first := r.add(300)
	second := r.add(5)
	const rows = 5 * 64 * 4
	bases, n := d[0].leads(second, second.Slots[0])
	if n > rows+32 || !slices.Equal(bases, []string{nameOf(first.Slots[0])}) {
		t.Errorf("5 rows of 256 bytes take %d bytes from %v, want those of version %d", n, bases, first.Version)
	}
	if bases, n := d[0].leads(second, second.Catalogue); n > 5*100 || !slices.Contains(bases, nameOf(first.Catalogue)) {
		t.Errorf("5 titles take %d bytes, from %d versions", n, len(bases))
	}
	r.stop()
	r = open(t, dir, nil, nil)
	third := r.add(2)
	bases, n = r.newDevice(0).leads(third, third.Slots[0])
	if want := []string{nameOf(second.Slots[0]), nameOf(first.Slots[0])}; n > rows+2*64*4+64 ||
		!slices.Equal(bases, want) {
		t.Errorf("after a start %d bytes lead from %v, want %v", n, bases, want)
	}
}

// The rows of a table that a sum without noise has left alone are those of items that
// nobody of the cohort has.
func TestASumWithoutNoiseHasNoPatch(t *testing.T) {
	s := wide(3)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.pause(true)
	d := r.enrolled(3)
	before, _ := r.model()
	after := r.only(d, 4)
	old, now := d[0].get(before.Slots[0]), d[0].get(after.Slots[0])
	if bait := wire.DiffRows(old, now, 64*4, math.MaxInt); len(bait) > 300 || bytes.Equal(old, now) {
		t.Fatalf("the round has changed %d bytes: nothing is seen here", len(bait))
	}
	if bases, _ := d[0].leads(after, after.Slots[0]); len(bases) > 0 {
		t.Errorf("a change shows which rows the cohort has moved")
	}
	// Nor over it: items were added before the round, and after it.
	r.add(1)
	moved := r.only(d, 5)
	grown := r.add(1)
	if bases, _ := d[0].leads(grown, grown.Slots[0]); !slices.Equal(bases, []string{nameOf(moved.Slots[0])}) {
		t.Errorf("changes lead from %d versions, want that after the round alone", len(bases))
	}
	// Nor back.
	if _, err := r.admin.Rollback(context.Background(), before.Version); err != nil {
		t.Fatal(err)
	}
	back := r.after(grown.Version)
	if bases, _ := d[0].leads(back, back.Slots[0]); !back.RolledBack || len(bases) > 0 {
		t.Errorf("a rollback shows the rows that went back")
	}
}

func TestPatchesAreDeletedWithTheirVersion(t *testing.T) {
	t.Parallel()
	s := wide(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.pause(true)
	d := r.enrolled(2)
	r.add(20)
	m := r.add(1)
	if len(m.Patches) == 0 {
		t.Fatal("there are no changes")
	}
	for range models.VersionsOnDisk - 1 {
		r.add(1)
	}
	for _, c := range m.Patches {
		d[0].get(c.Patch)
	}
	r.add(1)
	for _, c := range m.Patches {
		waitFor(t, "the sweep", func() bool {
			_, err := r.c.st.Blob(store.Hash(c.Patch.Hash))
			return errors.Is(err, store.ErrNotFound)
		})
	}
}
