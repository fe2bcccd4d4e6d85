// Package learn holds the parts that methods are made of: losses, rules, and the
// combinators that make steps of oracles and visits of steps. A part is built
// once per run; building may allocate, running never does.
package learn

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Schedule is a coefficient that may change over rounds and batches. Its text
// forms are "0.1", "tanh:0.1,10" (0.1*tanh(round/10), rounds counted from 0) and
// "decay:0.1,0.97,0.95" (times 0.97 per round and 0.95 per batch of a visit).
type Schedule struct {
	Kind    string // "", "tanh" or "decay"
	V, A, B float32
}

// Const is a coefficient that never changes.
func Const(v float32) Schedule { return Schedule{V: v} }

// At returns the coefficient for the device's current round and batch.
func (s Schedule) At(w *method.Work) float32 {
	switch s.Kind {
	case "tanh":
		// tanh(x) = 2*sigmoid(2x)-1, by the kernel that has the same bits everywhere.
		return float32(s.V * float32(float32(2*vec.Sigmoid(2*float32(w.Round)/s.A))-1))
	case "decay":
		return float32(float32(s.V*power(s.A, w.Round)) * power(s.B, w.Step))
	}
	return s.V
}

// Or is s, unless that is the constant 0: then it is other.
func (s Schedule) Or(other Schedule) Schedule {
	if s == (Schedule{}) {
		return other
	}
	return s
}

// power is a^n by squaring.
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
	case "tanh":
		return []byte("tanh:" + f(s.V) + "," + f(s.A)), nil
	case "decay":
		return []byte("decay:" + f(s.V) + "," + f(s.A) + "," + f(s.B)), nil
	}
	return []byte(f(s.V)), nil
}

func (s *Schedule) UnmarshalText(text []byte) error {
	kind, list, found := strings.Cut(string(text), ":")
	want := map[string]int{"": 1, "tanh": 2, "decay": 3}
	if !found {
		kind, list = "", string(text)
	}
	parts := strings.Split(list, ",")
	var x [3]float32
	if n, ok := want[kind]; !ok || len(parts) != n || found && kind == "" {
		return fmt.Errorf("want a number, tanh:V,K or decay:V,PER_ROUND,PER_BATCH")
	}
	for i, p := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(p), 32)
		if err != nil || v-v != 0 {
			return fmt.Errorf("%q is not a finite number", p)
		}
		x[i] = float32(v)
	}
	if kind == "tanh" && x[1] <= 0 {
		return fmt.Errorf("the K of tanh:V,K must be positive")
	}
	*s = Schedule{kind, x[0], x[1], x[2]}
	return nil
}
