package fleet_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/fleet"
)

// Devices recompute the guarantee from the plan of a real coordinator and answer its tasks, whatever the
// policy, the cohort and the masks.
func TestDevicesAnswerHonestTasksOfEveryMode(t *testing.T) {
	for name, mode := range map[string]struct {
		policy, cohort string
		masked         bool
		group, runs    int
	}{
		"central, count":     {"epsilon=50,delta=1e-3,clip=0.5", "20", false, 0, 1},
		"central, share":     {"epsilon=50,delta=1e-3,clip=0.5", "50%", false, 0, 3},
		"central, poisson":   {"epsilon=50,delta=1e-3,clip=0.5,row-clip=0.2", "poisson:0.5", false, 0, 1},
		"central, adaptive":  {"epsilon=50,delta=1e-3,adaptive=geometric,bit-noise=40", "all", false, 0, 2},
		"central, masked":    {"epsilon=50,delta=1e-3,clip=0.5", "all", true, 15, 1},
		"given noise":        {"noise=2,delta=1e-3,clip=0.5", "all", false, 0, 1},
		"tree, cycle":        {"epsilon=50,delta=1e-3,mechanism=tree", "cycle:10", false, 0, 2},
		"distributed":        {"epsilon=50,delta=1e-3,trust=distributed,min-devices=12", "all", true, 0, 2},
		"distributed, group": {"epsilon=50,delta=1e-3,trust=distributed,min-devices=8", "all", true, 15, 1},
		"distributed, adaptive": {
			"epsilon=50,delta=1e-3,trust=distributed,min-devices=12,adaptive=geometric,bit-noise=80", "all", true, 0, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := world(t)
			s := settings(split, "pfedrec", "dim", "4")
			if err := s.DP.UnmarshalText([]byte(mode.policy)); err != nil {
				t.Fatal(err)
			}
			if err := s.Cohort.UnmarshalText([]byte(mode.cohort)); err != nil {
				t.Fatal(err)
			}
			s.Mean, s.Masked, s.GroupSize, s.Rounds, s.Runs = aggregate.Fixed, mode.masked, mode.group, 2, mode.runs
			sampled := name == "central, poisson" || name == "central, count" || name == "central, share"
			if sampled { // such a round ends at its deadline, whatever the sample is
				s.Deadline = 3 * time.Second
			}
			r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
			f := r.run(nil, uint32(s.Rounds))
			want := int64(s.Cohort.Expected(split.Users())) * int64(s.Rounds)
			if n := f.Stats().Counted; n != want && !sampled || n == 0 {
				t.Errorf("%d reports were counted, want %d", n, want)
			}
		})
	}
}

// fleet is a device for each user, and a context that ends before a test waits for ever.
func (r *federation) fleet(split *data.Split) (*fleet.Fleet, context.Context) {
	r.t.Helper()
	f, err := fleet.New(fleet.Config{Server: r.opt, Token: r.token, Split: split, Workers: 2, Deterministic: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { f.Close() })
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return f, ctx
}

// The runs of a budget period share the guarantee that devices were given. A further run needs a reset of the
// budget, which every device notices; its tally counts everything since it enrolled.
func TestDevicesFollowRunsAndResets(t *testing.T) {
	t.Parallel()
	split := world(t)
	s := settings(split, "pfedrec", "dim", "4")
	if err := s.DP.UnmarshalText([]byte("epsilon=50,delta=1e-3,trust=distributed,min-devices=12")); err != nil {
		t.Fatal(err)
	}
	s.Mean, s.Masked, s.Rounds, s.Runs = aggregate.Fixed, true, 2, 2
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	f, ctx := r.fleet(split)
	r.train(ctx, f, 1)
	if _, err := r.admin.BeginNext(ctx, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	r.train(ctx, f, 2)
	if _, err := r.admin.BeginNext(ctx, nil, nil, nil); err == nil {
		t.Fatal("a third run begins on the budget of two")
	}
	if _, err := r.admin.ResetBudget(ctx, "a test"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.admin.BeginNext(ctx, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	r.train(ctx, f, 3)
	about, err := f.Devices()[0].About()
	if err != nil {
		t.Fatal(err)
	}
	g, y := about.Guarantee, about.Tally
	if g.Period != 2 || g.Run != 1 || g.Runs != 2 || !(g.Epsilon > 0 && g.Epsilon <= 50) || y.Runs != 3 ||
		y.Resets != 1 || y.Reports < 5 || !(y.Epsilon > 0 && y.Epsilon < 2*g.Epsilon) {
		t.Errorf("%+v, %+v", g, y)
	}
}

// A federation may change between runs with a privacy guarantee and runs without one: its devices follow, and
// only a reset of the budget counts as one.
func TestDevicesFollowRunsWithAndWithoutAGuarantee(t *testing.T) {
	t.Parallel()
	split := world(t)
	none := settings(split, "pfedrec", "dim", "4")
	none.Rounds, none.Mean = 1, aggregate.Fixed
	private := none
	if err := private.DP.UnmarshalText([]byte("epsilon=50,delta=1e-3,clip=0.5")); err != nil {
		t.Fatal(err)
	}
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &none)
	f, ctx := r.fleet(split)
	resets := func() int {
		t.Helper()
		about, err := f.Devices()[0].About()
		if err != nil {
			t.Fatal(err)
		}
		return about.Tally.Resets
	}
	r.train(ctx, f, 1)
	if err := r.c.BeginRun(&private, nil); err != nil {
		t.Fatal(err)
	}
	r.train(ctx, f, 2)
	if n := resets(); n != 0 {
		t.Errorf("the first run with a guarantee counts as %d resets", n)
	}
	if _, err := r.admin.ResetBudget(ctx, "a test"); err != nil {
		t.Fatal(err)
	}
	if err := r.c.BeginRun(&none, nil); err != nil {
		t.Fatal(err)
	}
	r.train(ctx, f, 3)
	if err := r.c.BeginRun(&private, nil); err != nil {
		t.Fatal(err)
	}
	r.train(ctx, f, 4)
	if n := resets(); n != 1 {
		t.Errorf("a device has seen %d resets, want 1", n)
	}
}

// train lets the devices of a fleet train until a run is over and all of them have its model.
func (r *federation) train(ctx context.Context, f *fleet.Fleet, run int) {
	r.t.Helper()
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, 0) }() // between runs devices would wait for minutes
	st := r.status()
	over := func() bool { return st.RunNumber == run && st.State == coordinator.Finished }
	for ; !over() || f.Stats().Model < r.newest().Version; st = r.status() {
		if time.Sleep(20 * time.Millisecond); ctx.Err() != nil {
			r.t.Fatalf("run %d does not end: %s, %s; %+v", run, st.State, st.Message, f.Stats())
		}
	}
	stop()
	if err := <-done; err != nil {
		r.t.Fatal(err)
	}
}
