package secagg_test

import (
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/privacy/secagg"
)

// Ten devices each have a small vector. Two leave after they have dealt their
// shares; the sum is that of the other eight, and the server saw no vector.
func ExampleSession() {
	params, err := secagg.Plan(10, 3, 100, secagg.Risk{Corrupt: 0.1, Dropped: 0.3})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := secagg.Session{
		Round: secagg.Round{Params: params, Number: 1},
		Vector: func(id uint32, dst []int32) error {
			copy(dst, []int32{50, -25, int32(id)})
			return nil
		},
		Leave: func(id uint32) int {
			if id < 2 {
				return 2
			}
			return 4
		},
	}
	r, err := s.Run()
	if errors.Is(err, secagg.ErrTooFew) {
		fmt.Println("try again with other devices")
		return
	} else if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("modulus 2^%d, %d devices: %d\n", params.Bits, r.Survivors.Count(), r.Sum)
	// Output: modulus 2^11, 8 devices: [400 -200 44]
}
