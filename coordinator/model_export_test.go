package coordinator

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// What is exported is the model.
func TestExportReadsBack(t *testing.T) {
	t.Parallel()
	s := small(3)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.play(r.enrolled(3), 2)
	m, _ := r.model()
	want := map[string][]byte{}
	names := map[string]int{}
	for i, slot := range r.c.plan.Slots {
		if len(m.Slots[i].Hash) > 0 {
			b, err := r.c.models.Read(hex.EncodeToString(m.Slots[i].Hash))
			if err != nil {
				t.Fatal(err)
			}
			want[slot.Name], names[slot.Name] = b, slot.Dim
		}
	}
	for _, format := range []string{"npy", "csv"} {
		files := r.export(m.Version, format)
		for name, b := range want {
			got := files[name+"."+format]
			if format == "npy" {
				got = readNPY(t, got, names[name])
			} else {
				got = readTable(t, got, names[name])
			}
			if !bytes.Equal(got, b) {
				t.Errorf("%s as %s is not the model", name, format)
			}
		}
		lines, err := csv.NewReader(bytes.NewReader(files["items.csv"])).ReadAll()
		if err != nil || len(lines) != 11 || lines[3][0] != "i2" || lines[3][1] != "Item 2" {
			t.Errorf("the items are %v, %v", lines, err)
		}
	}
	for format, version := range map[string]uint64{"exe": 0, "npy": 99} {
		if n, err := r.admin.Export(context.Background(), version, format, io.Discard); err == nil || n > 0 {
			t.Errorf("version %d is exported as %s", version, format)
		}
	}
}

func (r *harness) export(version uint64, format string) map[string][]byte {
	r.t.Helper()
	var all bytes.Buffer
	if _, err := r.admin.Export(context.Background(), version, format, &all); err != nil {
		r.t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(all.Bytes()), int64(all.Len()))
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range z.File {
		o, err := f.Open()
		if err != nil {
			r.t.Fatal(err)
		}
		if out[f.Name], err = io.ReadAll(o); err != nil {
			r.t.Fatal(err)
		}
	}
	return out
}

func readNPY(t *testing.T, b []byte, dim int) []byte {
	t.Helper()
	if len(b) < 10 || string(b[:8]) != "\x93NUMPY\x01\x00" {
		t.Fatalf("%.20q: not an npy file", b)
	}
	n := int(binary.LittleEndian.Uint16(b[8:]))
	head := string(b[10 : 10+n])
	rows := (len(b) - 10 - n) / 4 / dim
	if want := fmt.Sprintf("'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d)", rows, dim); (10+n)%64 != 0 ||
		!strings.Contains(head, want) || head[n-1] != '\n' {
		t.Errorf("the header is %q, want %s", head, want)
	}
	return b[10+n:]
}

func readTable(t *testing.T, b []byte, dim int) (out []byte) {
	t.Helper()
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		if len(line) != dim+1 {
			t.Fatalf("%v has not %d numbers", line, dim)
		}
		for _, text := range line[1:] {
			var x float32
			if _, err := fmt.Sscan(text, &x); err != nil {
				t.Fatal(err)
			}
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out
}
