//go:build !js

package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"connectrpc.com/connect"
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
