package rpc

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
)

// Refuse is the error of a handler that says no: a code word for programs, and a
// text for people, which travels.
func Refuse(word string, code connect.Code, format string, args ...any) error {
	err := connect.NewError(code, fmt.Errorf(format, args...))
	err.Meta().Set(codeHeader, word)
	return err
}

// Code is the code word of an error that came over the wire, or that a handler is to
// return. Without one it is Connect's own name of the error, such as unavailable; of no
// error it is empty.
func Code(err error) string {
	if err == nil {
		return ""
	}
	if ce := new(connect.Error); errors.As(err, &ce) {
		if word := ce.Meta().Get(codeHeader); word != "" {
			return word
		}
	}
	return connect.CodeOf(err).String()
}
