// Package wire is the protocol between devices and their coordinator: the form of what
// travels, its limits, and who signed it. Messages are in package pb, made from
// tacit.proto; calls are in package rpc. docs/protocol.md tells the whole story.
//
// It never touches a network, a file or a clock. Whatever reads bytes from outside
// says no with an error, never panics, and takes no more memory than a small multiple
// of those bytes.
//
//go:generate go -C .. run ./internal/pb/gen
package wire

// OldestVersion and Newest are the versions of the protocol that this program speaks.
const OldestVersion, NewestVersion = 2, 2

// Limits of what travels. What is over one of them is refused, on both sides.
const (
	maxItems      = 10_000_000 // of a catalogue
	MaxDevices    = 1 << 26    // seats of a federation
	maxRounds     = 1_000_000  // of a run
	maxLength     = 1 << 28    // of all slots of a model, and of an update
	MaxBlobBytes  = 1 << 30    // bytes of one blob
	maxSlots      = 256        // of a method
	maxTextBytes  = 512        // bytes of a title, and of other short texts
	maxSmallBytes = 64 << 10   // bytes of a plan, and of a manifest
	maxMagnitude  = 1 << 52    // magnitude of an integer of an update
	IDBytes       = 16         // of the id of a federation, and of a run
	HashBytes     = 32         // of a SHA-256
	NonceBytes    = 16         // of a request
	maxAuthBytes  = 256        // bytes of the value of a Tacit-Auth header
)

// Steps of secure aggregation, as MaskRequest.step numbers them.
const (
	StepAdvert = iota
	StepDeal
	StepUpload
	StepConfirm // only if devices do not trust the coordinator to follow the protocol
	StepReveal
)
