// Package pb contains the messages of the protocol, generated from tacit.proto. Package wire checks them.
// Nothing in it is written by hand, and it never validates a message.
package pb
