package aggregate

import (
	"math"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

func TestMeansDivideByWhatTheySay(t *testing.T) {
	const stride = 2
	sum := []float32{4, 8, 0, 0, 6, 3, 5, 7} // four rows
	counts := []uint32{4, 0, 2, 1}
	for _, c := range []struct {
		name     string
		mean     Mean
		devices  int
		expected float64
		counts   []uint32
		want     []float32
	}{
		{"per cohort", PerCohort, 4, 16, counts, []float32{1, 2, 0, 0, 1.5, 0.75, 1.25, 1.75}},
		{"per cohort, one device", PerCohort, 1, 16, nil, sum},
		{"per cohort, nobody", PerCohort, 0, 16, nil, sum},
		{"per row", PerRow, 4, 16, counts, []float32{1, 2, 0, 0, 3, 1.5, 5, 7}},
		{"per row of a plain slot", PerRow, 4, 16, nil, []float32{1, 2, 0, 0, 1.5, 0.75, 1.25, 1.75}},
		{"fixed", Fixed, 4, 16, counts, []float32{0.25, 0.5, 0, 0, 0.375, 0.1875, 0.3125, 0.4375}},
		{"fixed, nobody", Fixed, 0, 16, nil, []float32{0.25, 0.5, 0, 0, 0.375, 0.1875, 0.3125, 0.4375}},
	} {
		got := slices.Clone(sum)
		c.mean.Divide(c.devices, c.expected, c.counts, stride, got)
		for i := range got {
			if math.Abs(float64(got[i]-c.want[i])) > 1e-6 {
				t.Errorf("%s: the mean is %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

func TestRulesHaveTextForms(t *testing.T) {
	for text, want := range map[string]Rule{
		"sgd": {"sgd", 1}, "sgd:1": {"sgd", 1}, "sgd:0.5": {"sgd", 0.5}, "adam:0.01": {"adam", 0.01},
		"adam:1e-3": {"adam", 0.001},
	} {
		var r Rule
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%s is read as %+v, %v, want %+v", text, r, err, want)
		}
		b, err := r.MarshalText()
		var back Rule
		if err != nil || back.UnmarshalText(b) != nil || back != want {
			t.Errorf("%s is written as %s, %v, and comes back as %+v", text, b, err, back)
		}
	}
	const forms = "must be sgd, sgd:RATE or adam:RATE"
	for text, want := range map[string]string{
		"": forms, "adam": forms, "yogi:1": forms, "SGD": forms, ":1": forms,
		"sgd:": `rate "": must be a finite number`, "sgd:x": `rate "x": must be a finite number`,
		"adam:nan": `rate "nan": must be a finite number`,
		"adam:inf": `rate "inf": must be a finite number`, "sgd:1:2": `rate "1:2": must be a finite number`,
	} {
		r := Rule{"sgd", 7}
		if err := r.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q\ngot  %v\nwant %s", text, err, want)
		}
		if (r != Rule{"sgd", 7}) {
			t.Errorf("%q is refused and still makes the rule %+v", text, r)
		}
	}
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{"sgd", "sgd:0.5", "adam:1e-3", "adam", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r, back Rule
		if r.UnmarshalText([]byte(text)) != nil {
			return
		}
		b, _ := r.MarshalText()
		if err := back.UnmarshalText(b); err != nil || back != r {
			t.Errorf("%q is %+v, written as %s and read as %+v, %v", text, r, b, back, err)
		}
	})
}

func TestSGDAddsTheChangeTimesItsRate(t *testing.T) {
	value := []float32{1, 2, 3}
	var st State
	Rule{"sgd", 1}.Apply([]float32{0.5, 0, -1}, &st, value)
	Rule{"sgd", 0.5}.Apply([]float32{1, 2, 0}, &st, value)
	if want := []float32{2, 3, 2}; !slices.Equal(value, want) {
		t.Errorf("the value is %v, want %v", value, want)
	}
	if st.M != nil || st.Steps != 0 {
		t.Errorf("averaging remembers %+v, want nothing", st)
	}
}

// The oracle is Reddi et al.'s FedAdam in float64: no bias correction, the second
// moment starting at tau^2. The change is a direction to go, not a gradient.
func TestAdamFollowsItsFormula(t *testing.T) {
	const n, rate, b1, b2, tau = 6, 0.1, 0.9, 0.99, 1e-3
	r := rng.New(rng.Test)
	value, want := make([]float32, n), make([]float64, n)
	var m, v [n]float64
	for i := range v {
		v[i] = tau * tau
	}
	var st State
	for step := 1; step <= 50; step++ {
		change := make([]float32, n)
		for i := range change[:n-1] { // the last is the padding of a row: always 0
			change[i] = float32(r.Norm())
			d := float64(change[i])
			m[i], v[i] = b1*m[i]+(1-b1)*d, b2*v[i]+(1-b2)*d*d
			want[i] += rate * m[i] / (math.Sqrt(v[i]) + tau)
		}
		Rule{"adam", rate}.Apply(change, &st, value)
		for i := range value {
			if math.Abs(float64(value[i])-want[i]) > 1e-5 {
				t.Fatalf("step %d: place %d is %g, want %g", step, i, value[i], want[i])
			}
		}
	}
	if st.Steps != 50 || value[n-1] != 0 {
		t.Errorf("after 50 steps the rule counts %d, and the padding is %g", st.Steps, value[n-1])
	}
}
