package models

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
)

// Export returns a zip file with the catalogue and the public tables of a version, as npy or csv.
// Version 0 is the newest; slots are those of the run's method.
func (m *Models) Export(number uint64, format string, slots []method.Slot) ([]byte, error) {
	if format != "npy" && format != "csv" {
		return nil, fmt.Errorf("format = %q: must be npy or csv", format)
	}
	if number == 0 {
		number = m.Last()
	}
	v, err := m.Find(number)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, fmt.Errorf("version %d is not on disk: tacit admin history lists the versions that are", number)
	}
	catalogue, err := m.LoadCatalogue(v)
	if err != nil {
		return nil, err
	}
	items := catalogue.Items
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	header := []string{"id", "title", "retired"}
	if err := writeCSV(z, "items.csv", header, len(items), func(i int) []string {
		return []string{items[i].Id, items[i].Title, strconv.FormatBool(items[i].Retired)}
	}); err != nil {
		return nil, err
	}
	for i := range slots {
		s := &slots[i]
		if !broadcast(s) || v.Values[i] == "" {
			continue
		}
		b, err := m.Read(v.Values[i])
		if err != nil {
			return nil, err
		}
		if err := writeTable(z, s.Name, format, b, s.Dim, s.PerItem, items); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeTable(z *zip.Writer, name, format string, b []byte, dim int, perItem bool, items []*pb.Item) error {
	n := len(b) / 4 / dim
	if format == "npy" {
		w, err := z.Create(name + ".npy")
		if err != nil {
			return err
		}
		header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, dim)
		for (10+len(header)+1)%64 != 0 {
			header += " "
		}
		text := append([]byte("\x93NUMPY\x01\x00"), byte((len(header)+1)&255), byte((len(header)+1)>>8))
		_, err = w.Write(append(append(append(text, header...), '\n'), b...))
		return err
	}
	header := []string{"row"}
	if perItem {
		header[0] = "id"
	}
	for k := range dim {
		header = append(header, strconv.Itoa(k))
	}
	values := make([]float32, dim)
	return writeCSV(z, name+".csv", header, n, func(i int) []string {
		line := []string{strconv.Itoa(i)}
		if perItem {
			line[0] = items[i].Id
		}
		if _, err := binary.Decode(b[4*i*dim:], binary.LittleEndian, values); err != nil {
			panic(err) // the blob has n rows of dim numbers
		}
		for _, x := range values {
			line = append(line, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		return line
	})
}

func writeCSV(z *zip.Writer, name string, header []string, n int, line func(i int) []string) error {
	f, err := z.Create(name)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	w.Write(header)
	for i := range n {
		w.Write(line(i))
	}
	w.Flush()
	return w.Error()
}
