package fleet_test

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/fleet"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
	"github.com/tacit-rec/tacit/wire"
)

// federation is a coordinator on a real socket, in this process.
type federation struct {
	t     testing.TB
	dir   string
	split *data.Split
	c     *coordinator.Coordinator
	opt   rpc.Options
	admin *coordinator.AdminClient
	token string
	stop  func()
}

func world(t testing.TB) *data.Split { return splitOf(t, "users=30,items=60,mean-rows=14,seed=3") }

func itemsOf(s *data.Split) []*pb.Item {
	var out []*pb.Item
	for i := range s.Items() {
		out = append(out, &pb.Item{Id: strconv.Itoa(i), Title: s.Info().ItemName(i)})
	}
	return out
}

// patience is how long a test waits at most: a busy machine is slow.
const patience = 5 * time.Minute

// settings returns the settings of a deterministic run on a split.
func settings(s *data.Split, name string, params ...string) coordinator.Settings {
	out := coordinator.Settings{
		Name: "a deterministic run", Method: name, Params: map[string]string{},
		Config: round.Config{
			Rounds: 4, Batch: 64, Negatives: 4, Keep: "f32", Bits: 24, Cohort: round.Cohort{Kind: "all"},
			Mean: aggregate.PerCohort, Server: aggregate.Rule{Kind: "sgd", Rate: 1},
		},
		Devices: s.Users(), Goal: 1, Minimum: 0.5, Deadline: patience, Deterministic: true, Seed: 7,
	}
	for i := 0; i < len(params); i += 2 {
		out.Params[params[i]] = params[i+1]
	}
	return out
}

// open starts a coordinator in a folder.
func open(t testing.TB, dir string, split *data.Split, s *coordinator.Settings) *federation {
	t.Helper()
	return openWith(t, dir, split, s, rpc.Limits{AddressRate: -1, KeyRate: 1000, Grace: patience, Call: patience})
}

