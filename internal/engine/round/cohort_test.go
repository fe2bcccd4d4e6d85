package round

import (
	"math"
	"slices"
	"strconv"
	"testing"
)

// within fails where a statistic that is chi-square distributed with k degrees of
// freedom is beyond Wilson and Hilferty's bound at 4.9 standard deviations: a
// false alarm once in two million seeds, and the seeds are fixed.
func within(t *testing.T, what string, chi, k float64) {
	t.Helper()
	if bound := k * math.Pow(1-2/(9*k)+4.9*math.Sqrt(2/(9*k)), 3); chi > bound {
		t.Errorf("%s: chi-square is %.1f, want at most %.1f", what, chi, bound)
	}
}

func parse(t *testing.T, s string) Cohort {
	t.Helper()
	var c Cohort
	if err := c.UnmarshalText([]byte(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return c
}

func TestCohortsComeBackFromTheirText(t *testing.T) {
	for text, want := range map[string]Cohort{
		"all": {Kind: "all"}, "100": {Kind: "count", Count: 100}, "10%": {Kind: "share", Share: 0.1},
		"0.5%": {Kind: "share", Share: 0.005}, "100%": {Kind: "share", Share: 1}, "poisson:0.1": {
			Kind:  "poisson",
			Share: 0.1,
		},
		"poisson:1": {Kind: "poisson", Share: 1}, "7%": {Kind: "share", Share: 0.07},
		"29%":      {Kind: "share", Share: 0.29},
		"cycle:2%": {Kind: "cycle", Share: 0.02}, "cycle:0.5%": {Kind: "cycle", Share: 0.005},
		"cycle:9": {Kind: "cycle", Count: 9}, "checkin:30/7": {Kind: "checkin", Count: 30, Every: 7},
	} {
		c := parse(t, text)
		if c != want {
			t.Errorf("%s is read as %+v, want %+v", text, c, want)
		}
		if got, err := c.MarshalText(); string(got) != text || err != nil {
			t.Errorf("%s is written as %s, %v", text, got, err)
		}
	}
	if got, _ := (Cohort{}).MarshalText(); string(got) != "all" {
		t.Errorf("the zero value is written as %s, want all", got)
	}
	for text, want := range map[string]bool{"all": true, "100%": false, "5": false, "poisson:1": false} {
		if got := parse(t, text).All(); got != want {
			t.Errorf("%s is everyone in every round: %v, want %v", text, got, want)
		}
	}
}

func TestEveryPercentageIsWrittenAsItWasGiven(t *testing.T) {
	for p := 1; p <= 1000; p++ {
		text := []byte(percent(p))
		var c, back Cohort
		if err := c.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		b, _ := c.MarshalText()
		if err := back.UnmarshalText(b); string(b) != string(text) || err != nil || back != c {
			t.Errorf("%s is written as %s, and comes back as %+v, %v", text, b, back, err)
		}
	}
}

// percent writes p tenths of a percent.
func percent(p int) string { return strconv.FormatFloat(float64(p)/10, 'g', -1, 64) + "%" }

func TestWrongCohortsSayWhatIsWanted(t *testing.T) {
	const want = "must be all, a count, a share such as 10%, poisson:0.1, cycle:100, cycle:2% or checkin:100/20"
	for _, text := range []string{
		"", "none", "0", "-1", "1.5", "%", "0%", "-5%", "101%", "nan%", "poisson:", "poisson:0", "poisson:1.1",
		"poisson:nan", "poisson:-1",
		"cycle:", "cycle:0", "cycle:%", "cycle:0%", "cycle:101%", "cycle:nan%", "cycle:2.5", "ALL", "10 %%",
		"checkin:", "checkin:5", "checkin:/", "checkin:5/", "checkin:0/3", "checkin:5/0", "checkin:-5/3",
		"checkin:5/-3", "checkin:5/3/2",
		"checkin:5/3.5", "checkin:5/1000001",
	} {
		c := Cohort{Kind: "count", Count: 7}
		if err := c.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
		if (c != Cohort{Kind: "count", Count: 7}) {
			t.Errorf("%q is refused and still makes the cohort %+v", text, c)
		}
	}
}

func FuzzCohort(f *testing.F) {
	for _, s := range []string{"all", "10", "7%", "poisson:0.3", "0.1%", "cycle:4", "cycle:3%", "checkin:4/3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c, back Cohort
		if c.UnmarshalText([]byte(text)) != nil {
			return
		}
		b, _ := c.MarshalText()
		if err := back.UnmarshalText(b); err != nil || back.Kind != c.Kind || back.Count != c.Count ||
			back.Every != c.Every || math.Abs(back.Share-c.Share) > 1e-12*c.Share {
			t.Errorf("%q is %+v, written as %s and read as %+v, %v", text, c, b, back, err)
		}
	})
}

func TestCohortsHaveTheirExactSize(t *testing.T) {
	for _, c := range []struct {
		text  string
		users int
		want  int
	}{
		{"all", 50, 50},
		{"all", 0, 0},
		{"10", 50, 10},
		{"50", 50, 50},
		{"80", 50, 50},
		{"1", 1, 1},
		{"10%", 50, 5},
		{"10%", 59, 5},
		{"1%", 50, 1},
		{"100%", 50, 50},
		{"50%", 3, 1},
		{"29%", 100, 29},
		{"7%", 100, 7},
		{"57%", 100, 57},
		{"0.1%", 6040, 6},
		{"58%", 50, 29},
	} {
		k := parse(t, c.text)
		if got := k.Expected(c.users); got != float64(c.want) {
			t.Errorf("%s of %d is %g devices, want %d", c.text, c.users, got, c.want)
		}
		for round := range 20 {
			got := k.Draw(1, round, c.users, nil)
			if len(got) != c.want || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != c.want {
				t.Fatalf("%s of %d in round %d draws %v, want %d devices, ascending", c.text, c.users, round, got,
					c.want)
			}
			if c.want > 0 && int(got[len(got)-1]) >= c.users {
				t.Fatalf("%s of %d draws device %d", c.text, c.users, got[len(got)-1])
			}
		}
	}
	// Every whole percentage of every size is rounded down, never to one less.
	for p := 1; p <= 100; p++ {
		for users := 1; users < 300; users++ {
			k := parse(t, percent(10*p))
			if got, want := int(k.Expected(users)), max(1, p*users/100); got != want {
				t.Fatalf("%d%% of %d is %d devices, want %d", p, users, got, want)
			}
		}
	}
}

func TestDrawAppendsAndIsNamedBySeedAndRound(t *testing.T) {
	for _, text := range []string{"30", "20%", "poisson:0.2", "checkin:30/3"} {
		c := parse(t, text)
		a, again := c.Draw(1, 3, 150, nil), c.Draw(1, 3, 150, []uint32{7})
		if again[0] != 7 || !slices.Equal(again[1:], a) {
			t.Errorf("%s: the same round again is %v, want 7 and %v", text, again, a)
		}
		if slices.Equal(a, c.Draw(1, 4, 150, nil)) || slices.Equal(a, c.Draw(2, 3, 150, nil)) {
			t.Errorf("%s: another round or another seed draws the same cohort", text)
		}
	}
}

func TestEveryDeviceIsDrawnAlike(t *testing.T) {
	const users, need, rounds = 60, 9, 3000
	counts := make([]float64, users)
	for round := range rounds {
		for _, u := range parse(t, "9").Draw(5, round, users, nil) {
			counts[u]++
		}
	}
	// Counts of a draw without replacement: their squares, so scaled, are chi-square.
	p, chi := float64(need)/users, 0.0
	for _, c := range counts {
		chi += (c - rounds*p) * (c - rounds*p) / (rounds * p * (1 - p)) * (users - 1) / users
	}
	within(t, "inclusion of 60 devices", chi, users-1)
	subsets := map[[2]uint32]float64{}
	for round := range rounds {
		d := parse(t, "2").Draw(6, round, 6, nil)
		subsets[[2]uint32{d[0], d[1]}]++
	}
	chi = 0
	for _, c := range subsets {
		chi += (c - rounds/15.0) * (c - rounds/15.0) / (rounds / 15.0)
	}
	if within(t, "pairs of six", chi, 14); len(subsets) != 15 {
		t.Errorf("%d of 15 pairs were drawn", len(subsets))
	}
}

// The size is binomial: five standard deviations are passed by chance once in 1.7
// million seeds, for its mean; its variance has a like bound.
func TestPoissonCohortsHaveTheirMeanAndVariance(t *testing.T) {
	const users, share, rounds = 200, 0.15, 3000
	c := parse(t, "poisson:0.15")
	if got := c.Expected(users); math.Abs(got-users*share) > 1e-9 {
		t.Errorf("the expected size is %g, want %g", got, users*share)
	}
	counts, sum, squares := make([]float64, users), 0.0, 0.0
	for round := range rounds {
		d := c.Draw(7, round, users, nil)
		if !slices.IsSorted(d) {
			t.Fatalf("round %d draws %v, want it ascending", round, d)
		}
		x := float64(len(d)) - users*share
		sum, squares = sum+x, squares+x*x
		for _, u := range d {
			counts[u]++
		}
	}
	variance := users * share * (1 - share)
	if z := sum / math.Sqrt(rounds*variance); math.Abs(z) > 5 {
		t.Errorf("the mean size is %.2f, want %g: %.1f standard deviations off", users*share+sum/rounds, users*share, z)
	}
	if z := (squares/rounds/variance - 1) / math.Sqrt(2.0/rounds); math.Abs(z) > 5 {
		t.Errorf("the variance of the size is %.2f, want %.2f: %.1f standard deviations off", squares/rounds, variance,
			z)
	}
	chi := 0.0
	for _, k := range counts {
		chi += (k - rounds*share) * (k - rounds*share) / (rounds * share * (1 - share))
	}
	within(t, "inclusion of 200 devices", chi, users)
}

// Keyed streams differ by key and by name, and draw cohorts of the right size.
func TestKeyedStreamsDiffer(t *testing.T) {
	c := Cohort{Kind: "count", Count: 20}
	draw := func(key byte, round int) []uint32 {
		return c.DrawFrom(KeyedStreams([32]byte{key}), round, 1000, nil)
	}
	first := draw(1, 0)
	if !slices.Equal(first, draw(1, 0)) || len(first) != 20 || !slices.IsSorted(first) {
		t.Errorf("the cohort is %v, and drawn again %v", first, draw(1, 0))
	}
	for _, other := range [][]uint32{draw(1, 1), draw(2, 0)} { // equal with a chance of 1e-41
		if slices.Equal(first, other) {
			t.Error("another key or round draws the same cohort")
		}
	}
	mean := 0
	for round := range 200 {
		mean += len(Cohort{Kind: "poisson", Share: 0.1}.DrawFrom(KeyedStreams([32]byte{3}), round, 1000, nil))
	}
	if mean < 200*95 || mean > 200*105 { // 15 standard deviations
		t.Errorf("%d devices are drawn in 200 rounds, expected about 20000", mean)
	}
}
