package sim

import (
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// apart is a small world of which a quarter of the users takes no part.
func apart(t testing.TB, protocol string) (*data.Split, Options) {
	p, err := data.ProtocolNamed(protocol)
	if err != nil {
		t.Fatal(err)
	}
	p.NewUserShare = 0.25
	s, err := data.NewSplit(world(t, "users=40,items=90,mean-rows=12").Generate(), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := defaults()
	o.Rounds, o.NewUsers = 4, 0.25
	return s, o
}

// guests are a method that folds users in, two that need a visit (of which one serves
// tuned rows), and one that is trained in one place.
func guests(t testing.TB) map[string]method.Method {
	out := map[string]method.Method{"ials-next": &methods.IALSNext{}, "fedmf": &methods.FedMF{}, "mf": &methods.MF{}}
	for _, m := range out {
		configure(t, m, "dim", "8")
	}
	out["pfedrec"] = pfedrec(t, "dim", "8")
	return out
}

func TestNewUsersDoNotTrainAndAreEvaluatedSeparately(t *testing.T) {
	for name, m := range guests(t) {
		s, o := apart(t, "deployed")
		r := start(t, m, s, o, 2)
		for !r.Done() {
			if e := step(t, r); e.Devices+e.Idle != 30 {
				t.Errorf("%s: %d devices take part, want 30", name, e.Devices+e.Idle)
			}
		}
		for u, isNew := range s.NewUsers() {
			if v := r.fleet.state[u].Visits; isNew && v > 0 {
				t.Errorf("%s: user %d is new and was visited %d times", name, u, v)
			}
			if measured := r.Best.Test[u].Above != metrics.NotRanked; measured != (!isNew || name != "mf") {
				t.Errorf("%s: user %d, new: %v, is measured: %v", name, u, isNew, measured)
			}
		}
		_, test := r.Best.Summaries(metrics.Against, s.Items())
		_, fresh := r.Best.NewUsers(metrics.Against, s.Items())
		want := 10.0
		if name == "mf" {
			want = 0
		}
		if test.Sampled["users"] != 30 || fresh.Sampled["users"] != want || fresh.Full["users"] != want {
			t.Errorf("%s: %g users are reported, and %g new ones; want 30 and %g", name, test.Sampled["users"],
				fresh.Sampled["users"], want)
		}
	}
}

// What new users do changes nothing that others learn: with other rows for them the
// model has the same bits.
func TestModelDoesNotDependOnNewUsers(t *testing.T) {
	for name, m := range guests(t) {
		s, o := apart(t, "deployed")
		r := start(t, m, s, o, 2)
		set := *s.Source.(*data.Set)
		set.Item = append([]uint32(nil), set.Item...)
		for u, isNew := range s.NewUsers() {
			for i := set.Start[u]; isNew && i < set.Start[u+1]; i++ {
				set.Item[i] = uint32((int(set.Item[i]) + 45) % 90)
			}
		}
		other, err := data.NewSplit(&set, s.Protocol, 1)
		if err != nil {
			t.Fatal(err)
		}
		r2 := start(t, guests(t)[name], other, o, 2)
		for !r.Done() {
			step(t, r)
			step(t, r2)
		}
		for i := range r.engine.Value {
			for k, x := range r.engine.Value[i] {
				if r2.engine.Value[i][k] != x {
					t.Fatalf("%s: slot %s differs at %d: %g and %g", name, r.fleet.plan.Slots[i].Name, k, x,
						r2.engine.Value[i][k])
				}
			}
		}
		for u, isNew := range s.NewUsers() {
			if !isNew && r.Best.Test[u] != r2.Best.Test[u] {
				t.Errorf("%s: user %d took part and has another place: %v and %v", name, u, r.Best.Test[u],
					r2.Best.Test[u])
			}
		}
	}
}

// A newcomer's place is found again by hand: its device is readied on its history, and
// the scores are counted one by one.
func TestNewUserRankMatchesItsPreparedDevice(t *testing.T) {
	s, o := apart(t, "deployed")
	r := start(t, guests(t)["ials-next"], s, o, 2)
	for !r.Done() {
		step(t, r)
	}
	k := local.NewWorker(r.fleet.mem, 0)
	all := make([]float32, s.Items())
	var p data.Part
	for u, isNew := range s.NewUsers() {
		if !isNew {
			continue
		}
		s.User(u, &p)
		st := r.fleet.mem.NewState(nil)
		k.Prepare(&st, &local.Task{Device: uint32(u), Round: o.Rounds - 1, Train: p.Train, Rows: p.Rows})
		k.ScoreAll(all)
		want := metrics.Rank{}
		for _, i := range p.Candidates[1] {
			switch z := all[i]; {
			case z > all[p.Test]:
				want.Above++
			case z == all[p.Test]:
				want.Ties++
			}
		}
		if got := r.Best.Test[u]; got != want {
			t.Errorf("user %d: %+v, want %+v", u, got, want)
		}
	}
}

func TestHeldOutUsersHaveTheSameBitsForAnyWorkerCountAndAfterAResume(t *testing.T) {
	for name := range guests(t) {
		s, o := apart(t, "temporal")
		one, three, again := start(t, guests(t)[name], s, o, 1), start(t, guests(t)[name], s, o, 3),
			start(t, guests(t)[name], s, o, 2)
		sameBits(t, name, one, three, again)
	}
}

func TestNewUsersRequireASplitThatHoldsThemOut(t *testing.T) {
	s, o := apart(t, "deployed")
	o.NewUsers = 0
	if _, err := New(pfedrec(t), s, o, 1, 1); err == nil {
		t.Error("a split with new users is taken by a run without them")
	}
	p, err := data.ProtocolNamed("privrec")
	if err != nil {
		t.Fatal(err)
	}
	p.NewUserShare = 0.1
	if _, err := data.NewSplit(world(t, "users=40,items=90,mean-rows=12").Generate(), p, 1); err == nil {
		t.Error("users are held out twice")
	}
}
