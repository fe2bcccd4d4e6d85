package tacit

import (
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/tacit-rec/tacit/internal/parquet"
	"github.com/tacit-rec/tacit/sim"
)

// Vectors is a table with one row per item or user.
type Vectors struct {
	ID     []string
	Dim    int
	Values []float32 // row by row, Dim numbers each
	Bias   []float32 // one number per row, added to each score of a user; nil without a bias
	// Product says that the score of an item for a user is the product of the two vectors, plus the
	// user's bias. If devices tune their tables, that holds for the coordinator's.
	Product bool

	of string // what a row is: item or user
}

// Row returns the vector of the i-th item or user.
func (v *Vectors) Row(i int) []float32 { return v.Values[i*v.Dim : (i+1)*v.Dim] }

// WriteCSV writes a header and one line per row: its identifier, its numbers and its bias, if it has one.
func (v *Vectors) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	line := []string{v.of}
	for k := range v.Dim {
		line = append(line, "x"+strconv.Itoa(k))
	}
	if v.Bias != nil {
		line = append(line, "bias")
	}
	if err := out.Write(line); err != nil {
		return err
	}
	number := func(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }
	for i, id := range v.ID {
		line = append(line[:0], id)
		for _, x := range v.Row(i) {
			line = append(line, number(x))
		}
		if v.Bias != nil {
			line = append(line, number(v.Bias[i]))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// WriteParquet writes a Parquet file with the columns of WriteCSV. If title is not nil, a column title follows the
// identifier.
func (v *Vectors) WriteParquet(w io.Writer, title func(id string) string) error {
	columns := []parquet.Column{{Name: v.of, Kind: parquet.Text}}
	if title != nil {
		columns = append(columns, parquet.Column{Name: "title", Kind: parquet.Text})
	}
	first := len(columns)
	for k := range v.Dim {
		columns = append(columns, parquet.Column{Name: "x" + strconv.Itoa(k), Kind: parquet.Float})
	}
	if v.Bias != nil {
		columns = append(columns, parquet.Column{Name: "bias", Kind: parquet.Float})
	}
	out := parquet.NewWriter(w, columns...)
	for i, id := range v.ID {
		out.Text(0, id)
		if title != nil {
			out.Text(1, title(id))
		}
		for k, x := range v.Row(i) {
			out.Float(first+k, x)
		}
		if v.Bias != nil {
			out.Float(first+v.Dim, v.Bias[i])
		}
		if err := out.EndRow(); err != nil {
			return err
		}
	}
	return out.Close()
}

// WriteNPY writes the numbers as a NumPy array of float32 with a row per identifier; a bias is a further
// column, the last.
func (v *Vectors) WriteNPY(w io.Writer) error {
	dim := v.Dim
	if v.Bias != nil {
		dim++
	}
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", len(v.ID), dim)
	const before = 10 // magic, version and length
	pad := 64 - (before+len(head)+1)%64
	out := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(out[8:], uint16(len(head)+pad+1))
	out = fmt.Appendf(out, "%s%*s\n", head, pad, "")
	for i := range v.ID {
		for _, x := range v.Row(i) {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
		if v.Bias != nil {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v.Bias[i]))
		}
		if len(out) > 1<<16 {
			if _, err := w.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	_, err := w.Write(out)
	return err
}

// ItemVectors returns the item vectors that the coordinator holds after the last round.
// Methods without any, such as those that train on each device alone, return an error.
func (r *Result) ItemVectors() (*Vectors, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil, errNotRun
	}
	items := r.source.Items()
	v := &Vectors{of: "item"}
	for i := range items {
		v.ID = append(v.ID, r.itemID(i))
	}
	if v.Dim = r.run.VectorWidth(); v.Dim > 0 {
		v.Product = true
		for i := range items {
			v.Values = r.run.AppendItem(v.Values, i)
		}
		return v, nil
	}
	slot, dim, ok := r.run.ItemTable()
	if !ok {
		return nil, fmt.Errorf("%s has no shared item vectors", r.Method)
	}
	table := r.run.Value(slot)
	stride := len(table) / items // rows are padded
	v.Dim = dim
	for i := range items {
		v.Values = append(v.Values, table[i*stride:i*stride+dim]...)
	}
	return v, nil
}

// UserVectors returns the vector of each user, after the last round. In a real federation
// they stay on the devices. Methods that do not score with a product of two vectors
// return an error. Users whom the method cannot serve are left out.
func (r *Result) UserVectors() (*Vectors, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil, errNotRun
	}
	v := &Vectors{of: "user", Dim: r.run.VectorWidth(), Product: true}
	if v.Dim == 0 {
		return nil, fmt.Errorf("%s has no user vectors: its score is not the product of two vectors", r.Method)
	}
	biased := false
	for u := range r.source.Users() {
		values, bias, err := r.run.AppendUser(v.Values, u)
		if errors.Is(err, sim.ErrNewUsers) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v.ID = append(v.ID, r.source.Info().UserName(u))
		v.Values, v.Bias, biased = values, append(v.Bias, bias), biased || bias != 0
	}
	if !biased {
		v.Bias = nil
	}
	return v, nil
}
