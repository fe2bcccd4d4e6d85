// Package rpc carries the calls of package wire over HTTP: the server that stands
// between strangers and a coordinator, and the client of a device.
//
// A Server lets a request through to a handler when its address, size, pace, time and
// signature are as they must be; everything else is refused with a code word and
// counted. It keeps no state but the last time of each key and how busy an address is.
// A Client signs, repeats what may be repeated, and believes a coordinator for its pin.
package rpc

// Code words are stable: programs act on them, people read the text beside them.
const (
	WrongVersion = "wrong_version"
	UnknownKey   = "unknown_key"
	Revoked      = "revoked"
	BadSignature = "bad_signature"
	StaleTime    = "stale_time"
	Replayed     = "replayed"
	WrongRun     = "wrong_run"
	WrongRound   = "wrong_round"
	NotInCohort  = "not_in_cohort"
	Malformed    = "malformed"
	Oversized    = "oversized"
	OverBound    = "over_bound"
	BadDigest    = "bad_digest"
	NotMasked    = "not_masked" // what is summed under masks alone came in the clear
	NoSuchBlob   = "no_such_blob"
	BadToken     = "bad_token"
	Quota        = "quota"
	SlowDown     = "slow_down"
	Paused       = "paused"
	NotNow       = "not_now"
	TooSlow      = "too_slow" // the client was slower than the lowest rate
	CutOff       = "cut_off"  // the client went away in the middle of a request
	Internal     = "internal" // the coordinator's fault; the text stays with it
	Panicked     = "panic"    // the same, by a panic
)

// Headers of the protocol.
const (
	authHeader  = "Tacit-Auth"
	codeHeader  = "Tacit-Code"
	clockHeader = "Tacit-Clock" // milliseconds: a time that the server would have taken
)
