// Package pbconnect contains the calls of the protocol over HTTP, generated from tacit.proto.
// It never checks signatures or limits; package rpc does.
package pbconnect
