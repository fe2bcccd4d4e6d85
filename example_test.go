package tacit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tacit-rec/tacit"
)

// Train a federated recommender on the built-in data, and recommend for one user.
func Example() {
	d, err := tacit.Load("world", tacit.Settings{"world": "users=200,items=400,mean-rows=30"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := tacit.Run(context.Background(), d, tacit.Config{Method: "ials", Settings: tacit.Settings{"rounds": "5"}})
	if err != nil {
		log.Fatal(err)
	}
	top, err := r.Recommend("7", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s on %s, protocol %s: HR@10 %.2f\n", r.Method, r.Data, r.Protocol, r.Sampled["hr@10"])
	fmt.Println("best item:", top[0].Title)
	// Output:
	// ials on world, protocol deployed: HR@10 0.49
	// best item: The Borrowed Silence (1998)
}
