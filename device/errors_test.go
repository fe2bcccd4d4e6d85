package device

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// Apps act on the codes of errors, so every exported error has its own.
func TestErrorCodesAreStable(t *testing.T) {
	for want, err := range map[string]error{
		"":                      nil,
		"no_model":              ErrNoModel,
		"deterministic":         fmt.Errorf("%w: really", ErrDeterministic),
		"wrong_coordinator":     ErrWrongCoordinator,
		"wrong_pin":             fmt.Errorf("a call: %w", ErrPin),
		"untrusted_certificate": ErrCertificate,
		"revoked":               &removedError{ErrRevoked, refusal(rpc.Revoked)},
		"excluded":              &removedError{ErrExcluded, refusal(rpc.Excluded)},
		"features":              ErrFeatures,
		"too_large":             ErrTooLarge,
		"guarantee":             fmt.Errorf("%w: its policy does not hold", ErrGuarantee),
		"passphrase":            ErrPassphrase,
		"state_corrupt":         ErrStateCorrupt,
		"canceled":              context.Canceled,
		"bad_token":             fmt.Errorf("cannot enrol: %w", refusal(rpc.BadToken)),
		"not_now":               refusal(rpc.NotNow),
		"unavailable":           connect.NewError(connect.CodeUnavailable, errors.New("no answer")),
		"failed":                errors.New("something else"),
	} {
		if got := ErrorCode(err); got != want {
			t.Errorf("%v has the code %q, want %q", err, got, want)
		}
	}
}
