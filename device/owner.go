package device

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Add tells the device events. What it does not keep, by its retention, is dropped. Where it
// has the model, a moment that the model cannot read is refused, and nothing kept.
func (d *Device) Add(events ...Event) error {
	for i := range events {
		if err := events[i].check(); err != nil {
			return err
		}
	}
	if err := d.checkEvents(events, true); err != nil {
		return err
	}
	return d.update(func(r *record) error {
		r.History.Events = append(r.History.Events, events...)
		r.History.retain(d.opt.Now())
		return nil
	})
}

// Replace makes events the whole history.
func (d *Device) Replace(events []Event) error {
	for i := range events {
		if err := events[i].check(); err != nil {
			return err
		}
	}
	if err := d.checkEvents(events, false); err != nil {
		return err
	}
	return d.update(func(r *record) error {
		r.History.Events = slices.Clone(events)
		r.History.retain(d.opt.Now())
		return nil
	})
}

// Merge adds the events that are not there yet, and says how many those were.
func (d *Device) Merge(events []Event) (added int, err error) {
	for i := range events {
		if err := events[i].check(); err != nil {
			return 0, err
		}
	}
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
			if at := have[key]; len(at) > 0 { // it may say more of the moment now
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

// SetDial gives the device another way to its coordinator.
func (d *Device) SetDial(dial func(key ed25519.PrivateKey) (Conn, error)) {
	d.opt.Dial, d.conn, d.connected = dial, nil, false
}

// Undo takes the event back that was told last, and returns it. A model that has
// learnt from it stays as it is.
func (d *Device) Undo() (Event, error) {
	var gone Event
	err := d.update(func(r *record) error {
		n := len(r.History.Events)
		if n == 0 {
			return fmt.Errorf("agent: there is no event to take back")
		}
		gone = r.History.Events[n-1]
		r.History.Events = r.History.Events[:n-1]
		return nil
	})
	return gone, err
}

// Retain sets how much of the history is kept: the newest events, and for how many
// days; 0 for no such limit.
func (d *Device) Retain(last, days int) error {
	if last < 0 || days < 0 {
		return fmt.Errorf("agent: a retention of %d events and %d days: want 0 or more", last, days)
	}
	return d.update(func(r *record) error {
		r.History.Last, r.History.Days = last, days
		r.History.retain(d.opt.Now())
		return nil
	})
}

// Pause keeps the device from checking in until it is resumed, in this process and in
// any other that uses the same vault.
func (d *Device) Pause(on bool) error {
	return d.update(func(r *record) error {
		r.Paused = on
		return nil
	})
}

// Configure keeps settings for the program that runs the device, such as the address
// of its coordinator.
func (d *Device) Configure(set map[string]string) error {
	return d.update(func(r *record) error {
		maps.Copy(r.Settings, set)
		return nil
	})
}

// Describe keeps what the owner tells of themselves, for methods with features of users:
// a value for each column. It stays on the device. An empty value takes one back. Where the
// device has the model, a name or value that it does not have is refused, and nothing kept.
func (d *Device) Describe(features map[string]string) error {
	for name, value := range features {
		if name == "" || len(name) > maxIDBytes || len(value) > 4*maxIDBytes {
			return fmt.Errorf("agent: a feature with a name of %d bytes and a value of %d: want 1 to %d, and at most %d", len(name), len(value), maxIDBytes, 4*maxIDBytes)
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
			return fmt.Errorf("agent: %d features: want at most %d", len(all), maxFeatures)
		}
		r.Features = all
		return nil
	})
}

// About is what a device tells its owner of itself.
type About struct {
	Federation     string    `json:"federation"`
	Key            string    `json:"key"`
	Enrolled       bool      `json:"enrolled"`
	DeviceID       uint32    `json:"seat"`
	Deterministic  bool      `json:"rehearsal"`
	Paused         bool      `json:"paused"`
	Events         int       `json:"events"`
	KeepLast       int       `json:"keep_last"`
	KeepDays       int       `json:"keep_days"`
	ModelVersion   uint64    `json:"model"` // version; 0 for none
	ModelCreatedAt time.Time `json:"made,omitzero"`
	// bytes, without headers, that the model took to download
	DownloadedBytes uint64            `json:"fetched"`
	DownloadedTotal uint64            `json:"fetched_all"`        // and all models that the device has had
	Features        map[string]string `json:"features,omitempty"` // that its owner has told
	Settings        map[string]string `json:"setting"`
	Log             []LogEntry        `json:"log"`
}

// About reads the record.
func (d *Device) About() (*About, error) {
	if err := d.refresh(); err != nil {
		return nil, err
	}
	r := d.record
	a := &About{
		Federation: r.Name, Key: fmt.Sprintf("%x", d.Key()), Enrolled: r.Enrolled, DeviceID: r.DeviceID,
		Deterministic: r.Deterministic, Paused: r.Paused,
		Events: len(r.History.Events), KeepLast: r.History.Last, KeepDays: r.History.Days, Features: r.Features,
		Settings: r.Settings, Log: r.Log, DownloadedBytes: r.Downloads.Bytes, DownloadedTotal: r.Downloads.Total,
	}
	if m, err := d.manifest(); err == nil {
		a.ModelVersion, a.ModelCreatedAt = m.Version, time.UnixMilli(m.CreatedMs)
	}
	return a, nil
}

// Forget leaves the federation and wipes the key, the private state, the history and
// the log. What is already in sums cannot be taken out of them. If the coordinator cannot
// be told, the device forgets all the same, and says so.
func (d *Device) Forget(ctx context.Context) error {
	var left error
	if err := d.refresh(); err == nil && d.record.Enrolled && d.opt.Dial != nil {
		d.opt.Deterministic = d.record.Deterministic // whoever asks, it is the one that it enrolled with
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
		return fmt.Errorf("agent: all is forgotten here, and the coordinator was not told (it will not see this "+
			"device again): %w", left)
	}
	return nil
}
