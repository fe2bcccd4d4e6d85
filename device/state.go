package device

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tacit-rec/tacit/internal/pb"
)

// record is all that a device knows that others do not. It is a byte of version, the
// length and text of a JSON object, and the lengths and bytes of the private slots and
// of the three reports.
type record struct {
	Key           []byte `json:"key"` // seed of its ed25519 key
	Seed          uint64 `json:"own"` // seed of what it draws
	Deterministic bool   `json:"rehearsal,omitempty"`

	Federation     []byte `json:"federation,omitempty"`
	Name           string `json:"name,omitempty"`
	CoordinatorKey []byte `json:"coordinator,omitempty"` // the key that its manifests are signed with
	DeviceID       uint32 `json:"seat"`
	Enrolled       bool   `json:"enrolled,omitempty"`

	Manifest  []byte    `json:"manifest,omitempty"` // of the model that it has
	Signature []byte    `json:"signature,omitempty"`
	Downloads downloads `json:"fetched,omitzero"`

	Run    []byte       `json:"run,omitempty"`   // that the private slots belong to
	Shape  string       `json:"shape,omitempty"` // of the private slots
	Train  *savedReport `json:"train,omitempty"`
	Eval   *savedReport `json:"eval,omitempty"`
	Count  *savedReport `json:"count,omitempty"`
	Sparse []sparseRun  `json:"had,omitempty"` // of runs in which a device answers one round at most of each so many

	Paused   bool              `json:"paused,omitempty"`
	Features map[string]string `json:"features,omitempty"` // what its owner has told of themselves
	Settings map[string]string `json:"setting,omitempty"`  // of the program that runs the device
	History  history           `json:"history"`
	Log      []LogEntry        `json:"log,omitempty"`

	state []byte // device.State
}

// savedReport is the one report that a device has for a round. Its bytes are kept until the
// next round's: a coordinator that lost them can have them again, and no others.
type savedReport struct {
	Run          []byte `json:"run"`
	Round        uint32 `json:"round"`
	Attempt      uint32 `json:"attempt"`
	ModelVersion uint64 `json:"model"` // version that it was computed on
	Rollbacks    uint32 `json:"turns,omitempty"`
	Digest       []byte `json:"digest"`
	Masked       bool   `json:"masked,omitempty"`
	Started      bool   `json:"begun,omitempty"`  // it has sent a key in the masked attempt
	Revealed     bool   `json:"opened,omitempty"` // it has answered the last step of a masked attempt
	MinDevices   int    `json:"least,omitempty"`  // of masked ones: the fewest devices that it is in a sum with
	State        string `json:"fate,omitempty"`   // empty until it is known

	data []byte // wire's form of the vector
}

// The fates of a report, as the log shows them.
const (
	pending = ""
	counted = "counted"
	closed  = "closed"
)

// Limits of a record: a damaged or hostile one must not take more memory than these.
const (
	recordVersion  = 1
	maxHeaderBytes = 64 << 20
	maxStateBytes  = 1 << 30
)

func newRecord() (*record, error) {
	r := &record{Key: make([]byte, ed25519.SeedSize), Settings: map[string]string{}}
	var own [8]byte
	if _, err := rand.Read(r.Key); err != nil {
		return nil, fmt.Errorf("agent: no random bytes for a key: %w", err)
	}
	for r.Seed == 0 {
		if _, err := rand.Read(own[:]); err != nil {
			return nil, fmt.Errorf("agent: no random bytes for a seed: %w", err)
		}
		r.Seed = binary.LittleEndian.Uint64(own[:])
	}
	return r, nil
}

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

