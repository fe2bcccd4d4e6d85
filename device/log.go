package device

import (
	"encoding/hex"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
)

// LogEntry describes one report to the owner of the device. The entry is saved before the report is
// sent.
type LogEntry struct {
	CreatedAt    time.Time `json:"made"`
	SettledAt    time.Time `json:"settled,omitzero"` // when its state became known
	Kind         string    `json:"kind"`             // train, evaluate or count; plan or budget if it is not a report
	Run          string    `json:"run"`
	Round        uint32    `json:"round"`
	ModelVersion uint64    `json:"model"` // version that it was computed with
	Length       int       `json:"numbers"`
	// Bytes is the size of the report. For a masked report it is the size of all messages of all
	// attempts.
	Bytes int `json:"bytes"`
	// Digest is the SHA-256 of an unmasked report. Masked reports have none: a digest of the unmasked
	// update would let others test guesses.
	Digest string `json:"digest,omitempty"`
	Masked bool   `json:"masked"`
	Noise  int64  `json:"noise"` // standard deviation of the noise that the device added to each number
	// State is empty if it is not known yet; counted; closed if the report is not part of an aggregate; declined
	// if the task or the plan was weaker than the guarantee.
	State     string `json:"state"`
	Reason    string `json:"reason"` // why a report was closed, or a task or plan declined
	Policy    string `json:"policy"`
	Guarantee string `json:"guarantee"` // as the device computed it
}

// IsReport reports whether the entry is about a report that left the device. Other entries say that the
// device declined a task or a plan, or that the privacy budget was reset.
func (e LogEntry) IsReport() bool { return e.State != declined && e.State != noted }

// maxLog is the number of entries that a record keeps.
const maxLog = 1000

// log appends an entry and drops the oldest beyond maxLog.
func (r *record) log(e LogEntry) {
	r.Log = append(r.Log, e)
	if n := len(r.Log) - maxLog; n > 0 {
		r.Log = append([]LogEntry(nil), r.Log[n:]...)
	}
}

// setState sets the state of the report of a kind if it still has that digest.
func (r *record) setState(k pb.Kind, digest []byte, state, reason string, now time.Time) {
	s := *r.report(k)
	if s == nil || string(s.Digest) != string(digest) {
		return
	}
	s.State = state
	if e := r.logEntry(k); e != nil {
		e.State, e.Reason, e.SettledAt = state, reason, now
	}
}

// logEntry returns the entry of the current report of a kind, or nil if the log has dropped it.
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
