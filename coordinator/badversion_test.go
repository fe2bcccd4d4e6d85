package coordinator

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// publishNaN publishes a version with a number that is not finite, as a coordinator without a check of
// its models would.
func publishNaN(t *testing.T, r *harness) uint64 {
	t.Helper()
	r.pause(true)
	waitFor(t, "the pause", func() bool { return r.c.Status().State == Paused })
	x := &r.c.engine.Value[0][0]
	was := *x
	*x = float32(math.Inf(1))
	if err := r.c.save(models.Outcome{}, false); err != nil {
		t.Fatal(err)
	}
	*x = was
	return r.c.models.Last()
}

// pauseAfter pauses a coordinator when a number of rounds are done, before another begins.
func pauseAfter(c *Coordinator, at string, rounds int) error {
	if at == "stepped" && c.engine.Next == rounds {
		return c.requests.setPause(true)
	}
	return nil
}

// A start does not fail because of one version: training resumes from the newest one whose numbers are
// finite, as after a roll back, and the catalogue stays the newest.
func TestABadVersionIsNotFatal(t *testing.T) {
	t.Parallel()
	s := small(3)
	s.Rounds = 6
	dir := filepath.Join(t.TempDir(), "state")
	var c *Coordinator
	r := open(t, dir, &s, func(o *Options) { o.fault = func(at string) error { return pauseAfter(c, at, 2) } })
	c = r.c
	d := r.enrolled(3)
	r.play(d, 2)
	waitFor(t, "the pause", func() bool { return r.c.Status().State == Paused })
	good, bits := r.model()
	if _, err := r.admin.Items(context.Background(), []*pb.Item{
		{Id: "i3", Retired: true},
	}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the retirement", func() bool { // and that it is published: the loop then does nothing
		items := r.c.catalogue
		return items.Current().Items[3].Retired && r.c.models.Last() > good.Version && items.Pending() == 0
	})
	bad := publishNaN(t, r)
	r.pause(false)
	r.stop()
	var warnings []string
	for range 2 { // the second start finds the repaired folder
		warnings = nil
		r = open(t, dir, nil, func(o *Options) { o.Warn = func(w string) { warnings = append(warnings, w) } })
		m, got := r.model()
		if m.Version <= bad || m.Rollbacks <= good.Rollbacks || got != bits {
			t.Fatalf("version %d after %d rollbacks, want one after %d with the values of round 2", m.Version,
				m.Rollbacks, bad)
		}
		if !r.c.catalogue.Current().Items[3].Retired {
			t.Error("the retired item is back")
		}
		if warnings == nil {
			break
		}
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "must be finite") }) {
			t.Errorf("the warnings are %q", warnings)
		}
		r.stop()
	}
	if len(warnings) > 0 {
		t.Errorf("the next start warns again: %q", warnings)
	}
	if _, err := r.admin.Rollback(context.Background(), bad); err != nil {
		t.Fatal(err)
	}
	again := make([]*testDevice, 3)
	for i := range again {
		again[i] = r.newDevice(i)
		again[i].id = uint32(i)
	}
	r.play(again, 3)
	if m, _ := r.model(); m.Round != 3 {
		t.Errorf("a roll back to the bad version gives a model of round %d", m.Round)
	}
}

