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

// maxFeatures is the largest number of user features.
const maxFeatures = 64

// WithFeatures returns the event with features of the interaction: a value for each column.
func (e Event) WithFeatures(values map[string]string) Event {
	q := url.Values{}
	for name, value := range values {
		q.Set(name, value)
	}
	e.Features = q.Encode()
	return e
}

// features returns the columns that the plan's method reads, or nil. Item columns are part of the
// model. User and interaction columns are those of the workspace; otherwise they are allocated here
// and filled in place for each task, because a method may hold a copy that shares their values.
func (w *Workspace) features(m *pb.Manifest, p *pb.Plan, blob blobReader) (*rows.Features, error) {
	if len(p.Features) == 0 || len(m.Features.GetHash()) == 0 {
		return w.Features, nil
	}
	b, err := blob(m.Features)
	if err != nil {
		return nil, err
	}
	f, err := wire.ReadFeatures(b, int(p.Items))
	if err != nil {
		return nil, err
	}
	if own := w.Features; own != nil {
		return &rows.Features{User: own.User, Item: f.Item, Row: own.Row}, nil
	}
	for i := range f.User {
		resizeColumn(&f.User[i], 1)
	}
	for i := range f.Row {
		if f.Row[i].Start != nil {
			return nil, fmt.Errorf("%w: %q has a set of categories per interaction, which only simulated devices "+
				"support", ErrFeatures, f.Row[i].Name)
		}
		resizeColumn(&f.Row[i], maxEvents)
	}
	return f, nil
}

// resizeColumn allocates n values of a column.
func resizeColumn(c *rows.Column, n int) {
	switch {
	case c.Card == 0:
		c.Value = make([]float32, n)
	case c.Start != nil: // sets of the only user
		c.Start, c.Code = make([]uint32, n+1), make([]uint32, c.Card)
	default:
		c.Code = make([]uint32, n)
	}
}

// setValue sets value k of a column from its text.
func setValue(c *rows.Column, k int, text string) error {
	if c.Card == 0 {
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
		if err != nil || x-x != 0 {
			return fmt.Errorf("%w: %s = %q: must be %s", ErrFeatures, c.Name, text, c.Choices())
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

// fillFeatures fills the user and interaction columns of a device that does not share its workspace.
func (w *Workspace) fillFeatures(r *record, src source, t *local.Task) error {
	f := w.plan.Features
	if err := fillUser(f.User, r.Features); err != nil {
		return err
	}
	if len(f.Row) == 0 {
		return nil
	}
	s, ok := src.(*recordedEvents)
	if !ok || len(s.features) != len(t.Train) {
		return fmt.Errorf("%w: %s of each interaction, which its source does not provide", ErrFeatures,
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
				return fmt.Errorf("%w (in the event with item %s)", err, w.catalogue.item(t.Train[k]).Id)
			}
		}
	}
	return nil
}

// unknowns are the categories that mean a missing value.
var unknowns = []string{"unknown", ""}

// setMissing sets value k to the category for missing values, or to the empty set. It returns an
// error if the column has no such category.
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
	return fmt.Errorf("%w: %s is missing: must be %s", ErrFeatures, c.Name, c.Choices())
}

// fillUser fills the user columns.
func fillUser(columns []rows.Column, values map[string]string) error {
	for name := range values {
		if !slices.ContainsFunc(columns, func(c rows.Column) bool { return c.Name == name }) {
			return unknownColumn(name, "users", columns)
		}
	}
	for i := range columns {
		c := &columns[i]
		text, ok := values[c.Name]
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
		return "none"
	}
	return strings.Join(names, ", ")
}

// checkUserFeatures checks that the owner has set the features that the model's method reads.
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
