// Package pb is the messages of the protocol, made from tacit.proto. Nothing in it is
// written by hand; package wire says what a message must be to be believed.
package pb
