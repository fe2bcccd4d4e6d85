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
	Key       []byte `json:"key"` // seed of its ed25519 key
	Own       uint64 `json:"own"` // seed of what it draws
	Rehearsal bool   `json:"rehearsal,omitempty"`

	Federation  []byte `json:"federation,omitempty"`
	Name        string `json:"name,omitempty"`
	Coordinator []byte `json:"coordinator,omitempty"` // the key that its manifests are signed with
	Seat        uint32 `json:"seat"`
	Enrolled    bool   `json:"enrolled,omitempty"`

	Manifest  []byte  `json:"manifest,omitempty"` // of the model that it has
	Signature []byte  `json:"signature,omitempty"`
	Fetched   fetched `json:"fetched,omitzero"`

	Run   []byte `json:"run,omitempty"`   // that the private slots belong to
	Shape string `json:"shape,omitempty"` // of the private slots
	Train *sent  `json:"train,omitempty"`
	Eval  *sent  `json:"eval,omitempty"`
	Count *sent  `json:"count,omitempty"`
	Had   []turn `json:"had,omitempty"` // of runs in which a device answers one round at most of each so many

	Paused   bool              `json:"paused,omitempty"`
	Features map[string]string `json:"features,omitempty"` // what its owner has told of themselves
	Setting  map[string]string `json:"setting,omitempty"`  // of the program that runs the device
	History  history           `json:"history"`
	Log      []Entry           `json:"log,omitempty"`

	state []byte // device.State
}

// sent is the one report that a device has for a round. Its bytes are kept until the
// next round's: a coordinator that lost them can have them again, and no others.
type sent struct {
	Run     []byte `json:"run"`
	Round   uint32 `json:"round"`
	Attempt uint32 `json:"attempt"`
	Model   uint64 `json:"model"` // version that it was computed on
	Turns   uint32 `json:"turns,omitempty"`
	Digest  []byte `json:"digest"`
	Masked  bool   `json:"masked,omitempty"`
	Begun   bool   `json:"begun,omitempty"`  // it has sent a key in the masked attempt
	Opened  bool   `json:"opened,omitempty"` // it has answered the last step of a masked attempt
	Least   int    `json:"least,omitempty"`  // of masked ones: the fewest devices that it is in a sum with
	Fate    string `json:"fate,omitempty"`   // empty until it is known

	report []byte // wire's form of the vector
}

// The fates of a report, as the log shows them.
const (
	waiting = ""
	counted = "counted"
	closed  = "closed"
)

// Limits of a record: a damaged or hostile one must not take more memory than these.
const (
	recordVersion = 1
	mostHeader    = 64 << 20
	mostState     = 1 << 30
)

func newRecord() (*record, error) {
	r := &record{Key: make([]byte, ed25519.SeedSize), Setting: map[string]string{}}
	var own [8]byte
	if _, err := rand.Read(r.Key); err != nil {
		return nil, fmt.Errorf("agent: no random bytes for a key: %w", err)
	}
	for r.Own == 0 {
		if _, err := rand.Read(own[:]); err != nil {
			return nil, fmt.Errorf("agent: no random bytes for a seed: %w", err)
		}
		r.Own = binary.LittleEndian.Uint64(own[:])
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

func (s *sent) bytes() []byte {
	if s == nil {
		return nil
	}
	return s.report
}

// decodeRecord reads what encode wrote, and nothing else. The result shares b.
func decodeRecord(b []byte) (*record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return nil, errors.New("agent: the record is of a version that this program does not know; update tacit, or " +
			"start anew with another state file")
	}
	b = b[1:]
	var part [5][]byte
	for i, most := range [...]uint64{mostHeader, mostState, mostState, mostState, mostState} {
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
	for i, s := range []*sent{r.Train, r.Eval, r.Count} {
		if s != nil {
			s.report = part[2+i]
		} else if len(part[2+i]) > 0 {
			return nil, errors.New("agent: the record is damaged: a report of no round")
		}
	}
	for i := range r.Log { // older programs wrote what is under the masks, and not what was sent
		if e := &r.Log[i]; e.Masked && e.Digest != "" {
			e.Bytes, e.Digest = 0, ""
		}
	}
	if r.Setting == nil {
		r.Setting = map[string]string{}
	}
	return r, r.check()
}

// check says what of a record cannot be.
func (r *record) check() error {
	fits := func(b []byte, n int) bool { return len(b) == n || len(b) == 0 }
	switch {
	case len(r.Key) != ed25519.SeedSize || r.Own == 0:
		return errors.New("agent: the record is damaged: it has no key")
	case !fits(r.Federation, 16) || !fits(r.Coordinator, ed25519.PublicKeySize) || r.Enrolled &&
		(len(r.Federation) == 0 || len(r.Coordinator) == 0):
		return errors.New("agent: the record is damaged: it does not say which federation it is of")
	case len(r.Had) > mostRuns || slices.ContainsFunc(r.Had, func(t turn) bool {
		return len(t.Run) != 16 ||
			t.Every == 0
	}):
		return errors.New("agent: the record is damaged: it does not say when the device had its turns")
	case !fits(r.Run, 16) || len(r.Log) > mostLog:
		return errors.New("agent: the record is damaged: its run or log has a wrong size")
	}
	for _, s := range []*sent{r.Train, r.Eval, r.Count} {
		if s != nil && (len(s.Run) != 16 || len(s.Digest) != 32) {
			return errors.New("agent: the record is damaged: a report without run or digest")
		}
	}
	return r.History.check()
}

// of is the place of the report of a kind.
func (r *record) of(k pb.Kind) **sent {
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

// is reports whether s answers a task's round, on the same version of the model.
func (s *sent) is(t *pb.Task) bool {
	return s != nil && s.Round == t.Round && s.Model == t.ModelVersion && bytes.Equal(s.Run, t.Run)
}

// bars reports whether s is the answer to a task's round, or to a later one of the run: two
// vectors for one round tell more than one. Rounds come again when an operator has gone
// back to an older model since, and for nothing else.
func (s *sent) bars(t *pb.Task, turns uint32) bool {
	return s != nil && bytes.Equal(s.Run, t.Run) && s.Round >= t.Round && turns <= s.Turns
}

// inMemory is a vault that lasts as long as the process.
type inMemory struct{ b []byte }

// InMemory returns a vault for devices that are played, not real: nothing is left of it
// when the process ends.
func InMemory() Vault { return &inMemory{} }

func (m *inMemory) Load() ([]byte, error) { return m.b, nil }
func (m *inMemory) Save(b []byte) error   { m.b = b; return nil }
func (m *inMemory) Lock() (func(), error) { return func() {}, nil }
func (m *inMemory) Wipe() error           { m.b = nil; return nil }
