package account

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// vectors reads a file of test vectors, which may not be handed on with this code.
func vectors(t *testing.T, name string, into any) {
	t.Helper()
	dir := os.Getenv("TACIT_VECTORS")
	if data := os.Getenv("TACIT_DATA"); dir == "" && data != "" {
		dir = filepath.Join(data, "..", "vectors")
	}
	if dir == "" {
		t.Skip("set TACIT_VECTORS to the folder that holds " + name + " to run this")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		t.Skipf("%s is not there; set TACIT_VECTORS to the folder that holds %s to run this", filepath.Join(dir, name),
			name)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// maybe is a number, "inf" or null.
type maybe float64

func (m *maybe) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` {
		*m = maybe(math.Inf(1))
		return nil
	}
	if string(b) == "null" {
		*m = maybe(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(m))
}

type optimum struct{ Eps, Order maybe }

type conversions struct{ Classic, Improved optimum }

type vectorCase struct {
	ID, Kind   string
	Q, Sigma   float64
	Steps      int64
	Delta      float64
	Orders     []float64          `json:"probe_orders"`
	PerStep    map[string]any     `json:"rdp_per_step"`
	Total      map[string][]maybe `json:"rdp_total"`
	Mechanisms []struct {
		Type, Note string
		Q, Sigma   float64
		Sigmas     []float64
		Scale      float64 `json:"scale_over_l1_sensitivity"`
		Eps, Rho   float64
		Steps      int64
	}
	Eps struct {
		Integer  conversions                               `json:"integer_orders_2_256"`
		Fixed    struct{ Theorem9, Theorem27 conversions } `json:"integer_orders_2_64"`
		Default  conversions                               `json:"default_orders"`
		Accurate *conversions                              `json:"default_orders_accurate"`
		PLD      *struct{ Eps float64 }                    `json:"pld_pessimistic"`
	}
}

func (c vectorCase) perStep(t *testing.T, name string) []float64 {
	t.Helper()
	list, ok := c.PerStep[name].([]any)
	if !ok {
		t.Fatalf("%s has no %s", c.ID, name)
	}
	out := make([]float64, len(list))
	for i, v := range list {
		out[i], ok = v.(float64)
		if !ok {
			out[i] = math.Inf(1)
		}
	}
	return out
}

// events are those of the case under the adjacency of its kind.
func (c vectorCase) events(t *testing.T) []Event {
	t.Helper()
	switch c.Kind {
	case "poisson_sgm":
		return []Event{{
			Mechanism: Gaussian, Adjacency: ZeroOut, Sampler: Poisson, Q: c.Q, Noise: c.Sigma,
			Rounds: c.Steps,
		}}
	case "wor_gaussian":
		return []Event{{
			Mechanism: Gaussian, Adjacency: ReplaceOne, Sampler: WithoutReplacement, Q: c.Q,
			Noise: c.Sigma, Rounds: c.Steps,
		}}
	}
	var out []Event
	for _, m := range c.Mechanisms {
		e := Event{Adjacency: AddRemove, Sampler: None, Rounds: m.Steps}
		switch m.Type {
		case "gaussian":
			e.Mechanism, e.Noise = Gaussian, m.Sigma
		case "laplace":
			e.Mechanism, e.Noise = Laplace, m.Scale
		case "pure_dp":
			e.Mechanism, e.Epsilon = Pure, m.Eps
		case "zcdp":
			e.Mechanism, e.Rho = ZCDP, m.Rho
		case "poisson_sgm":
			e.Mechanism, e.Sampler, e.Q, e.Noise = Gaussian, Poisson, m.Q, m.Sigma
		case "poisson_joint":
			e.Mechanism, e.Sampler, e.Q, e.Noise = Gaussian, Poisson, m.Q, Joint(m.Sigmas...)
		default:
			t.Fatalf("%s: unknown mechanism %q", c.ID, m.Type)
		}
		out = append(out, e)
	}
	return out
}

type vectorFile struct {
	Orders []float64 `json:"default_orders"`
	Cases  []vectorCase
}

// worst keeps the largest error of a test, for its log.
type worst struct {
	t    *testing.T
	what string
	err  float64
	id   string
}

// near fails where got is off by more than rel of want, and more than abs.
func (w *worst) near(id string, got, want, rel, abs float64) {
	w.t.Helper()
	if got == want {
		return
	}
	diff := math.Abs(got - want)
	if e := diff / math.Abs(want); (e > w.err) && diff > abs {
		w.err, w.id = e, id
	}
	if !(diff <= rel*math.Abs(want) || diff <= abs) {
		w.t.Errorf("%s: %s is %.17g, want %.17g: off by %.2g", id, w.what, got, want, diff)
	}
}

func (w *worst) log() {
	w.t.Helper()
	w.t.Logf("%s: largest relative error %.2g, at %s", w.what, w.err, w.id)
}

func integers(from, to int) []float64 {
	var out []float64
	for a := from; a <= to; a++ {
		out = append(out, float64(a))
	}
	return out
}

func epsilonOf(t *testing.T, delta float64, o Options, events ...Event) Result {
	t.Helper()
	r, err := Epsilon(delta, o, events...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRDPIsThatOfTheVectors(t *testing.T) {
	var f vectorFile
	vectors(t, "rdp_accountant_public.json", &f)
	whole := &worst{t: t, what: "RDP at integer orders"}
	part := &worst{t: t, what: "RDP at fractional orders"}
	for _, c := range f.Cases {
		if c.Kind == "composition" {
			s := Spent{Options: Options{Orders: c.Orders}}
			for _, e := range c.events(t) {
				if err := s.Spend(e); err != nil {
					t.Fatal(err)
				}
			}
			for i, want := range c.Total["mpmath_exact"] {
				got := 0.0
				for _, e := range s.Events() {
					x, err := e.RDP(c.Orders[i])
					if err != nil {
						t.Fatal(err)
					}
					got += x * float64(e.Rounds)
				}
				whole.near(c.ID, got, float64(want), 1e-9, 1e-18)
			}
			continue
		}
		names := map[int]string{0: "mpmath_exact"}
		if c.Kind == "wor_gaussian" {
			names = map[int]string{9: "theorem9_mpmath", 27: "theorem27_mpmath"}
		}
		for theorem, name := range names {
			e := c.events(t)[0]
			e.Theorem = theorem
			for i, want := range c.perStep(t, name) {
				got, err := e.RDP(c.Orders[i])
				if err != nil {
					t.Fatal(err)
				}
				if a := c.Orders[i]; a == math.Floor(a) {
					whole.near(c.ID, got, want, 1e-9, 1e-18)
				} else {
					part.near(c.ID, got, want, 1e-9, 1e-18)
				}
			}
		}
	}
	whole.log()
	part.log()
}

func TestEpsilonIsThatOfTheVectors(t *testing.T) {
	var f vectorFile
	vectors(t, "rdp_accountant_public.json", &f)
	exact := &worst{t: t, what: "epsilon on integer orders"}
	accurate := &worst{t: t, what: "epsilon on all orders"}
	for _, c := range f.Cases {
		type want struct {
			conversions
			theorem, last int
		}
		wants := []want{{c.Eps.Integer, 0, 256}}
		if c.Kind == "wor_gaussian" {
			wants = []want{{c.Eps.Fixed.Theorem9, 9, 64}, {c.Eps.Fixed.Theorem27, 27, 64}}
		}
		for _, w := range wants {
			events := c.events(t)
			for i := range events {
				events[i].Theorem = w.theorem
			}
			for conv, o := range map[Conversion]optimum{Classic: w.Classic, Improved: w.Improved} {
				r := epsilonOf(t, c.Delta, Options{Conversion: conv, Orders: integers(2, w.last)}, events...)
				exact.near(c.ID, r.Epsilon, float64(o.Eps), 1e-9, 1e-12)
				if r.Order != float64(o.Order) {
					t.Errorf("%s %s: order %v, want %v", c.ID, conv, r.Order, o.Order)
				}
			}
		}
		if c.Kind == "wor_gaussian" {
			continue
		}
		for conv, pair := range map[Conversion][2]optimum{
			Classic:  {c.Eps.Default.Classic, c.accurate().Classic},
			Improved: {c.Eps.Default.Improved, c.accurate().Improved},
		} {
			r := epsilonOf(t, c.Delta, Options{Conversion: conv, Orders: f.Orders}, c.events(t)...)
			if r.Epsilon > float64(pair[0].Eps)+1e-9 {
				t.Errorf("%s %s: epsilon %.12g is above dp_accounting's %.12g", c.ID, conv, r.Epsilon, pair[0].Eps)
			}
			if c.Eps.Accurate != nil {
				accurate.near(c.ID, r.Epsilon, float64(pair[1].Eps), 1e-6, 0)
			}
			if own := epsilonOf(t, c.Delta, Options{Conversion: conv}, c.events(t)...); own.Epsilon > r.Epsilon*(1+
				1e-12) {
				t.Errorf("%s %s: our own orders give %.12g, above %.12g", c.ID, conv, own.Epsilon, r.Epsilon)
			}
		}
	}
	exact.log()
	accurate.log()
}

func (c vectorCase) accurate() conversions {
	if c.Eps.Accurate == nil {
		return conversions{}
	}
	return *c.Eps.Accurate
}

func TestPLDIsNearTheVectors(t *testing.T) {
	var f vectorFile
	vectors(t, "rdp_accountant_public.json", &f)
	most, id := 0.0, ""
	for _, c := range f.Cases {
		if c.Kind == "wor_gaussian" {
			continue
		}
		r, err := Epsilon(c.Delta, Options{Accountant: PLD}, c.events(t)...)
		if c.ID == "c06" {
			if err == nil {
				t.Error("c06: zcdp has no PLD, and none was refused")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		rdp := epsilonOf(t, c.Delta, Options{}, c.events(t)...)
		if r.Epsilon > rdp.Epsilon {
			t.Errorf("%s: PLD %.9g is above RDP %.9g", c.ID, r.Epsilon, rdp.Epsilon)
		}
		if c.Eps.PLD == nil {
			t.Logf("%s: %s %.6f, RDP %.6f", c.ID, r.Accountant, r.Epsilon, rdp.Epsilon)
			continue
		}
		d := r.Epsilon - c.Eps.PLD.Eps
		if math.Abs(d) > math.Abs(most) {
			most, id = d, c.ID
		}
		if math.Abs(d) > 1e-3 {
			t.Errorf("%s: %s gives %.6f, want %.6f within 1e-3", c.ID, r.Accountant, r.Epsilon, c.Eps.PLD.Eps)
		}
	}
	t.Logf("PLD: largest difference %.2g, at %s", most, id)
}
