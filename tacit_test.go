package tacit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit"
)

const small = "users=120,items=200,mean-rows=25"

func world(t *testing.T) *tacit.Data {
	t.Helper()
	d, err := tacit.Load("world", tacit.Settings{"world": small})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func run(t *testing.T, d *tacit.Data, c tacit.Config) *tacit.Result {
	t.Helper()
	r, err := tacit.Run(context.Background(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWorkersChangeNoResult(t *testing.T) {
	d := world(t)
	c := tacit.Config{Method: "pfedrec", Settings: tacit.Settings{"rounds": "4", "dim": "8"}}
	var rounds []int
	c.Progress = func(r tacit.Round) { rounds = append(rounds, r.Round) }
	c.Workers = 1
	a := run(t, d, c)
	c.Progress, c.Workers = nil, 3
	b := run(t, d, c)
	if fmt.Sprint(a.Sampled, a.Full, a.Round) != fmt.Sprint(b.Sampled, b.Full, b.Round) {
		t.Errorf("1 worker measured %v, 3 workers %v", a.Sampled, b.Sampled)
	}
	if !slices.Equal(rounds, []int{1, 2, 3, 4}) {
		t.Errorf("progress reported rounds %v, expected 1 to 4", rounds)
	}
	for _, user := range []string{"0", "7"} {
		x, err := a.Recommend(user, 5)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Recommend(user, 5)
		if err != nil || !slices.Equal(x, y) || len(x) != 5 {
			t.Errorf("user %s: %v and %v, error %v", user, x, y, err)
		}
	}
}

// The same text as a reader gives the numbers of the file's users and items, and an item
// that a user has is not recommended.
func TestDataFromAReader(t *testing.T) {
	var text strings.Builder
	text.WriteString("user,item,time\n")
	for u := range 30 {
		for k := range 8 {
			fmt.Fprintf(&text, "u%d,i%d,%d\n", u, (u%3*7+k*k)%40, k)
		}
	}
	d, err := tacit.Read(strings.NewReader(text.String()), "clicks", nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.Users() != 30 {
		t.Errorf("read %d users, expected 30", d.Users())
	}
	r := run(t, d, tacit.Config{Method: "ials", Settings: tacit.Settings{"rounds": "2"}})
	if r.Data != "clicks" {
		t.Errorf("the result names the data %q", r.Data)
	}
	all, err := r.Recommend("u3", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != d.Items()-6 { // 8 interactions, two of them held out
		t.Errorf("%d of %d items were recommended; the device trained on 6", len(all), d.Items())
	}
	for k := 1; k < len(all); k++ {
		if all[k].Score > all[k-1].Score {
			t.Fatalf("recommendation %d scores more than the one before", k)
		}
	}
}

func TestItemVectorsAreTheModels(t *testing.T) {
	d := world(t)
	r := run(t, d, tacit.Config{Method: "fedmf", Settings: tacit.Settings{"rounds": "2", "dim": "6"}})
	v, err := r.ItemVectors()
	if err != nil {
		t.Fatal(err)
	}
	if len(v.ID) != d.Items() || v.Dim != 6 || len(v.Values) != 6*d.Items() {
		t.Fatalf("%d vectors of %d numbers, %d in all", len(v.ID), v.Dim, len(v.Values))
	}
	var csv strings.Builder
	if err := v.WriteCSV(&csv); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(csv.String(), "\n"); lines != d.Items()+1 {
		t.Errorf("the CSV has %d lines, expected a header and %d", lines, d.Items())
	}
	if !strings.HasPrefix(csv.String(), "item,x0,x1,x2,x3,x4,x5\n") {
		t.Errorf("the CSV starts with %.40q", csv.String())
	}
}

func TestCompareIsPairedOverUsers(t *testing.T) {
	d := world(t)
	a := run(t, d, tacit.Config{Method: "fedmf", Settings: tacit.Settings{"rounds": "1"}})
	b := run(t, d, tacit.Config{Method: "ials", Settings: tacit.Settings{"rounds": "5"}})
	c, err := tacit.Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	want := b.Sampled["ndcg@10"] - a.Sampled["ndcg@10"]
	if diff := c.Difference - want; diff > 1e-6 || diff < -1e-6 || c.Users != 120 || !(c.P > 0 && c.P <= 1) {
		t.Errorf("%+v, expected a difference of %g over 120 users", c, want)
	}
	if same, err := tacit.Compare(a, a); err != nil || same.Difference != 0 || same.P != 1 {
		t.Errorf("a result compared with itself: %+v, %v", same, err)
	}
	other := run(t, d, tacit.Config{Method: "fedmf", Seed: 2, Settings: tacit.Settings{"rounds": "1"}})
	if _, err := tacit.Compare(a, other); err == nil {
		t.Error("results with different seeds were compared")
	}
}

func TestPrivacyIsReported(t *testing.T) {
	r := run(t, world(t), tacit.Config{Method: "fedmf", Settings: tacit.Settings{
		"rounds": "2", "dim": "4", "dp": "epsilon=5,delta=1e-3",
	}})
	if !(r.Epsilon > 0 && r.Epsilon <= 5) || r.Delta != 1e-3 {
		t.Errorf("spent epsilon %g at delta %g, the budget was 5 at 1e-3", r.Epsilon, r.Delta)
	}
}

func TestErrorsNameTheNextStep(t *testing.T) {
	for name, want := range map[string]string{
		"ml-100l":          "did you mean ml-100k",
		"no/such/file.csv": "tacit data list",
	} {
		if _, err := tacit.Load(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", name, err, want)
		}
	}
	d := world(t)
	for want, c := range map[string]tacit.Config{
		"did you mean \"pfedrec\"": {Method: "pfedrek"},
		"deployed":                 {Protocol: "honest"},
		"rounds":                   {Settings: tacit.Settings{"rounds": "0"}},
		"belongs to the data":      {Settings: tacit.Settings{"world": "users=99"}},
		"once per seed":            {Settings: tacit.Settings{"seeds": "3"}},
		"lr":                       {Method: "fedmf", Settings: tacit.Settings{"lrr": "1"}},
	} {
		if _, err := tacit.Run(context.Background(), d, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %q", c, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tacit.Run(ctx, d, tacit.Config{Method: "fedmf"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
	r := run(t, d, tacit.Config{Method: "fedmf", Settings: tacit.Settings{"rounds": "1"}})
	if _, err := r.Recommend("nobody", 3); err == nil || !strings.Contains(err.Error(), `unknown user "nobody"`) {
		t.Errorf("an unknown user: %v", err)
	}
	if _, err := tacit.Read(nil, "x", nil); err == nil {
		t.Error("nil was read")
	}
	if _, err := tacit.Run(context.Background(), nil, tacit.Config{}); err == nil {
		t.Error("a run without data succeeded")
	}
	if _, err := new(tacit.Result).Recommend("1", 1); err == nil {
		t.Error("an empty result recommends")
	}
	if _, err := new(tacit.Result).ItemVectors(); err == nil {
		t.Error("an empty result has vectors")
	}
	if _, err := tacit.Compare(r, nil); err == nil {
		t.Error("a result was compared with nothing")
	}
	if _, err := r.Recommend("1", 0); err == nil {
		t.Error("0 recommendations were returned")
	}
	local := run(t, d, tacit.Config{Method: "local", Settings: tacit.Settings{"rounds": "1"}})
	if _, err := local.ItemVectors(); err == nil {
		t.Error("local has shared item vectors")
	}
}

func TestMethodsAndProtocolsAreListed(t *testing.T) {
	if m := tacit.Methods(); !slices.Contains(m, "tacit") || !slices.Contains(m, "pfedrec") {
		t.Errorf("methods: %v", m)
	}
	if p := tacit.Protocols(); !slices.Contains(p, "deployed") || !slices.Contains(p, "paper") {
		t.Errorf("protocols: %v", p)
	}
}
