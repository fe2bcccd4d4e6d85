package device

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// evaluationBound bounds an evaluation like a coordinator; unit is the value of one integer.
func evaluationBound() (b *pb.Bound, unit float64) {
	bound := privacy.Bound{Clip: 1.001 * math.Sqrt(metrics.EvaluationLength), Levels: 1 << 20}
	return wire.EncodeBound(bound, 0, 0, 1<<20+1), bound.Unit()
}

// A made-up popularity list puts the held-out item at the rank that the test expects.
func TestEvaluationComparesWithPopularity(t *testing.T) {
	c := &catalogue{index: map[string]uint32{}}
	for i := range 60 {
		c.index[fmt.Sprintf("i%d", i)] = uint32(i)
	}
	h := history{Events: seedEvents(0)}
	var task local.Task
	held, ok := (&recordedEvents{history: &h, holdOut: true}).fill(c, &task)
	if !ok {
		t.Fatal("nothing is held out")
	}
	for _, above := range []int{0, 4, 9, 10, -1} {
		f, members := start(t, "pfedrec", 1, "dim", "4", "infer", "global")
		f.rounds(2, members)
		b, unit := evaluationBound()
		f.kind, f.bound = pb.Kind_EVALUATE, b
		f.popular = slices.Compact(slices.Sorted(slices.Values(task.Train))) // seen items do not count
		for i := range uint32(60) {
			if len(f.popular) < above+5 && i != held && !slices.Contains(task.Train, i) {
				f.popular = append(f.popular, i)
			}
		}
		named := len(f.popular) - 5
		if above >= 0 {
			f.popular = append(f.popular, held)
		}
		f.publish()
		got := members[0].evaluates()
		hit, gain := 0.0, 0.0
		if above >= 0 && above < 10 {
			hit, gain = 1, 1/math.Log2(float64(above+2))
		}
		if above < 0 { // all items after the listed ones tie: 60 minus 5 seen ones and the listed
			tied := 60 - 5 - named
			for at := named; at < 10; at++ {
				hit += 1 / float64(tied)
				gain += 1 / math.Log2(float64(at+2)) / float64(tied)
			}
		}
		for i, want := range map[int]float64{0: 1, 3: 1, 4: hit, 5: gain} {
			if math.Abs(float64(got[i])*unit-want) > 1e-5 {
				t.Errorf("with %d more popular items number %d is %g, want %g", above, i, float64(got[i])*unit, want)
			}
		}
	}
}

// The evaluation of a device equals the rank of its scores, computed here by hand.
func TestEvaluationRanksTheHeldOutItem(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4", "infer", "global")
	f.rounds(3, members)
	b, unit := evaluationBound()
	f.kind, f.bound = pb.Kind_EVALUATE, b
	got := members[0].evaluates()
	d := members[0].open()
	h := members[0].workspace
	st, err := h.privateState(d.record, f.run)
	if err != nil {
		t.Fatal(err)
	}
	task, held, ok, err := h.prepare(d.source(true), &record{}, 3)
	if err != nil || !ok || slices.Contains(task.Train, held) {
		t.Fatal(err, ok)
	}
	h.worker.Prepare(&st, task)
	h.worker.ScoreAll(h.scores)
	above := 0
	for i, z := range h.scores {
		if uint32(i) != held && !slices.Contains(task.Train, uint32(i)) && z > h.scores[held] {
			above++
		}
	}
	want := []float64{1, 0, 0, 0, 0, 0}
	if above < 10 {
		want[1], want[2] = 1, 1/math.Log2(float64(above+2))
	}
	for i, x := range want {
		if got := float64(got[i]) * unit; math.Abs(got-x) > 1e-5 {
			t.Errorf("%d are above; number %d is %g, want %g", above, i, got, x)
		}
	}
}

func TestHeldOutItemIsTheNewest(t *testing.T) {
	c := &catalogue{index: map[string]uint32{"a": 0, "b": 1, "c": 2, "d": 3}}
	h := history{Events: []Event{
		{Item: "b", Time: 20},
		{Item: "a", Time: 10},
		{Item: "c", Time: 30},
		{Item: "gone", Time: 40},
		{Item: "a", Time: 50},
	}}
	var task local.Task
	held, ok := (&recordedEvents{history: &h, holdOut: true}).fill(c, &task)
	if !ok || held != 2 || !slices.Equal(task.Train, []uint32{0, 1, 0}) {
		t.Errorf("held out is %d of %v, want c: a repeats, and gone is not in the catalogue", held, task.Train)
	}
	h.Events = append(h.Events, Event{Item: "d", Time: 60})
	if held, _ = (&recordedEvents{history: &h, holdOut: true}).fill(c, &task); held != 3 ||
		!slices.Equal(task.Train, []uint32{0, 1, 2, 0}) {
		t.Errorf("then %d of %v, want d, and c joins", held, task.Train)
	}
	if _, ok = (&recordedEvents{history: &h, holdOut: false}).fill(c, &task); ok || len(task.Train) != 5 {
		t.Errorf("without a hold-out it trains on %v", task.Train)
	}
	one := history{Events: h.Events[:1]}
	if _, ok = (&recordedEvents{history: &one, holdOut: true}).fill(c, &task); ok || len(task.Train) != 1 {
		t.Error("a single item is held out, and nothing is left to learn from")
	}
}

