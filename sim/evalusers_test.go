package sim

import (
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

func TestUserSampleIsText(t *testing.T) {
	for text, want := range map[string]UserSample{"all": AllUsers, "0": AllUsers, "auto": AutoUsers, "17": 17} {
		var o Options
		if err := param.Set(&o, "eval-users", text); err != nil || o.EvalUsers != want {
			t.Errorf("eval-users=%s is %d, %v; want %d", text, o.EvalUsers, err, want)
		}
		back, err := o.EvalUsers.MarshalText()
		if err != nil || text != "0" && string(back) != text {
			t.Errorf("eval-users=%s is written as %s, %v", text, back, err)
		}
	}
	for _, text := range []string{"", "-1", "some", "1.5"} {
		var o Options
		if err := param.Set(&o, "eval-users", text); err == nil {
			t.Errorf("eval-users=%q is accepted", text)
		}
	}
}

// Only full rankings of many users among many items are limited to a sample.
func TestAutoUsersLimitsLargeDataOnly(t *testing.T) {
	of := func(users, items int, protocol string) *data.Split {
		s := small(t, protocol)
		s.Source = sized{s.Source, users, items}
		return s
	}
	for _, c := range []struct {
		users, items int
		protocol     string
		want         int
	}{
		{6040, 3706, "deployed", 0},
		{8000, 12_000, "deployed", 0},
		{40_000, 55_000, "deployed", 7272},
		{1_000_000, 100_000, "deployed", 4000},
		{1_000_000, 1_000_000, "deployed", leastUsers},
		{40_000, 55_000, "paper", 0}, // sampled candidates only
	} {
		if got := AutoUsers.Of(of(c.users, c.items, c.protocol)); got != c.want {
			t.Errorf("%d users, %d items, %s: %d users are evaluated, want %d", c.users, c.items, c.protocol, got,
				c.want)
		}
	}
	large := of(40_000, 55_000, "deployed")
	if AllUsers.Of(large) != 0 || UserSample(12).Of(large) != 12 {
		t.Error("a number of users that is set is changed")
	}
}

// sized is a data set that claims another size.
type sized struct {
	data.Source
	users, items int
}

func (s sized) Users() int { return s.users }
func (s sized) Items() int { return s.items }

// A method that reports its last round is evaluated about 16 times, before the last round on
// fewer users; the result is that of all evaluated users.
func TestProgressIsEvaluatedOnFewerUsers(t *testing.T) {
	s := small(t, "deployed")
	o := defaults()
	o.Rounds = 40
	run := func(progress int) (*Run, []Event) {
		m := &methods.IALS{}
		configure(t, m, "dim", "4", "average", "20")
		r := start(t, m, s, o, 2)
		if !r.progressOnly() {
			t.Fatal("the method does not report its last round")
		}
		if progress > 0 {
			r.eval.progress = draw(r.eval.users(), progress, s.Users(), 1)
		}
		return r, finish(t, r)
	}
	r, events := run(7)
	all, _ := run(0)
	evaluated := 0
	for _, e := range events {
		if e.Valid == nil {
			continue
		}
		evaluated++
		want := 7
		if e.Round == o.Rounds {
			want = metrics.Of(all.Best.Valid, metrics.Against).Users
		}
		if got := int(e.Valid.Sampled["users"]); got > want || e.Round == o.Rounds && got != want {
			t.Fatalf("round %d is evaluated on %d users, want %d", e.Round, got, want)
		}
	}
	if evaluated != 20 {
		t.Fatalf("%d of %d rounds are evaluated, want 20", evaluated, o.Rounds)
	}
	for u := range r.Best.Test {
		if r.Best.Test[u] != all.Best.Test[u] || r.Best.TestFull[u] != all.Best.TestFull[u] {
			t.Fatalf("user %d: the result depends on the evaluations before", u)
		}
	}
}
