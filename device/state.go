package device

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
)

// record is the private state of a device. Its encoding is a version byte, then five parts with
// their lengths: a JSON object, the private model state, and the three reports.
type record struct {
	Key           []byte `json:"key"` // seed of the ed25519 key
	Seed          uint64 `json:"own"` // seed of local training
	Deterministic bool   `json:"rehearsal,omitempty"`

	Federation     []byte `json:"federation,omitempty"`
	Name           string `json:"name,omitempty"`
	CoordinatorKey []byte `json:"coordinator,omitempty"` // key that signs manifests
	// CoordinatorState is what the coordinator said when it had no task.
	CoordinatorState string `json:"coordinator_state,omitempty"`
	DeviceID         uint32 `json:"device_id"`
	Enrolled         bool   `json:"enrolled,omitempty"`

	Manifest  []byte    `json:"manifest,omitempty"` // of the current model
	Signature []byte    `json:"signature,omitempty"`
	Downloads downloads `json:"fetched,omitzero"`

	Run      []byte       `json:"run,omitempty"`   // run of the private model state
	Shape    string       `json:"shape,omitempty"` // layout of the private model state
	Train    *savedReport `json:"train,omitempty"`
	Eval     *savedReport `json:"eval,omitempty"`
	Count    *savedReport `json:"count,omitempty"`
	spending              // embedded: what the guarantee has cost so far

	Paused   bool              `json:"paused,omitempty"`
	Features map[string]string `json:"features,omitempty"` // user features, set by the owner
	Settings map[string]string `json:"setting,omitempty"`  // settings of the program that runs the device
	History  history           `json:"history"`
	Log      []LogEntry        `json:"log,omitempty"`

	state []byte // encoded local.State
}

// savedReport is the only report that a device makes for a round. The device keeps its bytes until
// the next round: a coordinator that lost them receives the same bytes again.
type savedReport struct {
	Run          []byte `json:"run"`
	Round        uint32 `json:"round"`
	Attempt      uint32 `json:"attempt"`
	ModelVersion uint64 `json:"model"` // version that it was computed with
	Rollbacks    uint32 `json:"turns,omitempty"`
	Digest       []byte `json:"digest"`
	Masked       bool   `json:"masked,omitempty"`
	Started      bool   `json:"begun,omitempty"`  // it has sent a key in this attempt
	Revealed     bool   `json:"opened,omitempty"` // it has sent the shares that unmask the sum
	State        string `json:"fate,omitempty"`   // pending, counted or closed

	data []byte // encoded update
}

// States of a report, as the log shows them.
const (
	pending = ""
	counted = "counted"
	closed  = "closed"

	declined = "declined" // of a task or a plan that is weaker than the privacy guarantee
	noted    = "noted"    // of an entry about something else
)

// Limits on the memory that a corrupt record may use.
const (
	recordVersion  = 2
	maxHeaderBytes = 64 << 20
	maxStateBytes  = 1 << 30
)

func newRecord() (*record, error) {
	r := &record{Key: make([]byte, ed25519.SeedSize), Settings: map[string]string{}}
	var own [8]byte
	if _, err := rand.Read(r.Key); err != nil {
		return nil, fmt.Errorf("cannot read random bytes: %w", err)
	}
	for r.Seed == 0 {
		if _, err := rand.Read(own[:]); err != nil {
			return nil, fmt.Errorf("cannot read random bytes: %w", err)
		}
		r.Seed = binary.LittleEndian.Uint64(own[:])
	}
	return r, nil
}

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrStateCorrupt, what) }

func (r *record) encode() ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, 1+len(head)+len(r.state)+64), recordVersion)
	for _, part := range [][]byte{head, r.state, r.Train.bytes(), r.Eval.bytes(), r.Count.bytes()} {
		out = append(binary.AppendUvarint(out, uint64(len(part))), part...)
	}
	return out, nil
}

func (s *savedReport) bytes() []byte {
	if s == nil {
		return nil
	}
	return s.data
}

// decodeRecord reads the output of encode. The result shares memory with b.
func decodeRecord(b []byte) (*record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return nil, errors.New("another release of tacit wrote this state file, in a format that this one does not " +
			"read: use that release, or enrol again with another state file")
	}
	b = b[1:]
	var part [5][]byte
	for i, most := range [...]uint64{maxHeaderBytes, maxStateBytes, maxStateBytes, maxStateBytes, maxStateBytes} {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > most || n > uint64(len(b)-w) {
			return nil, corrupt("it is truncated")
		}
		part[i], b = b[w:w+int(n)], b[w+int(n):]
	}
	if len(b) > 0 {
		return nil, corrupt("extra bytes at the end")
	}
	r := &record{state: part[1]}
	in := json.NewDecoder(bytes.NewReader(part[0]))
	in.DisallowUnknownFields()
	if err := in.Decode(r); err != nil {
		return nil, corrupt(err.Error())
	}
	if in.More() {
		return nil, corrupt("extra bytes after the header")
	}
	for i, s := range []*savedReport{r.Train, r.Eval, r.Count} {
		if s != nil {
			s.data = part[2+i]
		} else if len(part[2+i]) > 0 {
			return nil, corrupt("a report without a round")
		}
	}
	if r.Settings == nil {
		r.Settings = map[string]string{}
	}
	return r, r.check()
}

// check returns an error if a record is inconsistent.
func (r *record) check() error {
	fits := func(b []byte, n int) bool { return len(b) == n || len(b) == 0 }
	switch {
	case len(r.Key) != ed25519.SeedSize || r.Seed == 0:
		return corrupt("it has no key")
	case !fits(r.Federation, 16) || !fits(r.CoordinatorKey, ed25519.PublicKeySize) || r.Enrolled &&
		(len(r.Federation) == 0 || len(r.CoordinatorKey) == 0):
		return corrupt("the federation is missing")
	case !fits(r.Run, 16) || len(r.Log) > maxLog:
		return corrupt("its run or log has a wrong size")
	}
	for _, s := range []*savedReport{r.Train, r.Eval, r.Count} {
		if s != nil && (len(s.Run) != 16 || len(s.Digest) != 32) {
			return corrupt("a report without run or digest")
		}
	}
	if err := r.History.check(); err != nil {
		return corrupt(err.Error())
	}
	return r.spending.check()
}

// report returns the place of the report of a kind.
func (r *record) report(k pb.Kind) **savedReport {
	switch k {
	case pb.Kind_EVALUATE:
		return &r.Eval
	case pb.Kind_COUNT:
		return &r.Count
	}
	return &r.Train
}

// kinds are the kinds of reports.
var kinds = []pb.Kind{pb.Kind_TRAIN, pb.Kind_EVALUATE, pb.Kind_COUNT}

// answers reports whether s is the report of a task: same run, round and model version.
func (s *savedReport) answers(t *pb.Task) bool {
	return s != nil && s.Round == t.Round && s.ModelVersion == t.ModelVersion && bytes.Equal(s.Run, t.Run)
}

// precludes reports whether s rules out a new report for a task, because s is of the same or a later
// round of the run. Only a rollback makes a device report in a round again.
func (s *savedReport) precludes(t *pb.Task, rollbacks uint32) bool {
	return s != nil && bytes.Equal(s.Run, t.Run) && s.Round >= t.Round && rollbacks <= s.Rollbacks
}
