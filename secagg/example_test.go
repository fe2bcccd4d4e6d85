package secagg_test

import (
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/secagg"
)

// Ten devices each have a small vector. Two leave after they have dealt their
// shares; the sum is that of the other eight, and the server saw no vector.
func ExampleSession() {
	z, err := secagg.NewQuantiser(secagg.Quant{Devices: 10, Peak: 1, Bits: 16, Nearest: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	params, err := secagg.Plan(10, 3, z.Max(), secagg.Risk{Corrupt: 0.1, Dropped: 0.3})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := secagg.Session{
		Round: secagg.Round{Params: params, Number: 1},
		Vector: func(id uint32, dst []int32) error {
			return z.Encode([]float32{0.5, -0.25, float32(id) / 10}, nil, dst)
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
	sum := make([]float32, 3)
	z.Decode(r.Sum, sum)
	fmt.Printf("modulus 2^%d, %d devices: %.2f\n", params.Bits, r.Survivors.Count(), sum)
	// Output: modulus 2^20, 8 devices: [4.00 -2.00 4.40]
}
