// Package secagg adds up integer vectors of many devices so that the server sees
// the sum and no single vector, also when devices leave half-way. It holds the
// local steps of Bonawitz et al. (CCS 2017) on the sparse graph of Bell et al.
// (CCS 2020, "SecAgg+") and nothing else: no network, no clock, no files. Who
// carries the messages, and for how long one waits, is the caller's business.
//
// # The steps
//
//	0  a device sends two public keys                    Advert  -> Roster
//	1  it deals shares of its two secrets to neighbours  Mail    -> Mail
//	2  it sends its vector under masks                   Upload  -> Lists
//	3  it opens what the lists allow, and no more        Reveal
//
// A vector x_u travels as x_u + PRG(b_u) +- the masks that u shares with each of
// its neighbours, modulo 2^Bits. The masks of two neighbours cancel. For a device
// that uploaded, neighbours give the shares of b_u; for one that left, those of
// its mask key; never both for one device. Everything is bound to the round: its
// context is a hash of model, number, graph seed and parameters, it stands in
// every message, and every key is derived with it.
//
// # Whom one has to trust
//
// A semi-honest server follows the steps and tries to learn from what it sees,
// together with the devices that collude with it. Against it a vector stays
// hidden among those of all other honest devices in the sum, up to the chance
// that [Plan] was given (2^-40 by default), as long as no more devices collude
// than Plan was told. In small cohorts all devices are neighbours, more than half
// of the shares are needed, and that is an honest majority.
//
// An active server may lie: other lists for other devices, keys of its own,
// devices that are not there. With Risk.Active all devices are neighbours (at most
// 255), more than two thirds of the shares are needed, and devices confirm to each
// other that they were shown the same lists before they open anything. That holds
// against lies about lists while fewer than a third collude.
//
// # What is not covered
//
//   - Identity. Nothing here is signed, so an active server can put its own keys in
//     place of a device's. Whoever carries the messages must sign adverts with a key
//     that devices know, or trust the server with step 0.
//   - Sybils. A server that can invent devices can be the majority.
//   - The graph's seed: on the sparse graph it must not be chosen by someone who
//     also chooses which devices collude.
//   - The sum itself. It tells what a sum tells; of one device it is the vector, so
//     set Params.Least. Noise for differential privacy may be added before masking,
//     as privacy.Bound makes integers of an update, see [Tail].
//   - Lies about one's own value. A device may send any vector, or masks that do not
//     cancel; no one can see this. What is seen, and ends the round or costs only its
//     sender: a changed upload, a wrong share, a key or list of another round.
//
// The rule of the package: what would weaken a device is refused before it sends
// anything. A client answers each step once, and on one list only.
package secagg
