package coordinator

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// Export sends a model as a zip file.
func (d desk) Export(_ context.Context, r *pb.ExportRequest, to *connect.ServerStream[pb.FetchResponse]) error {
	if !d.begun() {
		return errNoRun
	}
	b, err := d.exported(r.Version, r.Format)
	if err != nil {
		return refusal(connect.CodeInvalidArgument, err)
	}
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		if err := to.Send(&pb.FetchResponse{Data: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// exported is a version's tables and catalogue in a zip file.
func (c *Coordinator) exported(number uint64, format string) ([]byte, error) {
	all, err := c.versions()
	if err != nil {
		return nil, err
	}
	if number == 0 {
		number = all[len(all)-1].Version
	}
	at := slices.IndexFunc(all, func(v *version) bool { return v.Version == number })
	if at < 0 || format != "npy" && format != "csv" {
		return nil, fmt.Errorf("version %d as %q: want a version that tacit admin history lists, as npy or csv",
			number, format)
	}
	v := all[at]
	b, err := c.st.Blob(hashOf(v.Catalogue))
	if err != nil {
		return nil, err
	}
	items, err := wire.ReadCatalogue(b, v.Items)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	if err := writeCSV(z, "items.csv", []string{"id", "title", "retired"}, len(items.Items), func(i int) []string {
		it := items.Items[i]
		return []string{it.Id, it.Title, strconv.FormatBool(it.Retired)}
	}); err != nil {
		return nil, err
	}
	c.mu.Lock()
	slots := c.plan.Slots
	c.mu.Unlock()
	for i := range slots {
		s := &slots[i]
		if !broadcast(s) || v.Values[i] == "" {
			continue
		}
		b, err := c.st.Blob(hashOf(v.Values[i]))
		if err == nil {
			err = writeTable(z, s.Name, format, b, s.Dim, s.PerItem, items.Items)
		}
		if err != nil {
			return nil, err
		}
	}
	err = z.Close() // which writes what a zip file ends with
	return out.Bytes(), err
}

func writeTable(z *zip.Writer, name, format string, b []byte, dim int, perItem bool, items []*pb.Item) error {
	n := len(b) / 4 / dim
	if format == "npy" {
		w, err := z.Create(name + ".npy")
		if err != nil {
			return err
		}
		head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, dim)
		for (10+len(head)+1)%64 != 0 {
			head += " "
		}
		text := append([]byte("\x93NUMPY\x01\x00"), byte((len(head)+1)&255), byte((len(head)+1)>>8))
		_, err = w.Write(append(append(append(text, head...), '\n'), b...))
		return err
	}
	head := []string{"row"}
	if perItem {
		head[0] = "id"
	}
	for k := range dim {
		head = append(head, strconv.Itoa(k))
	}
	values := make([]float32, dim)
	return writeCSV(z, name+".csv", head, n, func(i int) []string {
		line := []string{strconv.Itoa(i)}
		if perItem {
			line[0] = items[i].Id
		}
		if _, err := binary.Decode(b[4*i*dim:], binary.LittleEndian, values); err != nil {
			panic(err) // it has as many
		}
		for _, x := range values {
			line = append(line, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		return line
	})
}

func writeCSV(z *zip.Writer, name string, head []string, n int, line func(i int) []string) error {
	f, err := z.Create(name)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	w.Write(head)
	for i := range n {
		w.Write(line(i))
	}
	w.Flush()
	return w.Error()
}
