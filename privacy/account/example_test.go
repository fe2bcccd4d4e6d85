package account_test

import (
	"fmt"

	"github.com/tacit-rec/tacit/privacy/account"
)

// What a training of 1000 rounds costs, and the noise for another budget.
func Example() {
	round := account.Event{
		Mechanism: account.Gaussian, Adjacency: account.ZeroOut, Sampler: account.Poisson,
		Q: 0.01, Noise: 1, Rounds: 1,
	}
	var spent account.Spent
	for range 1000 {
		if err := spent.Spend(round); err != nil {
			fmt.Println(err)
			return
		}
	}
	r, err := spent.Epsilon(1e-6)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("epsilon %.3f at delta %g, %s, %s sampling, by %s\n", r.Epsilon, r.Delta, r.Adjacency, r.Sampler,
		r.Accountant)

	noise, r, err := account.Calibrate(1, 1e-6, account.Options{}, func(noise float64) []account.Event {
		round.Noise, round.Rounds = noise, 1000
		return []account.Event{round}
	})
	fmt.Printf("noise multiplier %g for epsilon %.4f, %v\n", noise, r.Epsilon, err)
	// Output:
	// epsilon 2.437 at delta 1e-06, zero-out, poisson sampling, by rdp
	// noise multiplier 1.6596 for epsilon 0.9999, <nil>
}
