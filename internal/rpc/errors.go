package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"connectrpc.com/connect"
)

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

// Refuse returns the error of a handler that refuses a request: an error code for programs, and a
// message that is sent to the client.
func Refuse(errorCode string, code connect.Code, format string, args ...any) error {
	err := connect.NewError(code, fmt.Errorf(format, args...))
	err.Meta().Set(codeHeader, errorCode)
	return err
}

// Code returns the error code of an error that a client received or a handler returns. Without one it
// returns Connect's name of the error, such as unavailable. It returns "" for nil.
func Code(err error) string {
	if err == nil {
		return ""
	}
	if ce := new(connect.Error); errors.As(err, &ce) {
		if code := ce.Meta().Get(codeHeader); code != "" {
			return code
		}
	}
	return connect.CodeOf(err).String()
}

// callError is an error that a client received. Its text is the message alone, without Connect's code and
// without the URL of a failed request.
type callError struct{ err *connect.Error }

func (e *callError) Error() string {
	if failed := new(url.Error); errors.As(e.err, &failed) {
		return failed.Err.Error()
	}
	return e.err.Message()
}

func (e *callError) Unwrap() error { return e.err }

// plainErrors is an interceptor of clients that removes Connect's codes from the texts of errors.
func plainErrors(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		a, err := next(ctx, q)
		if ce := new(connect.Error); errors.As(err, &ce) {
			return a, &callError{ce}
		}
		return a, err
	}
}
