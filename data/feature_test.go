package data

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/internal/base/rows"
)

const apps = "user\titem\tcnt\tdaytime\tweekday\tisweekend\thomework\tcost\tweather\tcountry\tcity\n" +
	"7\t1\t4\tmorning\tmonday\tworkday\thome\tfree\tsunny\tSpain\t0\n" +
	"7\t2\t1\tnight\tmonday\tworkday\thome\tpaid\tsunny\tSpain\t0\n" +
	"8\t1\t2\tnight\tsunday\tweekend\twork\tfree\trainy\tPeru\t9\n" +
	"8\t3\t1\tmorning\tsunday\tweekend\twork\tfree\trainy\tPeru\t9\n" +
	"9\t4\t1\tnoon\tsunday\tweekend\twork\tfree\trainy\tPeru\t9\n"

func openApps(t *testing.T, opt Options) *Set {
	t.Helper()
	s, err := Open(fstest.MapFS{"frappe/frappe.csv": {Data: []byte(apps)}}, "frappe", opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFrappeHasTheContextOfEveryRowAndTheCostOfEveryApp(t *testing.T) {
	s := openApps(t, Options{})
	f := &s.Meta.Features
	var names []string
	for _, c := range f.Row {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "daytime weekday isweekend homework weather country city" {
		t.Errorf("the context is %s", got)
	}
	// Rows of a user are newest first in the file: night, morning | morning, night.
	if day := f.Row[0]; day.Card != 3 || !slices.Equal(day.Code, []uint32{1, 0, 0, 1, 2}) {
		t.Errorf("the daytimes are %+v", day)
	}
	if len(f.Item) != 1 || f.Item[0].Name != "cost" || !slices.Equal(f.Item[0].Code, []uint32{0, 1, 0, 0}) {
		t.Errorf("the features of apps are %+v", f.Item)
	}
	if err := f.Check(s.Users(), s.Items(), len(s.Item)); err != nil {
		t.Error(err)
	}
}

func TestFilterKeepsTheContextOfRemainingRows(t *testing.T) {
	s := openApps(t, Options{MinRows: 2})
	f := &s.Meta.Features
	if day := f.Row[0]; day.Card != 2 || !slices.Equal(day.Code, []uint32{1, 0, 0, 1}) || s.Users() != 2 {
		t.Errorf("of two users the daytimes are %+v", day)
	}
	if err := f.Check(2, 3, 4); err != nil {
		t.Error(err)
	}
}

func TestAgesComeInBands(t *testing.T) {
	for age, want := range map[string]string{
		"1": "1", "7": "1", "17": "1", "18": "18", "24": "18", "33": "25",
		"49": "45", "55": "50", "73": "56", "": "",
	} {
		if got := ageBand(age); got != want {
			t.Errorf("age %q is in band %q, want %q", age, got, want)
		}
	}
}

func TestGenresAreOneColumnOfSets(t *testing.T) {
	c := genreColumns([][]string{{"Drama", "War"}, nil, {"War"}})
	if len(c) != 1 || c[0].Card != 2 || !slices.Equal(c[0].Code, []uint32{0, 1, 1}) ||
		!slices.Equal(c[0].Start, []uint32{0, 2, 2, 3}) {
		t.Errorf("the genres are %+v", c)
	}
	if genreColumns(make([][]string, 3)) != nil {
		t.Error("no genres make a column")
	}
}

// The oracle counts what no held-out row may add to.
func TestUseIsCountedInTrainRowsOnly(t *testing.T) {
	src := mustWorld(t, "users=50,items=200").Generate()
	src.Meta.CountsUsage = true
	for _, name := range []string{"deployed", "privrec"} {
		s, err := NewSplit(src, mustProtocol(t, name), 3)
		if err != nil {
			t.Fatal(err)
		}
		sum, most := make([]float64, src.NumItems), 0.0
		for u := range src.Users() {
			own := src.Item[src.Start[u]:src.Start[u+1]]
			if name == "deployed" {
				own = own[:len(own)-2]
			} else if s.HeldOut()[u] {
				continue
			}
			for _, i := range own {
				sum[i]++
				most = max(most, sum[i])
			}
		}
		f, err := s.Features()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(f.Item, func(c rows.Column) bool { return c.Name == "count" })
		for i, n := range sum {
			if got, want := f.Item[at].Value[i], float32(rng.Log(1+n)/rng.Log(1+most)); got != want {
				t.Fatalf("%s: item %d counts %g, want %g", name, i, got, want)
			}
		}
		if len(src.Meta.Features.Item) != 1 {
			t.Error("counting for a split has changed the data")
		}
	}
}

func TestNewUsersAreAFifthAndHalved(t *testing.T) {
	src := mustWorld(t, "users=100,items=300").Generate()
	src.Meta.Features.Row = []rows.Column{{Name: "n", Card: len(src.Item), Code: make([]uint32, len(src.Item))}}
	s, err := NewSplit(src, mustProtocol(t, "privrec"), 5)
	if err != nil {
		t.Fatal(err)
	}
	var p, again Part
	out := 0
	for u := range s.Users() {
		s.User(u, &p)
		all := src.Item[src.Start[u]:src.Start[u+1]]
		if p.Valid != None || p.Test != None {
			t.Errorf("user %d has a validation item %d and a test item %d", u, p.Valid, p.Test)
		}
		for k, row := range p.Rows {
			if src.Item[row] != p.Train[k] || int(row) < src.Start[u] || int(row) >= src.Start[u+1] {
				t.Fatalf("user %d: train item %d has row %d", u, p.Train[k], row)
			}
		}
		if !p.HeldOut {
			if !slices.Equal(p.Train, all) || p.Query != nil {
				t.Errorf("user %d takes part with %d of %d rows, and %d are ranked", u, len(p.Train), len(all),
					len(p.Query))
			}
			continue
		}
		out++
		if len(p.Train) != len(all)/2 || len(p.Train)+len(p.Query) != len(all) {
			t.Errorf("user %d of %d rows has %d and %d", u, len(all), len(p.Train), len(p.Query))
		}
		both := slices.Sorted(slices.Values(slices.Concat(p.Rows, p.QueryRows)))
		for k, row := range both {
			if int(row) != src.Start[u]+k {
				t.Fatalf("user %d: the halves hold rows %v", u, both)
			}
		}
		if s.User(u, &again); !slices.Equal(p.Query, again.Query) {
			t.Errorf("user %d is halved in two ways", u)
		}
	}
	if out != 20 {
		t.Errorf("%d of 100 users are held out, want 20", out)
	}
}
