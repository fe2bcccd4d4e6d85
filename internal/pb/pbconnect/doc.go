// Package pbconnect is the calls of the protocol over HTTP, made from tacit.proto.
package pbconnect
