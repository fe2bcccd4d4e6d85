package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Add records events, within the limits of Retain. It records none if an event is invalid, or if the
// device has a model that cannot read the event's features.
func (d *Device) Add(events ...Event) error {
	if err := d.checkEvents(events, true); err != nil {
		return err
	}
	return d.update(func(r *record) error {
		r.History.Events = append(r.History.Events, events...)
		r.History.retain(d.opt.Now())
		return nil
	})
}

// Replace replaces all recorded events.
func (d *Device) Replace(events []Event) error {
	if err := d.checkEvents(events, false); err != nil {
		return err
	}
	return d.update(func(r *record) error {
		r.History.Events = slices.Clone(events)
		r.History.retain(d.opt.Now())
		return nil
	})
}

// Merge adds the events whose item and time are not recorded yet, and returns their number. Known
// events take the given features.
func (d *Device) Merge(events []Event) (added int, err error) {
	if err := d.checkEvents(events, false); err != nil {
		return 0, err
	}
	err = d.update(func(r *record) error {
		have := map[Event][]int{} // by item and time
		for i, e := range r.History.Events {
			e.Features = ""
			have[e] = append(have[e], i)
		}
		added = 0
		for _, e := range events {
			key := Event{Item: e.Item, Time: e.Time}
			if at := have[key]; len(at) > 0 {
				old := &r.History.Events[at[0]]
				have[key], old.Features = at[1:], cmp.Or(e.Features, old.Features)
				continue
			}
			r.History.Events = append(r.History.Events, e)
			added++
		}
		r.History.retain(d.opt.Now())
		return nil
	})
	return added, err
}

// Undo removes the event that was added last, and returns it. A model that was trained on it does
// not change.
func (d *Device) Undo() (Event, error) {
	var gone Event
	err := d.update(func(r *record) error {
		n := len(r.History.Events)
		if n == 0 {
			return errors.New("no event to undo")
		}
		gone = r.History.Events[n-1]
		r.History.Events = r.History.Events[:n-1]
		return nil
	})
	return gone, err
}

// Retain limits the recorded events to the newest last events of the newest days days. 0 means no
// limit.
func (d *Device) Retain(last, days int) error {
	if last < 0 || days < 0 {
		return fmt.Errorf("retention of %d events and %d days: must be 0 or more", last, days)
	}
	return d.update(func(r *record) error {
		r.History.Last, r.History.Days = last, days
		r.History.retain(d.opt.Now())
		return nil
	})
}

// Pause stops the device from checking in until Pause(false), in every process that uses the same
// store.
func (d *Device) Pause(on bool) error {
	return d.update(func(r *record) error {
		r.Paused = on
		return nil
	})
}

// Describe sets user features, for methods that read them. They stay on the device. An empty value
// removes a feature. Describe sets nothing if the device has a model without such a column or value.
func (d *Device) Describe(features map[string]string) error {
	for name, value := range features {
		if name == "" || len(name) > maxIDBytes || len(value) > 4*maxIDBytes {
			return fmt.Errorf("feature with a name of %d bytes and a value of %d: must be 1 to %d and at most %d",
				len(name), len(value), maxIDBytes, 4*maxIDBytes)
		}
	}
	if err := d.checkUser(features); err != nil {
		return err
	}
	return d.update(func(r *record) error {
		all := maps.Clone(r.Features)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, features)
		maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
		if len(all) > maxFeatures {
			return fmt.Errorf("%d features: must be at most %d", len(all), maxFeatures)
		}
		r.Features = all
		return nil
	})
}

// About describes a device to its owner.
type About struct {
	Federation     string    `json:"federation"`
	Key            string    `json:"key"`
	Enrolled       bool      `json:"enrolled"`
	DeviceID       uint32    `json:"seat"`
	Deterministic  bool      `json:"rehearsal"`
	Paused         bool      `json:"paused"`
	Coordinator    string    `json:"coordinator,omitempty"` // state of the coordinator, such as paused or disk-full
	Events         int       `json:"events"`
	KeepLast       int       `json:"keep_last"`
	KeepDays       int       `json:"keep_days"`
	ModelVersion   uint64    `json:"model"` // 0 if the device has no model
	ModelCreatedAt time.Time `json:"made,omitzero"`
	// bytes downloaded for this model version, without headers
	DownloadedBytes uint64            `json:"fetched"`
	DownloadedTotal uint64            `json:"fetched_all"`        // bytes downloaded for all model versions
	Features        map[string]string `json:"features,omitempty"` // user features
	Settings        map[string]string `json:"setting"`
	Guarantee       *Guarantee        `json:"guarantee,omitempty"` // nil if the device has no model
	Tally           Tally             `json:"tally"`
	Log             []LogEntry        `json:"log"`
}

// About returns the description of the device and the log of its reports.
func (d *Device) About() (*About, error) {
	if err := d.refresh(); err != nil {
		return nil, err
	}
	r := d.record
	a := &About{
		Federation: r.Name, Key: fmt.Sprintf("%x", d.Key()), Enrolled: r.Enrolled, DeviceID: r.DeviceID,
		Deterministic: r.Deterministic, Paused: r.Paused, Coordinator: r.CoordinatorState,
		Events: len(r.History.Events), KeepLast: r.History.Last, KeepDays: r.History.Days, Features: r.Features,
		Settings: r.Settings, Log: r.Log, DownloadedBytes: r.Downloads.Bytes, DownloadedTotal: r.Downloads.Total,
	}
	a.Guarantee, a.Tally = r.Guarantee, r.total()
	if m, err := d.manifest(); err == nil {
		a.ModelVersion, a.ModelCreatedAt = m.Version, time.UnixMilli(m.CreatedMs)
	}
	return a, nil
}

// Forget leaves the federation and deletes the key, the private state, the recorded events and the
// log. Reports that were counted remain part of their aggregates. If the coordinator cannot be
// reached, Forget deletes everything all the same and returns an error.
func (d *Device) Forget(ctx context.Context) error {
	var left error
	if err := d.refresh(); err == nil && d.record.Enrolled && d.opt.Dial != nil {
		d.opt.Deterministic = d.record.Deterministic
		if left = d.connect(ctx); left == nil {
			_, left = d.conn.Leave(ctx, &pb.LeaveRequest{})
		}
	}
	unlock, err := d.opt.Store.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	d.record = nil
	if err := d.opt.Store.Wipe(); err != nil {
		return err
	}
	if err := d.opt.Blobs.Keep(nil); err != nil {
		return err
	}
	if left != nil {
		return fmt.Errorf("everything is deleted on this device, but the coordinator was not informed: %w", left)
	}
	return nil
}
