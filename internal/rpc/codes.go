package rpc

// Error codes are stable: programs act on them, people read the message.
const (
	WrongVersion = "wrong_version"
	UnknownKey   = "unknown_key"
	Revoked      = "revoked"
	Excluded     = "excluded" // the device was proven to lie
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
	NotMasked    = "not_masked" // a report that must be masked is not
	NoSuchBlob   = "no_such_blob"
	NoSuchPath   = "no_such_path"
	BadToken     = "bad_token"
	NotFound     = "not_found" // a call, a version or a device that does not exist
	Forbidden    = "forbidden" // the token may only read
	Quota        = "quota"
	SlowDown     = "slow_down"
	NotNow       = "not_now"
	Delayed      = "delayed"  // an operator's call that is done later
	TooSlow      = "too_slow" // the client sent bytes below the minimum rate
	CutOff       = "cut_off"  // the client closed the connection during a request
	Internal     = "internal" // an error of the coordinator, whose text stays there
	Panicked     = "panic"    // a panic of the coordinator
)
