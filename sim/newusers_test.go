package sim

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// moments is a small world whose interactions have a feature, and its split.
func moments(t testing.TB) *data.Split {
	src := world(t, "users=40,items=90,mean-rows=12").Generate()
	r := rng.New(rng.Test)
	hour := rows.Column{Name: "hour", Card: 4}
	for range src.Item {
		hour.Code = append(hour.Code, r.Uint32n(4))
	}
	src.Meta.Features.Row, src.Meta.CountsUsage = []rows.Column{hour}, true
	return split(t, src, "privrec")
}

// family are the methods of the PrivRec paper, small, and one that knows nothing of
// new users.
func family(t testing.TB) map[string]method.Method {
	out := map[string]method.Method{
		"privrec": &methods.PrivRec{}, "nn-self": &methods.NNSelf{}, "fofl-self": &methods.FOFLSelf{},
		"privrec-cen": &methods.PrivRecCen{},
	}
	for _, m := range out {
		configure(t, m, "dim", "4", "layers", "8,8")
	}
	out["pfedrec"] = pfedrec(t, "dim", "8")
	return out
}

func TestHeldOutUsersTakeNoPart(t *testing.T) {
	for name, m := range family(t) {
		s := moments(t)
		o := defaults()
		o.Rounds, o.EvalEvery = 3, 3
		r := start(t, m, s, o, 2)
		for !r.Done() {
			e := step(t, r)
			want := 32
			if name == "privrec-cen" {
				want = 40 // all rows but the ranked ones are in one place
			}
			if e.Devices+e.Idle != want {
				t.Errorf("%s: %d devices take part, want %d", name, e.Devices+e.Idle, want)
			}
		}
		for u, out := range s.HeldOut() {
			if v := r.fleet.state[u].Visits; (v > 0) == out && name != "privrec-cen" {
				t.Errorf("%s: user %d, held out: %v, was visited %d times", name, u, out, v)
			}
			lo, hi := r.Best.Start[u], r.Best.Start[u+1]
			if out != (hi > lo) || slices.ContainsFunc(r.Best.Test[lo:hi],
				func(p metrics.Rank) bool { return p.Above == metrics.NotRanked }) {
				t.Errorf("%s: user %d, held out: %v, has places %v", name, u, out, r.Best.Test[lo:hi])
			}
		}
	}
}

func TestNewUsersHaveTheSameBitsForAnyWorkerCountAndAfterAResume(t *testing.T) {
	for name := range family(t) {
		o := defaults()
		o.Rounds, o.EvalEvery = 4, 2
		if name != "privrec-cen" {
			if err := o.Cohort.UnmarshalText([]byte("9")); err != nil {
				t.Fatal(err)
			}
		}
		one, three := start(t, family(t)[name], moments(t), o, 1), start(t, family(t)[name], moments(t), o, 3)
		again := start(t, family(t)[name], moments(t), o, 2)
		sameBits(t, name, one, three, again)
	}
}

// Every place is found again by hand: the device of a new user is readied, told the
// moment, and its scores are counted one by one.
func TestNewUserRanksMatchItsTunedDevice(t *testing.T) {
	m := family(t)["privrec"]
	s := moments(t)
	o := defaults()
	o.Rounds = 2
	r := start(t, m, s, o, 2)
	step(t, r)
	step(t, r)
	k := local.NewWorker(r.fleet.mem, 0)
	var p data.Part
	all := make([]float32, s.Items())
	var hits float64
	users := 0
	for u, out := range s.HeldOut() {
		if !out {
			continue
		}
		s.User(u, &p)
		st := r.fleet.mem.NewState(nil)
		k.Prepare(&st, &local.Task{Device: uint32(u), Round: 1, Train: p.Train, Rows: p.Rows})
		mean := 0.0
		for q, item := range p.Query {
			k.Context(p.QueryRows[q])
			k.ScoreAll(all)
			want := metrics.Rank{}
			for i, z := range all {
				switch {
				case slices.Contains(p.Seen(), uint32(i)):
				case z > all[item]:
					want.Above++
				case z == all[item]:
					want.Ties++
				}
			}
			if got := r.Best.Test[r.Best.Start[u]+q]; got != want {
				t.Fatalf("user %d, item %d: %+v, want %+v", u, item, got, want)
			}
			hit := (10 - float64(want.Above)) / float64(want.Ties+1) // under a uniform order of the tied
			mean += min(max(hit, 0), 1) / float64(len(p.Query))
		}
		hits += mean
		users++
	}
	if _, test := r.Best.Summaries(metrics.Expected,
		s.Items()); abs(test.Sampled["hr@10"]-hits/float64(users)) > 1e-12 {
		t.Errorf("expected hits are %g, want %g", test.Sampled["hr@10"], hits/float64(users))
	}
}

func abs(x float64) float64 { return max(x, -x) }

func TestMethodsOfFeaturesRefuseDataWithoutThem(t *testing.T) {
	src := world(t, "users=40,items=90,mean-rows=12").Generate()
	src.Meta.Features = rows.Features{}
	if _, err := New(family(t)["privrec"], split(t, src, "deployed"), defaults(), 1, 1); err == nil {
		t.Error("data without features is taken")
	}
	src.Meta.Features.Item = []rows.Column{{Name: "x", Card: 1, Code: make([]uint32, 3)}}
	if _, err := New(pfedrec(t), split(t, src, "deployed"), defaults(), 1, 1); err == nil {
		t.Error("a feature of 3 items of 90 is taken")
	}
}

func TestOtherTablesRequireAllUsers(t *testing.T) {
	if _, err := New(pfedrec(t, "infer", "random"), moments(t), defaults(), 1, 1); err == nil {
		t.Error("strangers' tables are scored where users are held out")
	}
}

// sameBits runs two that must not differ, and a third that resumes after two rounds from what
// the second has saved.
func sameBits(t *testing.T, name string, one, other, again *Run) {
	t.Helper()
	for i := range one.Rounds {
		step(t, one)
		step(t, other)
		if i == 1 {
			var file bytes.Buffer
			if err := other.Save(&file, "x"); err != nil {
				t.Fatal(err)
			}
			if err := again.Load(&file, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if i > 1 {
			step(t, again)
		}
	}
	if a, b, c := one.Digest(), other.Digest(), again.Digest(); a != b || a != c {
		t.Errorf("%s: digests %.8s, %.8s and resumed %.8s", name, a, b, c)
	}
}
