package device

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// maxFeatures bounds what an owner tells.
const maxFeatures = 64

// WithFeatures is the event in a moment: the columns of its interaction, with their values.
func (e Event) WithFeatures(moment map[string]string) Event {
	q := url.Values{}
	for name, value := range moment {
		q.Set(name, value)
	}
	e.Features = q.Encode()
	return e
}

// features are those that a plan's method reads; nil where the plan names none. Columns
// of items come with the model. Those of users and interactions are the host's, or of a
// device that is alone: they are filled for each task, where they stand, since a method
// may have a copy of a column that shares its values.
func (h *Workspace) features(m *pb.Manifest, p *pb.Plan, blob blobReader) (*rows.Features, error) {
	if len(p.Features) == 0 || len(m.Features.GetHash()) == 0 {
		return h.Features, nil
	}
	b, err := blob(m.Features)
	if err != nil {
		return nil, err
	}
	f, err := wire.ReadFeatures(b, int(p.Items))
	if err != nil {
		return nil, err
	}
	if own := h.Features; own != nil {
		return &rows.Features{User: own.User, Item: f.Item, Row: own.Row}, nil
	}
	for i := range f.User {
		resizeColumn(&f.User[i], 1)
	}
	for i := range f.Row {
		if f.Row[i].Start != nil {
			return nil, fmt.Errorf("%w: %q has sets of categories for each interaction, which only devices that are "+
				"played together can have", ErrFeatures, f.Row[i].Name)
		}
		resizeColumn(&f.Row[i], maxEvents)
	}
	return f, nil
}

// resizeColumn gives a column n places.
func resizeColumn(c *rows.Column, n int) {
	switch {
	case c.Card == 0:
		c.Value = make([]float32, n)
	case c.Start != nil: // of the one user
		c.Start, c.Code = make([]uint32, n+1), make([]uint32, c.Card)
	default:
		c.Code = make([]uint32, n)
	}
}

// setValue sets place k of a column to what a text says.
func setValue(c *rows.Column, k int, text string) error {
	if c.Card == 0 {
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
		if err != nil || x-x != 0 {
			return fmt.Errorf("%w: %s = %q: want %s", ErrFeatures, c.Name, text, c.Choices())
		}
		c.Value[k] = float32(x)
		return nil
	}
	codes, err := c.Codes(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFeatures, err)
	}
	if c.Start == nil {
		c.Code[k] = codes[0]
		return nil
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	c.Start[k+1] = uint32(copy(c.Code, codes))
	return nil
}

// fillFeatures fills the columns of a device that is alone, for a task.
func (h *Workspace) fillFeatures(r *record, src Source, t *local.Task) error {
	f := h.plan.Features
	if err := fillUser(f.User, r.Features); err != nil {
		return err
	}
	if len(f.Row) == 0 {
		return nil
	}
	s, ok := src.(*recordedEvents)
	if !ok || len(s.features) != len(t.Train) {
		return fmt.Errorf("%w: %s of each interaction, which this source does not tell", ErrFeatures,
			columnNames(f.Row))
	}
	t.Rows = make([]uint32, len(t.Train))
	for k, with := range s.features {
		t.Rows[k] = uint32(k)
		values, err := url.ParseQuery(with)
		if err != nil {
			return err
		}
		for i := range f.Row {
			c := &f.Row[i]
			if values.Has(c.Name) {
				err = setValue(c, k, values.Get(c.Name))
			} else {
				err = setMissing(c, k)
			}
			if err != nil {
				return fmt.Errorf("%w (the moment of item %s in the history)", err, h.catalogue.Item(t.Train[k]).Id)
			}
		}
	}
	return nil
}

// unknowns are the categories that stand for a value that nobody knows.
var unknowns = []string{"unknown", ""}

// setMissing sets place k to the category that stands for a value that was not told, where
// the column has one; of a set that is none.
func setMissing(c *rows.Column, k int) error {
	if c.Start != nil {
		return setValue(c, k, "")
	}
	for _, name := range unknowns {
		if at := slices.Index(c.Names, name); at >= 0 {
			c.Code[k] = uint32(at)
			return nil
		}
	}
	return fmt.Errorf("%w: %s was not told, and no category stands for that: want %s", ErrFeatures, c.Name, c.Choices())
}

// fillUser fills the columns of the user.
func fillUser(columns []rows.Column, told map[string]string) error {
	for name := range told {
		if !slices.ContainsFunc(columns, func(c rows.Column) bool { return c.Name == name }) {
			return unknownColumn(name, "users", columns)
		}
	}
	for i := range columns {
		c := &columns[i]
		text, ok := told[c.Name]
		err := error(nil)
		if ok {
			err = setValue(c, 0, text)
		} else {
			err = setMissing(c, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func columnNames(columns []rows.Column) string {
	var names []string
	for i := range columns {
		names = append(names, columns[i].Name)
	}
	if len(names) == 0 {
		return "none: it reads none"
	}
	return strings.Join(names, ", ")
}

// checkUserFeatures sees that the owner has told what the model's method reads, before a round
// wants it.
func (d *Device) checkUserFeatures() error {
	m, err := d.manifest()
	if err != nil {
		return nil
	}
	seen := fmt.Sprint(m.Version, d.record.Features)
	if seen == d.checkedFeatures {
		return nil
	}
	f, err := d.columns()
	if err != nil || f == nil {
		return err
	}
	if err := fillUser(f.User, d.record.Features); err != nil {
		return err
	}
	d.checkedFeatures = seen
	return nil
}
