// Package wire is the protocol between devices and their coordinator: the form of what
// travels, its limits, and who signed it. Messages are in package pb, made from
// tacit.proto; calls are in package rpc. docs/protocol.md tells the whole story.
//
//go:generate go run ./gen
package wire

// Oldest and Newest are the versions of the protocol that this program speaks.
const Oldest, Newest = 1, 1
