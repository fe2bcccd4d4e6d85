package account

import (
	"fmt"
	"math"
)

// AuditP is an upper bound on the probability of at least this many right guesses if the
// mechanism is (eps, delta)-private. Each of m canaries is in or out by a fair coin; the
// auditor guesses some of them (Steinke, Nasr and Jagielski 2023, theorem 5.2):
// P[W >= v] + 2·m·δ·max_i P[v-i <= W < v]/i, W ~ Bin(r, e^ε/(1+e^ε)). The adjacency is add-remove.
func AuditP(canaries, guesses, right int, eps, delta float64) (float64, error) {
	if err := checkAudit(canaries, guesses, right); err != nil {
		return 0, err
	}
	if err := checkDelta(delta); err != nil {
		return 0, err
	}
	if math.IsNaN(eps) || eps < 0 {
		return 0, fmt.Errorf("epsilon=%v: must be 0 or more", eps)
	}
	return auditP(canaries, guesses, right, eps, delta), nil
}

// AuditLower is the largest epsilon that the guesses refute at the given confidence, or 0.
// It is never +Inf: r guesses cannot show more than about ln r.
func AuditLower(canaries, guesses, right int, delta, confidence float64) (float64, error) {
	if err := checkAudit(canaries, guesses, right); err != nil {
		return 0, err
	}
	if err := checkDelta(delta); err != nil {
		return 0, err
	}
	if !(confidence > 0 && confidence < 1) {
		return 0, fmt.Errorf("confidence=%v: must be between 0 and 1, such as 0.95", confidence)
	}
	refuted := func(eps float64) bool { return auditP(canaries, guesses, right, eps, delta) <= 1-confidence }
	if !refuted(0) {
		return 0, nil
	}
	lo, hi := 0.0, 1.0
	for refuted(hi) && hi < 1024 {
		lo, hi = hi, 2*hi
	}
	for range 60 {
		if mid := (lo + hi) / 2; refuted(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}

func checkAudit(canaries, guesses, right int) error {
	if canaries < 0 || guesses < 0 || right < 0 || guesses > canaries || right > guesses {
		return fmt.Errorf("%d right of %d guesses on %d canaries: must be right <= guesses <= canaries, none "+
			"of them negative", right, guesses, canaries)
	}
	return nil
}

func auditP(m, r, v int, eps, delta float64) float64 {
	hit, miss := -softplus(-eps), -softplus(eps) // ln of p and 1-p
	mass := func(k int) float64 {
		x := float64(k) * hit
		if k < r { // 0·Inf has no place here
			x += float64(r-k) * miss
		}
		return math.Exp(logChoose(r, k) + x)
	}
	tail := 0.0
	for k := r; k >= v; k-- {
		tail += mass(k)
	}
	worst, near := 0.0, 0.0
	for i := 1; i <= v; i++ {
		near += mass(v - i)
		worst = max(worst, near/float64(i))
	}
	return min(1, tail+2*float64(m)*delta*worst)
}

func logChoose(n, k int) float64 {
	f := func(x int) float64 {
		l, _ := math.Lgamma(float64(x) + 1)
		return l
	}
	return f(n) - f(k) - f(n-k)
}
