package device

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// columns are those that the model's method reads, with room for one value each; nil where
// it reads none, where there is no model yet, and where the host has them.
func (d *Device) columns() (*rows.Features, error) {
	m, err := d.manifest()
	if err != nil || d.opt.Workspace.Features != nil || len(m.Features.GetHash()) == 0 {
		return nil, nil
	}
	b, err := d.stored(m.Features)
	if err != nil {
		return nil, err
	}
	items, err := d.items(m)
	if err != nil {
		return nil, err
	}
	f, err := wire.ReadFeatures(b, items)
	if err != nil {
		return nil, err
	}
	for _, columns := range [][]rows.Column{f.User, f.Row} {
		for i := range columns {
			resizeColumn(&columns[i], 1)
		}
	}
	return f, nil
}

// items is how many the plan of a model has.
func (d *Device) items(m *pb.Manifest) (int, error) {
	b, err := d.stored(m.Plan)
	if err != nil {
		return 0, err
	}
	plan, err := wire.ReadPlan(b)
	return int(plan.GetItems()), err
}

// knownColumns are the columns that what an owner tells is held to; nil where they are not known
// yet, or are fetched again: then the next check-in says what does not fit.
func (d *Device) knownColumns() (*rows.Features, error) {
	if err := d.refresh(); err != nil {
		return nil, err
	}
	f, err := d.columns()
	if errors.Is(err, errBlobMissing) {
		return nil, nil
	}
	return f, err
}

// checkUser says what of an owner's features the model does not have. Empty values are taken
// back, and need not be there.
func (d *Device) checkUser(told map[string]string) error {
	f, err := d.knownColumns()
	if err != nil || f == nil {
		return err
	}
	for name, value := range told {
		at := slices.IndexFunc(f.User, func(c rows.Column) bool { return c.Name == name })
		switch {
		case value == "":
		case at < 0:
			return unknownColumn(name, "users", f.User)
		default:
			if err := setValue(&f.User[at], 0, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func unknownColumn(name, of string, columns []rows.Column) error {
	return fmt.Errorf("%w: there is no feature %q of %s: want %s", ErrFeatures, name, of, columnNames(columns))
}

// checkEvents says what of the moments of events the model cannot read. One that is all that an
// owner tells of an event has no other columns, and lacks none; a file may have more of them.
func (d *Device) checkEvents(events []Event, all bool) error {
	f, err := d.knownColumns()
	if err != nil || f == nil {
		return err
	}
	for _, e := range events {
		if err := e.checkFeatures(f.Row, all); err != nil {
			return fmt.Errorf("%w (the moment of item %s)", err, e.Item)
		}
	}
	return nil
}

func (e *Event) checkFeatures(columns []rows.Column, all bool) error {
	values, err := url.ParseQuery(e.Features)
	if err != nil {
		return err
	}
	for i := range columns {
		c := &columns[i]
		if values.Has(c.Name) {
			err = setValue(c, 0, values.Get(c.Name))
		} else if all {
			err = setMissing(c, 0)
		}
		if err != nil {
			return err
		}
		values.Del(c.Name)
	}
	for name := range values {
		if all {
			return unknownColumn(name, "interactions", columns)
		}
	}
	return nil
}

// UnknownItems are the ids that the model's catalogue does not have; none where there is no model
// yet. Events with them are kept, and are neither trained on nor held out until it has them.
func (d *Device) UnknownItems(ids ...string) ([]string, error) {
	if err := d.refresh(); err != nil {
		return nil, err
	}
	m, err := d.manifest()
	if err != nil {
		return nil, nil
	}
	items, err := d.items(m)
	if err != nil {
		return nil, err
	}
	b, err := d.stored(m.Catalogue)
	if err != nil {
		return nil, err
	}
	c, err := readCatalogue(b, items)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, ok := c.Index(id); return ok }), nil
}
