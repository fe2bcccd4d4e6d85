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

// columns returns the columns that the model's method reads, with memory for one value each. It
// returns nil if the method reads none, the device has no model, or the workspace has the columns.
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

// items returns the number of items of a model.
func (d *Device) items(m *pb.Manifest) (int, error) {
	b, err := d.stored(m.Plan)
	if err != nil {
		return 0, err
	}
	plan, err := wire.ReadPlan(b)
	return int(plan.GetItems()), err
}

// knownColumns returns the columns that the owner's features must fit. It returns nil if they are
// unknown or must be downloaded again; then the next check-in checks the features.
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

// checkUser returns an error if the model has no such user feature or value. Empty values remove a
// feature and always fit.
func (d *Device) checkUser(features map[string]string) error {
	f, err := d.knownColumns()
	if err != nil || f == nil {
		return err
	}
	for name, value := range features {
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
	return fmt.Errorf("%w: unknown feature %q of %s: must be one of %s", ErrFeatures, name, of, columnNames(columns))
}

// checkEvents returns an error if an event is invalid or the model cannot read its features. With
// exact, features must be those of the model; a file may have more columns and lack some.
func (d *Device) checkEvents(events []Event, exact bool) error {
	for i := range events {
		if err := events[i].check(); err != nil {
			return err
		}
	}
	f, err := d.knownColumns()
	if err != nil || f == nil {
		return err
	}
	for _, e := range events {
		if err := e.checkFeatures(f.Row, exact); err != nil {
			return fmt.Errorf("%w (in the event with item %s)", err, e.Item)
		}
	}
	return nil
}

func (e *Event) checkFeatures(columns []rows.Column, exact bool) error {
	values, err := url.ParseQuery(e.Features)
	if err != nil {
		return err
	}
	for i := range columns {
		c := &columns[i]
		if values.Has(c.Name) {
			err = setValue(c, 0, values.Get(c.Name))
		} else if exact {
			err = setMissing(c, 0)
		}
		if err != nil {
			return err
		}
		values.Del(c.Name)
	}
	for name := range values {
		if exact {
			return unknownColumn(name, "interactions", columns)
		}
	}
	return nil
}

// UnknownItems returns the item IDs that the model's catalogue does not have, or none if the device
// has no model. The device keeps events with them, but neither trains on them nor holds them out.
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
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, ok := c.lookup(id); return ok }), nil
}
