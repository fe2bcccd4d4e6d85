package device

import (
	"encoding/hex"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// LogEntry is one line of what a device shows its owner: a report that was made to be
// sent, and what became of it.
type LogEntry struct {
	CreatedAt    time.Time `json:"made"`
	SettledAt    time.Time `json:"settled,omitzero"` // when its fate was known
	Kind         string    `json:"kind"`             // train, evaluate or count
	Run          string    `json:"run"`
	Round        uint32    `json:"round"`
	ModelVersion uint64    `json:"model"` // version that it was computed on
	Length       int       `json:"numbers"`
	// Bytes are those of the report; of a masked one those of all messages of all attempts,
	// which are written down before they leave.
	Bytes int `json:"bytes"`
	// Digest is that of a report that was sent as it is. A masked one has none: what was sent is
	// never twice the same, and the digest of what is under the masks would tell what that is.
	Digest    string `json:"digest,omitempty"`
	Masked    bool   `json:"masked"`
	Noise     int64  `json:"noise"`  // deviation that the device has added to each number
	State     string `json:"fate"`   // empty: not known yet; counted, or closed: in no sum
	Reason    string `json:"reason"` // of a report that was refused
	Policy    string `json:"promise"`
	Guarantee string `json:"holds"`
}

// maxLog is how many entries are kept, the newest.
const maxLog = 1000

// log adds an entry.
func (r *record) log(e LogEntry) {
	r.Log = append(r.Log, e)
	if n := len(r.Log) - maxLog; n > 0 {
		r.Log = append([]LogEntry(nil), r.Log[n:]...)
	}
}

// setState writes what became of the report of a kind, if it is still the one of that
// digest.
func (r *record) setState(k pb.Kind, digest []byte, fate, reason string, now time.Time) {
	s := *r.report(k)
	if s == nil || string(s.Digest) != string(digest) {
		return
	}
	s.State = fate
	if e := r.logEntry(k); e != nil {
		e.State, e.Reason, e.SettledAt = fate, reason, now
	}
}

// logEntry is the entry of the report of a kind; nil where the log does not have it any more.
func (r *record) logEntry(k pb.Kind) *LogEntry {
	s := *r.report(k)
	if s == nil {
		return nil
	}
	run := hex.EncodeToString(s.Run)
	for i := len(r.Log) - 1; i >= 0; i-- {
		if e := &r.Log[i]; e.Kind == kindName(k) && e.Run == run && e.Round == s.Round &&
			e.ModelVersion == s.ModelVersion {
			return e
		}
	}
	return nil
}

func kindName(k pb.Kind) string {
	switch k {
	case pb.Kind_EVALUATE:
		return "evaluate"
	case pb.Kind_COUNT:
		return "count"
	}
	return "train"
}