// decodeRecord reads what encode wrote, and nothing else. The result shares b.
func decodeRecord(b []byte) (*record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return nil, errors.New("agent: the record is of a version that this program does not know; update tacit, or " +
			"start anew with another state file")
	}
	b = b[1:]
	var part [5][]byte
	for i, most := range [...]uint64{maxHeaderBytes, maxStateBytes, maxStateBytes, maxStateBytes, maxStateBytes} {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > most || n > uint64(len(b)-w) {
			return nil, errors.New("agent: the record is damaged: a part of it is cut off")
		}
		part[i], b = b[w:w+int(n)], b[w+int(n):]
	}
	if len(b) > 0 {
		return nil, errors.New("agent: the record is damaged: something follows its end")
	}
	r := &record{state: part[1]}
	in := json.NewDecoder(bytes.NewReader(part[0]))
	in.DisallowUnknownFields()
	if err := in.Decode(r); err != nil {
		return nil, fmt.Errorf("agent: the record is damaged: %w", err)
	}
	if in.More() {
		return nil, errors.New("agent: the record is damaged: something follows its header")
	}
	for i, s := range []*savedReport{r.Train, r.Eval, r.Count} {
		if s != nil {
			s.data = part[2+i]
		} else if len(part[2+i]) > 0 {
			return nil, errors.New("agent: the record is damaged: a report of no round")
		}
	}
	for i := range r.Log { // older programs wrote what is under the masks, and not what was sent
		if e := &r.Log[i]; e.Masked && e.Digest != "" {
			e.Bytes, e.Digest = 0, ""
		}
	}
	if r.Settings == nil {
		r.Settings = map[string]string{}
	}
	return r, r.check()
}

// check says what of a record cannot be.
func (r *record) check() error {
	fits := func(b []byte, n int) bool { return len(b) == n || len(b) == 0 }
	switch {
	case len(r.Key) != ed25519.SeedSize || r.Seed == 0:
		return errors.New("agent: the record is damaged: it has no key")
	case !fits(r.Federation, 16) || !fits(r.CoordinatorKey, ed25519.PublicKeySize) || r.Enrolled &&
		(len(r.Federation) == 0 || len(r.CoordinatorKey) == 0):
		return errors.New("agent: the record is damaged: it does not say which federation it is of")
	case len(r.Sparse) > maxSparseRuns || slices.ContainsFunc(r.Sparse, func(t sparseRun) bool {
		return len(t.Run) != 16 ||
			t.Every == 0
	}):
		return errors.New("agent: the record is damaged: it does not say when the device had its turns")
	case !fits(r.Run, 16) || len(r.Log) > maxLog:
		return errors.New("agent: the record is damaged: its run or log has a wrong size")
	}
	for _, s := range []*savedReport{r.Train, r.Eval, r.Count} {
		if s != nil && (len(s.Run) != 16 || len(s.Digest) != 32) {
			return errors.New("agent: the record is damaged: a report without run or digest")
		}
	}
	return r.History.check()
}

// report is the place of the report of a kind.
func (r *record) report(k pb.Kind) **savedReport {
	switch k {
	case pb.Kind_EVALUATE:
		return &r.Eval
	case pb.Kind_COUNT:
		return &r.Count
	}
	return &r.Train
}

// kinds are those of reports.
var kinds = []pb.Kind{pb.Kind_TRAIN, pb.Kind_EVALUATE, pb.Kind_COUNT}

// answers reports whether s answers a task's round, on the same version of the model.
func (s *savedReport) answers(t *pb.Task) bool {
	return s != nil && s.Round == t.Round && s.ModelVersion == t.ModelVersion && bytes.Equal(s.Run, t.Run)
}

// precludes reports whether s is the answer to a task's round, or to a later one of the run: two
// vectors for one round tell more than one. Rounds come again when an operator has gone
// back to an older model since, and for nothing else.
func (s *savedReport) precludes(t *pb.Task, turns uint32) bool {
	return s != nil && bytes.Equal(s.Run, t.Run) && s.Round >= t.Round && turns <= s.Rollbacks
}

// memoryStore is a vault that lasts as long as the process.
type memoryStore struct{ b []byte }

// NewMemoryStore returns a vault for devices that are played, not real: nothing is left of it
// when the process ends.
func NewMemoryStore() Store { return &memoryStore{} }

func (m *memoryStore) Load() ([]byte, error) { return m.b, nil }
func (m *memoryStore) Save(b []byte) error   { m.b = b; return nil }
func (m *memoryStore) Lock() (func(), error) { return func() {}, nil }
func (m *memoryStore) Wipe() error           { m.b = nil; return nil }
