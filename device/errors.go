package device

import (
	"context"
	"errors"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// errorCodes are the codes of the errors of this package.
var errorCodes = []struct {
	err  error
	code string
}{
	{ErrNoModel, "no_model"},
	{ErrDeterministic, "deterministic"},
	{ErrWrongCoordinator, "wrong_coordinator"},
	{ErrPin, "wrong_pin"},
	{ErrCertificate, "untrusted_certificate"},
	{ErrRevoked, "revoked"},
	{ErrExcluded, "excluded"},
	{ErrFeatures, "features"},
	{ErrTooLarge, "too_large"},
	{ErrGuarantee, "guarantee"},
	{ErrPassphrase, "passphrase"},
	{ErrStateCorrupt, "state_corrupt"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "canceled"},
}

// ErrorCode returns a stable code of an error for programs: that of an error of this package, such as
// wrong_pin, or of the coordinator's answer, such as bad_token or not_now; unavailable if the coordinator does
// not answer; failed for any other error; and an empty string for nil.
func ErrorCode(err error) string {
	if err == nil {
		return ""
	}
	for _, e := range errorCodes {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	if code := rpc.Code(err); code != "unknown" {
		return code
	}
	return "failed"
}