// The noise of a task differs from that of other devices and rounds. The test allows six standard errors of
// the deviation: one false alarm in 10^8 runs.
func TestAddsTheRequiredNoise(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "8")
	f.bound = wire.EncodeBound(privacy.Bound{Clip: 1, Levels: 1}, 1000, 1000, 1<<20)
	f.publish()
	f.rounds(2, members)
	for r := range 2 {
		sum, n := 0.0, float64(len(f.sums[r]))
		for _, x := range f.sums[r] {
			sum += float64(x) * float64(x)
		}
		if dev := math.Sqrt(sum / n); math.Abs(dev-1000) > 6*1000/math.Sqrt(2*n) {
			t.Errorf("round %d: %g is the deviation of %g numbers, want 1000", r+1, dev, n)
		}
	}
	if slices.Equal(f.sums[0], f.sums[1]) {
		t.Error("two rounds have the same noise")
	}
}

func TestLimitsTheMagnitudeOfNumbers(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "8")
	f.bound = wire.EncodeBound(privacy.Bound{Clip: 1, Levels: 1}, 1000, 0, 50)
	f.rounds(1, members)
	if most := slices.Max(f.sums[0]); most != 50 || slices.Min(f.sums[0]) != -50 {
		t.Errorf("the largest is %d", most)
	}
}

