// Package method is the contract between a published method and everything that runs
// it: simulation, coordinator and devices. It declares parameters as slots with scopes,
// and local training in three rings (Oracle, Step, Visit). It runs nothing itself, and a
// method never sees a network, a file or another device.
//
// # The life of a method
//
// A runtime builds a method once and then uses it from many goroutines: a method keeps
// no state. What changes lives in slots. The calls come in this order:
//
//  1. Registry.Lookup finds the entry; Entry.Build returns the method with its default
//     parameters, and package param sets others.
//  2. Check sees that every parameter is within its limits and that they fit together.
//  3. Bind, of a Featured method, returns the method for the columns of this data.
//  4. Slots declares the parameters, and Visit the local training, for a catalogue of a
//     given size. Stateful parts of the visit, such as Adam, add their slots; their
//     Bind learns where these are.
//  5. In each round, Phase and Transfers say what the round does and which slots are
//     transferred. Each device of the cohort downloads the Shared slots, and Visit.Run
//     trains on its samples. A gradient-based method is called with Logits, and then
//     with Back for the same batch. The device sends what Slot.Upload says.
//  6. The coordinator adds the updates up. Update, or the run's server rule, applies
//     the aggregate; PostUpdate may change the values once more. A Central method has
//     no devices: Pass trains it on pooled samples instead.
//  7. To recommend, a device runs Ready with the newest Shared slots, and then Logits
//     with Batch.Inference set. The result of Ready is used for scoring and then
//     discarded.
//
// Logits, Back, Visit.Run and everything that they call run in the innermost loop: they
// take scratch memory from Work and allocate nothing.
//
// # Optional interfaces
//
// A method implements Method, and any of Learner, Headed, Linear, Ready, Featured, Updater,
// EmptyUpdater, PartialUpdater, PostUpdater, PopularityRanker, Phased, PhasedSlots, InPasses,
// BudgetWeighter, FinalRound, Central and Checker. A runtime finds them with As. Guard
// each with a line such as
//
//	var _ method.Phased = (*MyMethod)(nil)
//
// The conformance suite (package conform) rejects methods whose names or signatures are
// nearly, but not quite, those of an optional interface.
package method
