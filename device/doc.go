// Package device is the device's side of the wire: it checks in, trains, and sends one
// bounded report per round. What is private is in one record that is saved whole
// before anything leaves the device, so that a crash at any moment changes neither
// what is sent nor how often. It opens no files and no sockets: a Vault keeps the
// record, Blobs keep the model, a Conn is the connection.
package device

import (
	"context"

	"github.com/tacit-rec/tacit/internal/pb"
)

// Conn is a connection to a coordinator. It signs requests with the device's key, and
// may be used again after an error. pbconnect.FederationClient is one.
type Conn interface {
	Hello(context.Context, *pb.HelloRequest) (*pb.HelloResponse, error)
	Enrol(context.Context, *pb.EnrolRequest) (*pb.EnrolResponse, error)
	CheckIn(context.Context, *pb.CheckInRequest) (*pb.CheckInResponse, error)
	Fetch(context.Context, *pb.FetchRequest) (*pb.FetchResponse, error)
	Report(context.Context, *pb.ReportRequest) (*pb.ReportResponse, error)
	Mask(context.Context, *pb.MaskRequest) (*pb.MaskResponse, error)
	Leave(context.Context, *pb.LeaveRequest) (*pb.LeaveResponse, error)
}

// Store keeps the record of one device.
type Store interface {
	// Load returns what was saved last, or nil where nothing was.
	Load() ([]byte, error)
	// Save replaces it: after a crash there is the old one or the new one, whole.
	Save(b []byte) error
	// Lock keeps other processes from saving until unlock is called.
	Lock() (unlock func(), err error)
	// Wipe removes what was saved, and the key that it was sealed with.
	Wipe() error
}

// Blobs keep what every device of a federation may know: the model and the
// catalogue, by their SHA-256. They may be used by several devices at a time.
type Blobs interface {
	// Get returns nil where there is no such blob. The bytes are read-only. They are
	// checked against the hash by who asks.
	Get(hash [32]byte) ([]byte, error)
	Put(hash [32]byte, b []byte) error
	// Keep removes all others.
	Keep(hashes [][32]byte) error
}