// A run whose every version is bad starts from the beginning instead of not at all.
func TestOnlyBadVersions(t *testing.T) {
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, &s, nil)
	r.pause(true)
	r.enrolled(2)
	waitFor(t, "the pause", func() bool { return r.c.Status().State == Paused })
	if _, err := r.admin.Items(context.Background(), []*pb.Item{{Id: "new"}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the item", func() bool { return r.c.Status().Items == 11 })
	var bad uint64
	for range models.VersionsOnDisk {
		bad = publishNaN(t, r)
	}
	r.pause(false)
	r.stop()
	r = open(t, dir, nil, nil)
	if m, _ := r.model(); m.Version <= bad || m.Round != 0 || r.c.Status().Items != 11 {
		t.Errorf("version %d of round %d with %d items", m.Version, m.Round, r.c.Status().Items)
	}
	d := []*testDevice{r.newDevice(0), r.newDevice(1)}
	d[1].id = 1
	r.play(d, 1)
}

// A roll back restores the values, not the catalogue: a retired item stays retired, an item that was
// added since stays, and so does the popularity that devices fall back to.
func TestRetirementSurvivesARollBack(t *testing.T) {
	s := small(2)
	dir := filepath.Join(t.TempDir(), "state")
	var c *Coordinator
	r := open(t, dir, &s, func(o *Options) { o.fault = func(at string) error { return pauseAfter(c, at, 1) } })
	c = r.c
	d := r.enrolled(2)
	r.play(d, 1)
	before, _ := r.model()
	if _, err := r.admin.Items(context.Background(), []*pb.Item{
		{Id: "i3", Retired: true},
		{Id: "new"},
	}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the items", func() bool { return r.c.Status().Items == 11 })
	if _, err := r.admin.Rollback(context.Background(), before.Version); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the roll back", func() bool { m, _ := r.model(); return m.Rollbacks > 0 })
	check := func(when string) {
		t.Helper()
		items := r.c.catalogue.Current().Items
		if len(items) != 11 || !items[3].Retired || items[10].Id != "new" || r.c.plan.Items != 11 {
			t.Errorf("%s: %d items, the plan has %d, item 3 is %v", when, len(items), r.c.plan.Items, items[3])
		}
	}
	check("after the roll back")
	r.pause(false)
	r.play(d, 2)
	check("after another round")
	r.stop()
	r = open(t, dir, nil, nil)
	check("after a restart")
}

// exploding is a method whose server step goes wrong in some rounds.
type exploding struct {
	methods.FedMF
	wrong func(round int) bool
}

func (m *exploding) PostUpdate(g *method.Global) {
	if m.wrong(g.Round) {
		g.Value[0][0] = float32(math.NaN())
	}
}

// A model that is not finite is never published: the coordinator discards the round, says so, and trains
// on. If it happens again and again, the state says what may be wrong.
func TestAModelThatIsNotFiniteIsNotPublished(t *testing.T) {
	registry := methods.Default()
	if err := registry.Add(method.Entry{Name: "exploding", Title: "Exploding", New: func() method.Method {
		return &exploding{wrong: func(round int) bool { return round >= 1 && round <= 3 }}
	}}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var events []Event
	s := small(2)
	s.Method, s.Rounds = "exploding", 6
	dir := filepath.Join(t.TempDir(), "state")
	change := func(o *Options) {
		o.Methods = registry
		o.Event = func(e Event) { mu.Lock(); events = append(events, e); mu.Unlock() }
	}
	r := open(t, dir, &s, change)
	d := r.enrolled(2)
	r.play(d, 1)
	_, good := r.model()
	r.play(d, 4)
	m, bits := r.model()
	if m.Round != 4 || bits != good {
		t.Errorf("after three bad rounds the model of round %d differs from that of round 1", m.Round)
	}
	waitFor(t, "the message", func() bool { return strings.Contains(r.c.Status().Message, "the last 3 rounds") })
	r.stop()
	r = open(t, dir, nil, change)
	r.play([]*testDevice{r.newDevice(0), r.newDevice(1)}, 6)
	if _, bits = r.model(); bits == good {
		t.Error("training did not go on")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, e := range events {
		if bad := e.Round >= 2 && e.Round <= 4; e.Discarded != bad || (e.Rejected != "") != bad {
			t.Errorf("round %d: discarded %t, rejected %q", e.Round, e.Discarded, e.Rejected)
		}
	}
}

// Without a listener Serve says so.
func TestServeWithoutAListener(t *testing.T) {
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	if err := r.c.Serve(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "net.Listen") {
		t.Errorf("it returns %v", err)
	}
}