func TestEmptyUpdateOnlyWithoutPolicy(t *testing.T) {
	for _, policy := range []string{"none", "epsilon=2"} {
		f, members := start(t, "pfedrec", 1, "dim", "4")
		if policy != "none" {
			f.protect(policy, "all")
		}
		f.publish()
		d := members[0].open()
		if err := d.Replace(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		empty := wire.ReadUpdate(d.record.Train.data, 0, 1, nil) == nil
		if empty != (policy == "none") {
			t.Errorf("policy %s: the report is empty: %v", policy, empty)
		}
	}
}

func TestRecommendsUnseenCatalogueItemsOffline(t *testing.T) {
	for _, m := range []string{"pfedrec", "fedrap", "ials", "ials-next"} {
		f, members := start(t, m, 2, "dim", "4")
		d := members[0].open()
		if _, err := d.Recommend(5); !errors.Is(err, ErrNoModel) {
			t.Errorf("%s: without a model: %v", m, err)
		}
		f.items[17].Retired = true
		f.publish()
		f.rounds(2, members)
		members[0].change = func(o *Options) { o.Dial, o.Source = nil, nil }
		list, err := members[0].open().Recommend(100)
		if err != nil {
			t.Fatal(m, err)
		}
		own := map[string]bool{"i17": true}
		for _, e := range seedEvents(0) {
			own[e.Item] = true
		}
		if want := 60 - len(own); len(list.Items) != want || list.ModelVersion == 0 || list.Federation != "films" ||
			list.KnownItems != len(own)-1 {
			t.Errorf("%s: %d of %d are recommended, version %d of %q, %d known", m, len(list.Items), want,
				list.ModelVersion, list.Federation, list.KnownItems)
		}
		for i, p := range list.Items {
			if own[p.ID] || p.Title == "" || i > 0 && p.Score > list.Items[i-1].Score {
				t.Errorf("%s: place %d is %+v", m, i, p)
			}
		}
		before, _ := members[0].store.Load()
		again, err := members[0].open().Recommend(100)
		after, _ := members[0].store.Load()
		if err != nil || !slices.Equal(list.Items, again.Items) || len(before) != len(after) {
			t.Errorf("%s: a second look recommends something else, or changes the record: %v", m, err)
		}
	}
}

// overtaken is a Blobs in which another process adopts a newer model before the first read.
type overtaken struct {
	Blobs
	move func()
}

func (o *overtaken) Get(hash [32]byte) ([]byte, error) {
	if f := o.move; f != nil {
		o.move = nil
		f()
	}
	return o.Blobs.Get(hash)
}

func TestRecommendsWhileAnotherProcessRuns(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	f.rounds(1, members)
	elsewhere := *members[0]
	elsewhere.workspace = &Workspace{}
	members[0].workspace = &Workspace{}
	members[0].blobs = &overtaken{members[0].blobs, func() { f.rounds(3, []*testDevice{&elsewhere}) }}
	list, err := members[0].open().Recommend(5)
	if err != nil || list.Round != 2 { // the third round is not downloaded yet
		t.Errorf("%+v, %v", list, err)
	}

	// A missing blob is an error, not an endless loop.
	members[0].blobs, members[0].workspace = NewMemoryBlobs(), &Workspace{}
	if _, err := members[0].open().Recommend(5); !errors.Is(err, errBlobMissing) {
		t.Errorf("without the parts: %v", err)
	}
}

// A method with a locally tuned model recommends with the model after local training.
func TestRecommendsWithTheLocallyTunedModel(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4", "infer", "own")
	if !f.plan.Serves(method.ServeLocal) {
		t.Fatal("it does not serve a tuned copy")
	}
	f.rounds(2, members)
	list, err := members[0].open().Recommend(1)
	if err != nil {
		t.Fatal(err)
	}
	d := members[0].open()
	h := members[0].workspace
	st, _ := h.privateState(d.record, f.run)
	m, err := d.manifest() // the randomness is that of its round
	if err != nil {
		t.Fatal(err)
	}
	task, _, _, _ := h.prepare(d.source(false), &record{}, int(m.Round))
	h.worker.Visit(&st, task, local.NotCounted, false)
	h.worker.ScoreAll(h.scores)
	if at, _ := h.catalogue.lookup(list.Items[0].ID); h.scores[at] != list.Items[0].Score {
		t.Errorf("it scores %g, and %g after local training", list.Items[0].Score, h.scores[at])
	}
}

func TestAddsUndoesAndExpiresEvents(t *testing.T) {
	f := newFake(t, "pfedrec", 1, "dim", "4")
	r := f.device(0)
	now := time.UnixMilli(100 * 24 * 3600 * 1000)
	r.change = func(o *Options) { o.Now = func() time.Time { return now } }
	d := r.open()
	d.Replace(nil)
	day := int64(24 * 3600 * 1000)
	d.Add(Event{Item: "a", Time: 1 * day}, Event{Item: "b", Time: 99 * day}, Event{Item: "c", Time: 98 * day},
		Event{Item: "d", Time: 97 * day})
	if gone, err := d.Undo(); err != nil || gone.Item != "d" {
		t.Errorf("%+v, %v", gone, err)
	}
	items := func() string {
		var s []string
		for _, e := range d.record.History.Events {
			s = append(s, e.Item)
		}
		return strings.Join(s, "")
	}
	if err := d.Retain(0, 30); err != nil || items() != "bc" {
		t.Errorf("thirty days keep %q, %v", items(), err)
	}
	if err := d.Retain(1, 30); err != nil || items() != "b" {
		t.Errorf("the newest one is %q, %v", items(), err)
	}
	d.Undo()
	if _, err := d.Undo(); err == nil {
		t.Error("nothing is taken back")
	}
	if err := d.Add(Event{Item: strings.Repeat("x", 300)}); err == nil {
		t.Error("an id of 300 bytes is kept")
	}
}

func TestReadsHistories(t *testing.T) {
	got, err := ReadEvents(strings.NewReader("item,time\n# seen at home\nA 1,5\n\"b,2\", 2026-05-01\nc\n"))
	if err != nil || len(got) != 3 || got[0] != (Event{Item: "A 1", Time: 5000}) || got[1].Item != "b,2" ||
		got[1].Time != 1777593600000 || got[2].Item != "c" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"a,b,c,d", "a,yesterday", ",5", "\"a"} {
		if _, err := ReadEvents(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("item,time\na,5\nb\n")
	f.Add("\"a\"\"b\",2026-05-01T10:00:00Z")
	f.Fuzz(func(t *testing.T, s string) {
		events, err := ReadEvents(strings.NewReader(s))
		if err != nil {
			return
		}
		h := history{Events: events}
		if err := h.check(); err != nil {
			t.Error(err)
		}
	})
}

func TestDutyAsksForRest(t *testing.T) {
	f, members := start(t, "pfedrec", 1, "dim", "4")
	_ = f
	clock := time.Unix(1000, 0)
	members[0].change = func(o *Options) {
		o.Duty = 0.25
		o.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
	}
	out, err := members[0].open().Step(context.Background())
	if err != nil || out.After < 3*time.Second {
		t.Errorf("after a second of work or more it rests %v, %v", out.After, err)
	}
}
