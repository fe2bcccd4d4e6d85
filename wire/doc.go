// Package wire defines the protocol between devices and their coordinator: encodings, limits and
// signatures. Package pb has the messages, generated from tacit.proto; package rpc makes the calls.
// docs/protocol.md describes the protocol.
//
// It never touches a network, a file or a clock. Functions that read bytes from outside return errors,
// never panic, and allocate no more than a small multiple of those bytes.
//
//go:generate go -C .. run ./internal/pb/gen
package wire

// OldestVersion and NewestVersion are the protocol versions that this program supports.
const OldestVersion, NewestVersion = 3, 3

// Limits of messages. Both sides refuse messages that exceed them.
const (
	maxItems      = 10_000_000 // items of a catalogue
	MaxDevices    = 1 << 26    // devices of a federation
	maxRounds     = 1_000_000  // rounds of a run
	maxLength     = 1 << 28    // numbers in all slots of a model, and in an update
	MaxBlobBytes  = 1 << 30    // bytes of one blob
	maxRuns       = 1_000_000  // runs of a federation
	maxSlots      = 256        // slots of a method
	maxTextBytes  = 512        // bytes of a title and of other short texts
	maxSmallBytes = 64 << 10   // bytes of a plan and of a manifest
	maxMagnitude  = 1 << 52    // magnitude of an integer of an update
	IDBytes       = 16         // bytes of a federation ID and of a run ID
	HashBytes     = 32         // bytes of a SHA-256
	NonceBytes    = 16         // bytes of the nonce of a request
	maxAuthBytes  = 384        // bytes of the value of a Tacit-Auth header
)

// Steps of secure aggregation, as MaskRequest.step numbers them.
const (
	StepAdvert = iota
	StepShareKeys
	StepUpload
	StepConfirm // only if devices do not trust the coordinator to follow the protocol
	StepReveal
)
