package sim_test

import (
	"context"
	"fmt"
	"log"
	"runtime"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// A federation of 200 devices, trained for ten rounds in this process.
func Example() {
	world, err := data.NewWorld(data.WorldConfig{Users: 200, Items: 400, MeanRows: 30, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	protocol, err := data.ProtocolNamed("deployed")
	if err != nil {
		log.Fatal(err)
	}
	split, err := data.NewSplit(world.Generate(), protocol, 1)
	if err != nil {
		log.Fatal(err)
	}
	method, options := &methods.PFedRec{}, sim.Options{}
	param.Defaults(method)
	param.Defaults(&options)
	options.Rounds = 10
	run, err := sim.New(method, split, options, 1, runtime.NumCPU())
	if err != nil {
		log.Fatal(err)
	}
	for !run.Done() {
		if _, err := run.Step(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	_, test := run.Best.Summaries(run.TieRule(), split.Items())
	fmt.Printf("round %d was selected on validation; test HR@10 %.3f\n", run.Selected, test.Sampled["hr@10"])
	// Output:
	// round 10 was selected on validation; test HR@10 0.380
}
