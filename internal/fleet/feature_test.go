package fleet_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// described is a small data set with features of users, items and interactions.
func described(t testing.TB) *data.Split {
	t.Helper()
	const users, items, each = 8, 30, 9
	s := &data.Set{NumItems: items, Start: []int{0}, Meta: data.Info{Name: "described", TimeKind: data.OrderOnly}}
	f := &s.Meta.Features
	f.User = []rows.Column{
		{Name: "age", Card: 3, Names: []string{"young", "old", "unknown"}},
		{Name: "gender", Card: 2, Names: []string{"F", "M"}},
	}
	f.Item = []rows.Column{{Name: "genre", Card: 4, Start: []uint32{0}, Names: []string{
		"drama", "comedy", "war",
		"noir",
	}}, {Name: "size"}, {Name: "cost", Card: 2, Names: []string{"free", "paid"}}}
	f.Row = []rows.Column{{Name: "daytime", Card: 3, Names: []string{"morning", "evening", "unknown"}}}
	for i := range uint32(items) {
		f.Item[0].Code = append(f.Item[0].Code, i%4)
		if i%3 == 0 {
			f.Item[0].Code = append(f.Item[0].Code, (i+1)%4)
		}
		f.Item[0].Start = append(f.Item[0].Start, uint32(len(f.Item[0].Code)))
		f.Item[1].Value = append(f.Item[1].Value, float32(i%5)/5)
		f.Item[2].Code = append(f.Item[2].Code, i/20)
	}
	for u := range uint32(users) {
		r := rng.New(rng.Test, uint64(u))
		f.User[0].Code, f.User[1].Code = append(f.User[0].Code, u%2), append(f.User[1].Code, u/2%2)
		own := make([]uint32, items)
		for i := range own {
			own[i] = uint32(i)
		}
		r.Shuffle(own)
		s.Item = append(s.Item, own[:each]...)
		s.Start = append(s.Start, len(s.Item))
		for range each {
			f.Row[0].Code = append(f.Row[0].Code, r.Uint32n(3))
		}
	}
	p, err := data.ProtocolNamed("deployed")
	if err != nil {
		t.Fatal(err)
	}
	split, err := data.NewSplit(s, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return split
}

// single is a device that has only what its owner adds: the training rows of a user with their features, and
// the user features.
func (r *federation) single(u int, tell func(events []device.Event, features map[string]string)) *device.Device {
	r.t.Helper()
	var part data.Part
	r.split.User(u, &part)
	f := r.split.Info().Features
	var events []device.Event
	for k, i := range part.Train {
		moment := map[string]string{"daytime": f.Row[0].Names[f.Row[0].Code[part.Rows[k]]]}
		if moment["daytime"] == "unknown" { // the category for missing values
			moment = nil
		}
		events = append(events, device.Event{Item: itemsOf(r.split)[i].Id, Time: int64(k)}.WithFeatures(moment))
	}
	features := map[string]string{}
	for i := range f.User {
		features[f.User[i].Name] = f.User[i].Names[f.User[i].Code[u]]
	}
	if tell != nil {
		tell(events, features)
	}
	id := uint32(u)
	d, err := device.Open(device.Options{
		Dial: func(key ed25519.PrivateKey) (device.Conn, error) {
			o := r.opt
			o.Key = key
			return rpc.Dial(o)
		},
		Blobs: device.NewMemoryBlobs(), Workspace: &device.Workspace{}, Token: r.token,
		DeviceID:      &id,
		Deterministic: true,
	})
	if err == nil {
		err = errors.Join(d.Replace(events), d.Describe(features))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// step steps a device and tolerates a stale clock of a millisecond.
func step(d *device.Device) error {
	var err error
	for range 5 {
		if _, err = d.Step(context.Background()); rpc.Code(err) != rpc.StaleTime && rpc.Code(err) != rpc.Replayed {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// runAll lets devices step until each has a model with a number of rounds.
func (r *federation) runAll(devices []*device.Device, rounds uint32) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, d := range devices {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.Step(ctx); err != nil {
					time.Sleep(20 * time.Millisecond)
				}
				if list, err := d.Recommend(1); err == nil && list.Round >= rounds {
					return
				}
			}
		})
	}
	if wg.Wait(); ctx.Err() != nil {
		r.t.Fatalf("%d rounds were not done in time: %+v", rounds, r.status())
	}
}

// Independent devices with their own features train the model of a simulation with all columns, bit by bit. The
// coordinator continues after a restart without the data set.
func TestSingleDevicesHaveTheirOwnFeatures(t *testing.T) {
	t.Parallel()
	split := described(t)
	for name, more := range map[string][]string{"privrec": nil, "nn-self": nil, "categories": {"numbers", "category"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "categories" {
				name = "privrec"
			}
			s := settings(split, name, append(slices.Clone(modest[name]), more...)...)
			dir := filepath.Join(t.TempDir(), "state")
			r := open(t, dir, split, &s)
			var devices []*device.Device
			for u := range split.Users() {
				devices = append(devices, r.single(u, nil))
			}
			r.runAll(devices, 2)
			r.stop()
			r = open(t, dir, split, nil)
			for _, d := range devices {
				d.SetDial(func(key ed25519.PrivateKey) (device.Conn, error) {
					o := r.opt
					o.Key = key
					return rpc.Dial(o)
				})
			}
			r.runAll(devices, uint32(s.Rounds))
			same(t, r.newest(), simulated(t, split, s))
		})
	}
}

func TestRefusesUnknownFeaturesAndNamesTheKnown(t *testing.T) {
	split := described(t)
	s := settings(split, "privrec", modest["privrec"]...)
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	id := -1
	for name, c := range map[string]struct {
		tell func(events []device.Event, features map[string]string)
		want string
	}{
		"a category": {
			func(_ []device.Event, f map[string]string) { f["age"] = "99" },
			`age = "99": must be one of old, unknown, young`,
		},
		"a name": {
			func(_ []device.Event, f map[string]string) { f["size"] = "9" },
			`unknown feature "size" of users: must be one of age, gender`,
		},
		"nothing": {
			func(_ []device.Event, f map[string]string) { delete(f, "gender") },
			"gender is missing: must be one of F, M",
		},
		"a silent age": {func(_ []device.Event, f map[string]string) { delete(f, "age") }, ""},
		"a wrong time": {
			func(e []device.Event, _ map[string]string) { e[2].Features = "daytime=noon" },
			`daytime = "noon": must be one of evening, morning, unknown`,
		},
		"another thing": {func(e []device.Event, _ map[string]string) { e[2].Features = "mood=good" }, ""},
	} {
		id++
		d := r.single(id, c.tell)
		err := step(d)
		if err == nil {
			_, err = d.Recommend(3)
		}
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, device.ErrFeatures) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Added items may have features; devices then score them.
func TestAddedItemsHaveFeatures(t *testing.T) {
	t.Parallel()
	split := described(t)
	s := settings(split, "privrec", modest["privrec"]...)
	s.Devices, s.Rounds = 1, 1
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	d := r.single(0, nil)
	r.runAll([]*device.Device{d}, 1)
	ctx := context.Background()
	add := func(id string, words ...string) error {
		it := &pb.Item{Id: id}
		for i := 0; i < len(words); i += 2 {
			it.Features = append(it.Features, &pb.Setting{Key: words[i], Value: words[i+1]})
		}
		_, err := r.admin.Items(ctx, []*pb.Item{it})
		return err
	}
	for want, words := range map[string][]string{
		`genre = "opera": must be any of comedy, drama, noir, war`:   {"genre", "war|opera"},
		`column "mood" is unknown: must be one of genre, size, cost`: {"mood", "good"},
		`column "size": "big" is not a number`:                       {"size", "big"},
	} {
		if err := add("bad", words...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Item 21 is comedy and war, of size 1/5, and paid.
	if err := errors.Join(add("like 21", "genre", "comedy|war", "size", "0.2", "cost", "paid"),
		add("plain")); err != nil {
		t.Fatal(err)
	}
	scores := map[string]float32{}
	for deadline := time.Now().Add(time.Minute); len(scores) < split.Items()+2; {
		if err := step(d); err != nil {
			t.Fatal(err)
		}
		list, err := d.Recommend(100)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, %v", list, err)
		}
		if clear(scores); len(list.Items)+list.KnownItems == split.Items()+2 {
			for _, p := range list.Items {
				scores[p.ID] = p.Score
			}
			break
		}
	}
	if scores["like 21"] != scores["21"] && scores["21"] != 0 {
		t.Errorf("an item like 21 scores %g, and 21 %g", scores["like 21"], scores["21"])
	}
	if _, ok := scores["plain"]; !ok {
		t.Error("an item of which nothing is said is not there")
	}
}
