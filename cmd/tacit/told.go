package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// told adds to an error of the network what to do about it.
func told(err error) error {
	if err == nil {
		return nil
	}
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &other) || strings.Contains(err.Error(), "certificate") {
		return input(fmt.Errorf("the coordinator's certificate is not believed: %w", err),
			"--pin PIN, which tacit serve prints")
	}
	switch rpc.Code(err) {
	case "unavailable":
		return input(fmt.Errorf("the coordinator does not answer: %w", err), "is tacit serve running?")
	case "quota":
		return input(err, "tacit admin token makes another")
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeFailedPrecondition,
		connect.CodeInvalidArgument, connect.CodeNotFound:
		return input(plain(err), "")
	}
	return err
}

// packages are names that errors of ours begin with, for programmers.
var packages = regexp.MustCompile(
	`^((agent|agg|coord|device|learn|method|methods|privacy|round|rows|secagg|sim|store|wire): )+`)

// plain is an error as a user reads it: without the code that it travelled with and the
// packages that it came through.
func plain(err error) error {
	text := err.Error()
	if ce := new(connect.Error); errors.As(err, &ce) {
		text = ce.Message()
	}
	return errors.New(packages.ReplaceAllString(text, ""))
}
