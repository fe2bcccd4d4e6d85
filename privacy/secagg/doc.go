// Package secagg implements secure aggregation: the server learns the sum of many
// devices' integer vectors and no single vector, even if devices drop out. It holds the
// local steps of Bonawitz et al. (CCS 2017) on the sparse graph of Bell et al. (CCS 2020,
// "SecAgg+"). It never uses a network, a clock or a file: the caller carries the messages
// and decides how long to wait. Convention: a client refuses whatever would weaken it
// before it sends anything, and answers each step once, for one list only.
//
// # The steps
//
//	0  a device advertises two public keys                        Advert      -> Roster
//	1  it sends shares of its two secrets to its neighbours       ShareBundle -> ShareBundle
//	2  it sends its masked vector                                 Upload      -> Lists
//	3  it reveals the shares that the lists allow, and no others  Reveal
//
// A vector x_u is sent as x_u + PRG(b_u) +- the masks that u shares with each of its
// neighbours, modulo 2^Bits. The masks of two neighbours cancel. For a device that
// uploaded, neighbours reveal shares of b_u; for a device that dropped out, shares of its
// mask key; never both for one device. Everything is bound to the round: its context is a
// hash of model, round number, graph seed and parameters, every message contains it, and
// every key is derived with it.
//
// # Trust
//
// A semi-honest server follows the steps and tries to learn from what it sees, together
// with the devices that collude with it. Against such a server a vector is hidden among
// those of all other honest devices in the sum, except with the probability passed to
// [Plan] (2^-40 by default), if no more devices collude than Plan was told. In small
// cohorts all devices are neighbours and more than half of the shares are required, which
// means an honest majority.
//
// An active server may lie: it may show different lists to different devices, insert its
// own keys, or invent devices. With Risk.Active all devices are neighbours (at most 255),
// more than two thirds of the shares are required, and devices confirm to each other that
// they saw the same lists before they reveal anything. This protects against inconsistent
// lists if fewer than a third of the devices collude.
//
// # Not covered
//
//   - Identity. Nothing here is signed, so an active server can replace a device's keys.
//     The transport must sign adverts with keys that devices know, or trust the server
//     with step 0.
//   - Sybils. A server that can invent devices can be the majority.
//   - The graph's seed. On the sparse graph it must not be chosen by anyone who also
//     chooses which devices collude.
//   - The sum itself. It reveals what a sum reveals; the sum of one device is its vector,
//     so set Params.MinDevices. Noise for differential privacy may be added before
//     masking, see privacy.Bound and [Tail].
//   - Lies about a device's own value. A device may send any vector, or masks that do not
//     cancel, and nobody can see it.
//
// # Liars
//
// A device commits to its mask seed, and to every share that it deals. So the server can check a
// revealed share by itself: wrong shares cost nothing, and their sender is named ([Violation]). A
// changed upload, and shares that do not give the secret of their owner, end the round and name
// their sender. If a device encrypts garbage, its neighbours reject it in step 2. Their word
// names it only if the number of rejections makes its secrets unrecoverable; the round then ends before
// anything is revealed. Dropping out is never a violation.
package secagg
