// Package learn provides the components of methods: losses, optimisers, and functions that build
// steps from oracles and local training from steps. It never talks to a network or a data set. A
// component is built once per run. Building may allocate; running never does.
package learn

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Schedule is a coefficient that may change over rounds and batches. With rounds counted from 0,
// its text forms are
//
//	0.1                  always 0.1
//	tanh:0.1,10          0.1*tanh(round/10)
//	decay:0.1,0.97,0.95  0.1 times 0.97 per round and 0.95 per batch of a local training
//	sin:0.1,10           0.1*(sin(a/10)+1)/2, where a is round-1; 0 in the first round
//	square:0.1,5         alternates between 0.1 and 0 every 5 rounds; 0 in the first round
//	frac:0.1             0.1/(a+1); 0 in the first round
type Schedule struct {
	Kind    string
	V, A, B float32
}

// Const returns a coefficient that never changes.
func Const(v float32) Schedule { return Schedule{V: v} }

// Number returns the value that parameter limits apply to.
func (s Schedule) Number() float64 { return float64(s.V) }

// At returns the coefficient for the device's current round and batch.
func (s Schedule) At(w *method.Work) float32 {
	switch s.Kind {
	case "tanh":
		// tanh(x) = 2*sigmoid(2x)-1, with the kernel that computes the same bits on every platform.
		return float32(s.V * float32(float32(2*vec.Sigmoid(2*float32(w.Round)/s.A))-1))
	case "decay":
		return float32(float32(s.V*power(s.A, w.Round)) * power(s.B, w.Step))
	case "sin", "square", "frac":
		if w.Round == 0 {
			return 0
		}
		return float32(s.V * s.wave(w.Round-1))
	}
	return s.V
}

// wave returns the factor of round a, counted from 0.
func (s Schedule) wave(a int) float32 {
	switch {
	case s.Kind == "sin":
		return float32((sine(float64(a)/float64(s.A)) + 1) / 2)
	case s.Kind == "frac":
		return 1 / float32(a+1)
	case a/int(s.A)%2 == 0:
		return 1
	}
	return 0
}

// sine returns the same bits on every platform. math.Sin does not: some compilers fuse its
// multiplications and additions.
func sine(x float64) float64 {
	x -= float64(2 * math.Pi * math.Floor(float64(x/(2*math.Pi))+0.5)) // in [-pi, pi]
	square, term, sum := float64(x*x), x, x
	for k := 2; k < 30; k += 2 {
		term = -float64(term*square) / float64(k*(k+1))
		sum += term
	}
	return sum
}

// Or returns s, or other if s is the constant 0.
func (s Schedule) Or(other Schedule) Schedule {
	if s == (Schedule{}) {
		return other
	}
	return s
}

// power returns a^n by squaring.
func power(a float32, n int) float32 {
	p := float32(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= a
		}
		a *= a
	}
	return p
}

func (s Schedule) MarshalText() ([]byte, error) {
	f := func(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }
	switch s.Kind {
	case "tanh", "sin", "square":
		return []byte(s.Kind + ":" + f(s.V) + "," + f(s.A)), nil
	case "frac":
		return []byte("frac:" + f(s.V)), nil
	case "decay":
		return []byte("decay:" + f(s.V) + "," + f(s.A) + "," + f(s.B)), nil
	}
	return []byte(f(s.V)), nil
}

func (s *Schedule) UnmarshalText(text []byte) error {
	kind, list, found := strings.Cut(string(text), ":")
	counts := map[string]int{"": 1, "frac": 1, "tanh": 2, "sin": 2, "square": 2, "decay": 3}
	if !found {
		kind, list = "", string(text)
	}
	parts := strings.Split(list, ",")
	var x [3]float32
	if n, ok := counts[kind]; !ok || len(parts) != n || found && kind == "" {
		return fmt.Errorf("must be a number, tanh:V,K, sin:V,K, square:V,K, frac:V or decay:V,PER_ROUND,PER_BATCH")
	}
	for i, p := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 32)
		if err != nil || v-v != 0 {
			return fmt.Errorf("%q is not a finite number", p)
		}
		x[i] = float32(v)
	}
	if counts[kind] == 2 && !(x[1] > 0 && x[1] < 1e6) {
		return fmt.Errorf("the K of %s:V,K must be above 0 and below 1000000", kind)
	}
	if kind == "square" && x[1] != float32(int(x[1])) {
		return fmt.Errorf("the K of square:V,K must be a whole number of rounds")
	}
	*s = Schedule{kind, x[0], x[1], x[2]}
	return nil
}
