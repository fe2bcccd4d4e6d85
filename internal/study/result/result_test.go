package result

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func TestVerdictHoldsBothMetrics(t *testing.T) {
	for _, c := range []struct {
		g     Gap
		seeds int
		want  string
	}{
		{Gap{0.015, -0.015}, 3, "within 1.5 points"},
		{Gap{0.0151, 0}, 3, "above the published number: +1.51 points HR@10"},
		{Gap{0, -0.02}, 5, "not reproduced: off by -2.00 points NDCG@10"},
		{Gap{math.NaN(), 0.001}, 1, "within 1.5 points"},
		{Gap{math.NaN(), math.NaN()}, 1, "nothing to compare"},
		{Gap{0.0197, 0}, 1, "off by +1.97 points with one seed; seeds move HR@10 by about a point, try --seeds 5"},
		{Gap{0, 0.0197}, 1, "off by +1.97 points NDCG@10 with one seed; seeds move HR@10 by about a point, try " +
			"--seeds 5"},
		{Gap{0.0197, -0.03}, 1, "not reproduced: off by +1.97 points HR@10 and -3.00 points NDCG@10"},
	} {
		if got := c.g.Verdict(c.seeds); got != c.want {
			t.Errorf("verdict of %v with %d seeds is %q, want %q", c.g, c.seeds, got, c.want)
		}
	}
}

func TestVerdictRequiresSignificanceAndNamesItsMetric(t *testing.T) {
	p := func(d, holm float64) PairedTest { return PairedTest{Difference: d, P: holm, PHolm: holm} }
	for _, c := range []struct {
		hr, ndcg PairedTest
		want     string
	}{
		{p(0.1, 0.0099), p(0.1, 0.0099), "better than %s"},
		{p(0.1, 0.01), p(0.1, 0.02), "no better than %s"},
		{p(-0.1, 0.001), p(-0.1, 0.001), "worse than %s"},
		{p(0.1, 0.001), p(0.1, 0.5), "better than %s by HR@10 alone"},
		{p(-0.1, 0.5), p(0.1, 0.001), "better than %s by NDCG@10 alone"},
		{p(0.1, 0.5), p(-0.1, 0.001), "no better than %s, and worse by NDCG@10"},
		{p(0.1, 0.001), p(-0.1, 0.001), "better than %s by HR@10, worse by NDCG@10"},
		{p(-0.1, 0.001), p(0.1, 0.001), "better than %s by NDCG@10, worse by HR@10"},
	} {
		v := &Versus{Sampled: map[string]PairedTest{"hr@10": c.hr, "ndcg@10": c.ndcg}}
		if got := v.Phrase(); got != c.want {
			t.Errorf("HR %+v, NDCG %+v: %q, want %q", c.hr, c.ndcg, got, c.want)
		}
	}
}

func TestUserScoresAreReadAsWritten(t *testing.T) {
	want := &UserScores{Users: []string{"a \"quoted\",\nid"}, Of: map[string]*[4][]float32{}}
	for u := 1; u < 20; u++ {
		want.Users = append(want.Users, fmt.Sprint(u))
	}
	g := rng.New(rng.Test, 3)
	for _, of := range []string{methodKey, "popularity", "ease"} {
		var columns [4][]float32
		for m := range columns {
			for range want.Users {
				columns[m] = append(columns[m], float32(g.Uint32n(1000))/1000)
			}
		}
		columns[3][2] = float32(math.NaN())
		want.Of[of] = &columns
	}
	var b bytes.Buffer
	if err := WriteUserScores(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := readUserScores(&b)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := WriteUserScores(&again, got); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := WriteUserScores(&b, want); err != nil || again.String() != b.String() ||
		!reflect.DeepEqual(got.Users, want.Users) {
		t.Errorf("read\n%s\nwant\n%s", again.String(), b.String())
	}
	for text, want := range map[string]string{
		"":                                  ":1: expected a header",
		"user,x\n":                          `column "x" is not a metric`,
		"user,method.sampled.hr@10\n1,2\n":  ":2: method.sampled.hr@10 is \"2\", expected a fraction",
		"user,method.sampled.hr@10\n1\n":    "wrong number of fields",
		"user,method.sampled.hr@10\n1,.5\n": "has 0 values for 1 users",
	} {
		if _, err := readUserScores(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzUserScores holds that any file gives an error or users that can be tested.
func FuzzUserScores(f *testing.F) {
	f.Add([]byte("user,method.sampled.hr@10,method.sampled.ndcg@10,method.full.hr@10,method.full.ndcg@10," +
		"popularity.sampled.hr@10,popularity.sampled.ndcg@10,popularity.full.hr@10,popularity.full.ndcg@10\n" +
		"1,1,0.5,,,0,0,,\n2,0,0,,,1,0.5,,\n"))
	f.Add([]byte("user,method.sampled.hr@10\n1,\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readUserScores(bytes.NewReader(in))
		if err != nil {
			return
		}
		for k, v := range VersusReferences([]*Result{{UserScores: got}}) {
			if err := v.check(); err != nil {
				t.Errorf("%s: %v", k, err)
			}
		}
	})
}

// A few users who gain much can lift the mean over many who lose a little: the test is
// about the ranks, so it shows neither better nor worse.
func TestVerdictIsMixedIfMeanAndRanksDisagree(t *testing.T) {
	for _, flip := range []float32{1, -1} {
		r := &Run{Result: new(Result)}
		own, ref := new([4][]float32), new([4][]float32)
		x, y := map[string]float64{}, map[string]float64{}
		for u := range 1000 {
			gain := flip
			if u >= 200 {
				gain = -flip / 10
			}
			for m := range own {
				own[m], ref[m] = append(own[m], gain), append(ref[m], 0)
			}
			x[fmt.Sprint(u)], y[fmt.Sprint(u)] = 0, float64(gain)
		}
		b := &UserScores{Of: map[string]*[4][]float32{methodKey: own, "popularity": ref}}
		for u := range 1000 {
			b.Users = append(b.Users, fmt.Sprint(u))
		}
		r.Result.UserScores = b
		v := VersusReferences([]*Result{r.Result})["popularity"]
		hr := v.Sampled["hr@10"]
		if v.Verdict != "mixed against popularity (mean and ranks disagree)" || hr.Sign() != 0 || hr.PHolm > 1e-10 ||
			hr.Ranks != -int(flip) {
			t.Errorf("the verdict is %q of %+v", v.Verdict, hr)
		}
		c, err := compareUsers(x, y)
		if err != nil {
			t.Fatal(err)
		}
		cs := []Comparison{c}
		if AdjustComparisons(cs); cs[0].Verdict != Mixed {
			t.Errorf("the verdict is %q of %+v", cs[0].Verdict, cs[0])
		}
	}
}

func TestCorruptFiguresAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema_version":2}`: "schema_version is 2",
		`{"schema_version":1,"items":{"items":[{}],"maps":[{"xy":[]}]}}`:                    "has 0 points, expected 1",
		`{"schema_version":1,"landscape":{"grids":[{"mode":"x","axis":[1],"loss":[[1]]}]}}`: "from 2 to",
		`{"schema_version":1,"landscape":{"grids":[{"axis":[1,2],"loss":[[1],[2]]}]}}`:      "a row of 1",
		`{"schema_version":1,"popularity":{"data":[1],"recommended":[]}}`:                   "expected equal numbers",
		`{"schema_version":1,`: "unexpected end",
	} {
		_, err := readFigures(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one that says %q", text, err, want)
		}
	}
}
