// Package rpc carries the calls of package wire over HTTP: the server in front of a coordinator, and
// the clients of devices and operators.
//
// A Server verifies the signature, time and size of a request before it reads the body, and passes it to
// its handler. It refuses and counts everything else. Its only state is the last request time of each key,
// the rate limiters, and the clock of requests, which a file keeps from going back. A Client
// signs requests, retries those that may be retried, and trusts a coordinator by its pin.
//
// In a browser (js/wasm) the package has only the client of a device, which calls fetch instead of
// net/http and Connect: their code is larger than everything else that a device needs.
package rpc

// Headers of the protocol.
const (
	authHeader  = "Tacit-Auth"
	codeHeader  = "Tacit-Code"
	clockHeader = "Tacit-Clock" // milliseconds: a request time that the server accepts
)

// maxResponseBytes is the largest response that a client reads.
const maxResponseBytes = 16 << 20

// maxClock is the largest plausible clock, about the year 10000.
const maxClock = 1 << 48
