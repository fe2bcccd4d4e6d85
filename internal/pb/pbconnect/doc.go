// Package pbconnect contains the calls of the protocol over HTTP, generated from tacit.proto.
package pbconnect