func openWith(t testing.TB, dir string, split *data.Split, s *coordinator.Settings, limits rpc.Limits) *federation {
	t.Helper()
	c, err := coordinator.Open(coordinator.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		if s.Features, err = split.Features(); err != nil { // an existing run has its own
			t.Fatal(err)
		}
		if err := c.Begin(*s, itemsOf(split)); err != nil {
			t.Fatal(err)
		}
	}
	r := &federation{t: t, dir: dir, split: split, c: c}
	if r.token, err = c.Token(1000, time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	c.SetAdminToken("operator")
	config.Limits = limits
	server, err := rpc.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	c.CountRefusals(server.Refused)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := server.HTTP(nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() {
		err := c.Run(ctx)
		if err != nil {
			t.Errorf("the coordinator ended: %v", err)
		}
		ended <- err
	}()
	go func() { ended <- h.Serve(server.Listener(l)) }()
	r.opt = rpc.Options{URL: "http://" + l.Addr().String(), Insecure: true, Token: "operator"}
	if r.admin, err = coordinator.DialAdmin(r.opt); err != nil {
		t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		h.Close()
		<-ended
		<-ended
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// run runs a fleet until all rounds are done.
func (r *federation) run(change func(c *fleet.Config), rounds uint32) *fleet.Fleet {
	r.t.Helper()
	cfg := fleet.Config{Server: r.opt, Token: r.token, Split: r.split, Workers: 2, Deterministic: true, Seed: 5}
	if change != nil {
		change(&cfg)
	}
	f, err := fleet.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.Run(ctx, rounds); err != nil {
		r.t.Fatal(err)
	}
	if ctx.Err() != nil {
		r.t.Fatalf("the rounds did not end: %+v, %s", f.Stats(), r.status().State)
	}
	f.Close()
	return f
}

func (r *federation) status() (s coordinator.Status) {
	r.t.Helper()
	got, err := r.admin.Status(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return *got
}

// newest returns the manifest of the newest model.
func (r *federation) newest() *pb.Manifest {
	r.t.Helper()
	h, err := r.admin.History(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := h[len(h)-1].Manifest()
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// simulated returns the same run without a network.
func simulated(t *testing.T, split *data.Split, s coordinator.Settings) *sim.Run {
	t.Helper()
	return finished(t, simulation(t, split, s))
}

// simulation returns that run before its first round.
func simulation(t *testing.T, split *data.Split, s coordinator.Settings) *sim.Run {
	t.Helper()
	var o sim.Options
	param.Defaults(&o)
	o.Rounds, o.Batch, o.Negatives, o.Cohort, o.Server, o.DP, o.Keep = s.Rounds, s.Batch, s.Negatives, s.Cohort,
		s.Server, s.DP, s.Keep
	o.EvalEvery, o.Sums, o.Bits = s.Rounds, "integer", s.Bits
	if s.Masked {
		o.Secagg = "on"
	}
	e, err := methods.Default().Lookup(s.Method)
	if err != nil {
		t.Fatal(err)
	}
	m := e.Build()
	for k, v := range s.Params {
		if err := param.Set(m, k, v); err != nil {
			t.Fatal(err)
		}
	}
	r, err := sim.New(m, split, o, s.Seed, 2)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func finished(t *testing.T, r *sim.Run) *sim.Run {
	t.Helper()
	for !r.Done() {
		if _, err := r.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// same checks that a manifest has the values of a simulation.
func same(t *testing.T, m *pb.Manifest, r *sim.Run) {
	t.Helper()
	checked := 0
	for i, s := range r.Slots() {
		if s.Scope != method.Shared || s.Upload == method.Sum {
			continue
		}
		want := wire.HashBlob(wire.AppendRows(nil, r.Value(i), s.Rows, s.Dim, vec.Pad(s.Dim)))
		if string(want.Hash) != string(m.Slots[i].Hash) {
			t.Errorf("slot %s is not what the simulation has", s.Name)
		}
		checked++
	}
	if checked == 0 || int(m.Round) != r.Rounds {
		t.Errorf("%d slots were compared, and %d rounds are in the model, want %d", checked, m.Round, r.Rounds)
	}
}

// The same method over sockets, with devices in any order, gives every bit of the simulated model.
func TestNetworkGivesTheBitsOfTheSimulation(t *testing.T) {
	for name, params := range map[string][]string{
		"pfedrec":   {"dim", "8"},
		"fedrap":    {"dim", "8", "row-lr", "1"},
		"fedrecgel": {"dim", "8"},
		"ials-next": {"dim", "8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := world(t)
			s := settings(split, name, params...)
			r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
			f, sim := r.run(nil, uint32(s.Rounds)), simulated(t, split, s)
			same(t, r.newest(), sim)
			if sent := f.Stats().Bytes; sent != int64(sim.Bytes) {
				t.Errorf("devices have sent %d bytes, and the simulation counts %d", sent, sim.Bytes)
			}
			if st := r.status(); st.Round != s.Rounds || st.Lost != 0 || !st.SyncAll || st.Synced.Syncs == 0 {
				t.Errorf("the coordinator says %+v", st)
			}
		})
	}
}

// With a policy, deterministic noise is that of the simulation, and the ledger is on disk.
func TestPrivacyGuaranteeHoldsOverTheNetwork(t *testing.T) {
	t.Parallel()
	split := world(t)
	s := settings(split, "fedmf", "dim", "8")
	s.Mean = aggregate.Fixed
	if err := s.DP.UnmarshalText([]byte("epsilon=20,delta=1e-3,clip=0.5")); err != nil {
		t.Fatal(err)
	}
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	r.run(nil, uint32(s.Rounds))
	run := simulated(t, split, s)
	same(t, r.newest(), run)
	spent, _, err := run.Spent()
	if err != nil {
		t.Fatal(err)
	}
	if st := r.status(); st.Epsilon == nil || *st.Epsilon != spent.Epsilon || !st.LedgerOK {
		t.Errorf("the coordinator has spent %v, want %g", st.Epsilon, spent.Epsilon)
	}
}

// A masked round gives the sum of the devices that stay, or fails cleanly and is tried again.
func TestMaskedRoundsSurviveDropoutsAtEveryStep(t *testing.T) {
	t.Parallel()
	split := world(t)
	s := settings(split, "fedmf", "dim", "4")
	s.Mean, s.Masked, s.Rounds = aggregate.Fixed, true, 3
	if err := s.DP.UnmarshalText([]byte("epsilon=50,delta=1e-3,clip=0.5,min-devices=5")); err != nil {
		t.Fatal(err)
	}
	// each step has half of it; a device that is late for a step drops out too
	s.Deadline = max(2*time.Second, pace(t, split, s))
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	f := r.run(func(c *fleet.Config) { c.Leave = [4]float64{0.1, 0.1, 0.1, 0.1} }, uint32(s.Rounds))
	st := r.status()
	if st.Round != s.Rounds || !st.LedgerOK {
		t.Errorf("the coordinator says %+v", st)
	}
	if n := f.Stats().Counted; n == 0 || n > int64(s.Rounds*split.Users()) {
		t.Errorf("%d reports were counted in %d rounds of %d devices", n, s.Rounds, split.Users())
	}
}

func TestMaskedRoundIsExact(t *testing.T) {
	t.Parallel()
	for _, bucket := range []int{0, 14} {
		masked(t, bucket)
	}
}

func masked(t *testing.T, bucket int) {
	t.Helper()
	split := world(t)
	s := settings(split, "fedmf", "dim", "4")
	s.Mean, s.Masked, s.Rounds, s.GroupSize = aggregate.Fixed, true, 2, bucket
	if err := s.DP.UnmarshalText([]byte("epsilon=50,delta=1e-3,clip=0.5,min-devices=5")); err != nil {
		t.Fatal(err)
	}
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	r.run(nil, uint32(s.Rounds))
	same(t, r.newest(), simulated(t, split, s))
}

// Malicious devices are refused, each with its error code, and change nothing. The round does not wait for
// dropped devices.
func TestMaliciousDevicesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	split := world(t)
	s := settings(split, "fedmf", "dim", "4")
	s.Deadline, s.Minimum = max(700*time.Millisecond, 2*pace(t, split, s)), 0.2
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	var counted sum
	f := r.run(func(c *fleet.Config) { c.Malicious, c.Drop, c.Counted = 0.3, 0.1, counted.add }, uint32(s.Rounds))
	codes := 0
	for code, n := range f.Stats().Refused {
		if strings.HasPrefix(code, "lie_") && n > 0 {
			codes++
			if code == "lie_unknown" || code == "lie_internal" {
				t.Errorf("a lie was answered with %s", code)
			}
		}
	}
	if codes < 4 {
		t.Errorf("lies were refused with %v, want at least four codes", f.Stats().Refused)
	}
	n := 0
	for k := range uint32(s.Rounds) {
		c, err := r.admin.Counted(context.Background(), k)
		if err != nil || !c.Closed {
			t.Fatalf("round %d: %v, closed %v", k+1, err, c.Closed)
		}
		n += len(c.DeviceIDs)
	}
	if n != counted.n() || n == 0 {
		t.Errorf("%d reports are in sums and %d were acknowledged", n, counted.n())
	}
	if m := r.newest(); m.Round != uint32(s.Rounds) {
		t.Errorf("%d rounds are in the model", m.Round)
	}
}

// A coordinator continues after a restart, with a growing catalogue, and rolls back on request.
func TestCoordinatorSurvivesRestarts(t *testing.T) {
	t.Parallel()
	split := world(t)
	s := settings(split, "ials-next", "dim", "8")
	s.Rounds, s.EvalEvery = 6, 3
	dir := filepath.Join(t.TempDir(), "state")
	r := open(t, dir, split, &s)
	ctx := context.Background()
	items := []*pb.Item{{Id: "new", Title: "A new film"}, {Id: "3", Retired: true}}
	if got, err := r.admin.Items(ctx, items); err != nil || got.Added != 1 ||
		got.Changed != 1 {
		t.Fatalf("items: %v, %v", got, err)
	}
	f := r.run(nil, uint32(s.Rounds))
	list, err := f.Devices()[2].Recommend(61)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range list.Items {
		if it.ID == "3" {
			t.Error("a retired item is recommended")
		}
	}
	st := r.status()
	if st.Items != split.Items()+1 || len(st.Evaluations) == 0 {
		t.Errorf("the coordinator has %d items and %d evaluations", st.Items, len(st.Evaluations))
	}
	h, err := r.admin.History(ctx)
	if err != nil || len(h) < 3 {
		t.Fatalf("%d models, %v", len(h), err)
	}
	r.stop()
	r = open(t, dir, split, nil)
	if again := r.status(); again.Round != s.Rounds || again.Version != st.Version {
		t.Errorf("after a start there are %d rounds in version %d", again.Round, again.Version)
	}
	if _, err := r.admin.Rollback(ctx, st.Version-1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return r.status().Version > st.Version })
	if m := r.newest(); !m.RolledBack || int(m.Round) != s.Rounds-1 {
		t.Errorf("the model has %d rounds, and went back: %v", m.Round, m.RolledBack)
	}
	for _, format := range []string{"npy", "csv"} {
		n, err := r.admin.Export(ctx, 0, format, io.Discard)
		if err != nil || n < 1000 {
			t.Errorf("an export as %s has %d bytes: %v", format, n, err)
		}
	}
}

// pace returns how long a round takes now without dropouts. Rounds with dropouts end at their deadline, which
// must leave enough time for the others.
func pace(t *testing.T, split *data.Split, s coordinator.Settings) time.Duration {
	t.Helper()
	s.Rounds = 1
	r := open(t, filepath.Join(t.TempDir(), "pace"), split, &s)
	defer r.stop()
	start := time.Now()
	r.run(nil, 1)
	return time.Since(start)
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("it did not happen in time")
}
