package coordinator

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/wire"
)

// ModelVersion is a model version on disk, for operators.
type ModelVersion struct {
	Version    uint64    `json:"version"`
	RunNumber  uint32    `json:"run_number"`
	Round      uint32    `json:"round"` // rounds of its run that are in it
	Created    time.Time `json:"created"`
	RolledBack bool      `json:"rolled_back"`
	// SignedManifest is the message of the protocol that devices verify.
	SignedManifest []byte `json:"signed_manifest"`
}

// Signed returns the signed manifest of the version.
func (v *ModelVersion) Signed() (*pb.SignedManifest, error) {
	s := &pb.SignedManifest{}
	return s, proto.Unmarshal(v.SignedManifest, s)
}

// Manifest returns the manifest of the version. It does not verify the signature.
func (v *ModelVersion) Manifest() (*pb.Manifest, error) {
	s, err := v.Signed()
	if err != nil {
		return nil, err
	}
	m := &pb.Manifest{}
	return m, proto.Unmarshal(s.Body, m)
}

// History lists the model versions on disk, the oldest first.
func (c *Coordinator) History() ([]ModelVersion, error) {
	all, err := c.models.Manifests()
	if err != nil {
		return nil, err
	}
	out := []ModelVersion{}
	for _, s := range all {
		var m pb.Manifest
		if err := proto.Unmarshal(s.Body, &m); err != nil {
			return nil, err
		}
		b, err := proto.Marshal(s)
		if err != nil {
			return nil, err
		}
		out = append(out, ModelVersion{
			Version: m.Version, RunNumber: m.RunNumber, Round: m.Round, Created: time.UnixMilli(m.CreatedMs).UTC(),
			RolledBack: m.RolledBack, SignedManifest: b,
		})
	}
	return out, nil
}

// historyResponse is the answer of GET history.
type historyResponse struct {
	Versions []ModelVersion `json:"versions"`
}

func adminHistory(c *Coordinator, _ http.ResponseWriter, _ *http.Request) (any, error) {
	all, err := c.History()
	return historyResponse{all}, err
}

// CountedRound lists the devices whose reports are in a round's sum, for tests of a whole federation.
type CountedRound struct {
	Closed    bool           `json:"closed"`
	DeviceIDs []uint32       `json:"device_ids"`
	Digests   []ReportDigest `json:"digests"`
}

// ReportDigest is the first 8 bytes of a report's SHA-256, in hex as text.
type ReportDigest [8]byte

// MarshalText writes the digest in hex.
func (d ReportDigest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText reads a digest in hex.
func (d *ReportDigest) UnmarshalText(b []byte) error {
	if len(b) != 2*len(d) {
		return fmt.Errorf("digest of %d letters: must be %d", len(b), 2*len(d))
	}
	_, err := hex.Decode(d[:], b)
	return err
}

func adminCounted(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := number(r.URL.Query(), "round")
	if err != nil {
		return nil, err
	}
	out := CountedRound{DeviceIDs: []uint32{}, Digests: []ReportDigest{}}
	closed, err := c.collection.History.Read(uint32(n))
	if err != nil || closed == nil {
		return out, err
	}
	out.Closed = true
	out.DeviceIDs = append(out.DeviceIDs, closed.Devices...)
	for _, digest := range closed.Digests {
		out.Digests = append(out.Digests, ReportDigest(binary.LittleEndian.AppendUint64(nil, digest)))
	}
	return out, nil
}

func adminExport(c *Coordinator, w http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	version, err := number(q, "version")
	if err != nil {
		return nil, err
	}
	format := q.Get("format")
	if format == "" {
		format = "npy"
	}
	b, err := c.Export(version, format)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	for piece := range slices.Chunk(b, pieceBytes) {
		if _, err := w.Write(piece); err != nil {
			break // the client has gone
		}
	}
	return nil, nil
}

// jsonItem is an item in the admin API.
type jsonItem struct {
	ID       string            `json:"id"`
	Title    string            `json:"title,omitempty"`
	Retired  bool              `json:"retired,omitempty"`
	Features map[string]string `json:"features,omitempty"` // by column; several categories are separated by |
}

func jsonItems(items []*pb.Item) []jsonItem {
	out := make([]jsonItem, len(items))
	for i, it := range items {
		out[i] = jsonItem{ID: it.Id, Title: it.Title, Retired: it.Retired}
		for _, f := range it.Features {
			if out[i].Features == nil {
				out[i].Features = map[string]string{}
			}
			out[i].Features[f.Key] = f.Value
		}
	}
	return out
}

func itemsOf(items []jsonItem) []*pb.Item {
	out := make([]*pb.Item, len(items))
	for i, it := range items {
		out[i] = &pb.Item{Id: it.ID, Title: it.Title, Retired: it.Retired}
		for _, key := range slices.Sorted(maps.Keys(it.Features)) {
			out[i].Features = append(out[i].Features, &pb.Setting{Key: key, Value: it.Features[key]})
		}
	}
	return out
}

// itemsRequest is the body of POST items.
type itemsRequest struct {
	Items []jsonItem `json:"items"`
}

func adminItems(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	var q itemsRequest
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	out, err := c.AddItems(itemsOf(q.Items))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// maxTokenHours is how long a token may be valid.
const maxTokenHours = 10 * 365 * 24

// tokenRequest is the body of POST tokens.
type tokenRequest struct {
	Uses  int    `json:"uses"`
	Hours int    `json:"hours"`
	Note  string `json:"note"`
}

func adminMakeToken(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	q := tokenRequest{Uses: 1, Hours: 24}
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	if q.Hours < 1 || q.Hours > maxTokenHours {
		return nil, refusal(connect.CodeInvalidArgument, fmt.Errorf("hours = %d: must be 1 to %d, which is 10 years",
			q.Hours, maxTokenHours))
	}
	text, err := c.Token(q.Uses, time.Duration(q.Hours)*time.Hour, q.Note)
	if err != nil {
		return nil, refusal(connect.CodeInvalidArgument, err)
	}
	return map[string]any{"token": text, "uses": q.Uses, "hours": q.Hours, "note": q.Note}, nil
}

// adminDevice makes a call that changes the state of one device.
func adminDevice(do func(*Coordinator, uint32) error) adminFunc {
	return change(func(c *Coordinator, q deviceRequest) error { return do(c, q.DeviceID) })
}

// rollbackRequest is the body of POST rollback.
type rollbackRequest struct {
	Version uint64 `json:"version"`
}

var adminRollback = change(func(c *Coordinator, q rollbackRequest) error { return c.Rollback(q.Version) })

func adminPause(pause bool) adminFunc {
	return change(func(c *Coordinator, _ struct{}) error { return c.Pause(pause) })
}

// beginRequest is the body of POST runs. Without settings a run has those of the run before.
type beginRequest struct {
	Settings json.RawMessage `json:"settings,omitempty"`
	Items    []jsonItem      `json:"items,omitempty"`
	Features []jsonColumn    `json:"features,omitempty"`
}

// changesMethod reports whether the settings name another method.
func (q *beginRequest) changesMethod(before string) bool {
	s := struct {
		Method string `json:"method"`
	}{before}
	return json.Unmarshal(q.Settings, &s) == nil && s.Method != before
}

// jsonColumn is pb.Column in the admin API.
type jsonColumn struct {
	Side       string    `json:"side"` // user, item or row
	Name       string    `json:"name"`
	Categories uint32    `json:"categories,omitempty"` // 0 for a numeric column
	Names      []string  `json:"names,omitempty"`      // of the categories
	Sets       bool      `json:"sets,omitempty"`       // each value is a set of categories
	Code       []uint32  `json:"code,omitempty"`       // categories by item; sets are concatenated
	Start      []uint32  `json:"start,omitempty"`      // sets only: where each item's set begins, and the end
	Value      []float32 `json:"value,omitempty"`      // numeric columns only
}

var columnSides = map[string]pb.Column_Side{"user": pb.Column_USER, "item": pb.Column_ITEM, "row": pb.Column_ROW}

func jsonColumns(f *pb.Features) (out []jsonColumn) {
	for _, c := range f.GetColumns() {
		side := ""
		for name, s := range columnSides {
			if s == c.Side {
				side = name
			}
		}
		out = append(out, jsonColumn{side, c.Name, c.Categories, c.Names, c.Sets, c.Code, c.Start, c.Value})
	}
	return out
}

func columnsOf(columns []jsonColumn) *pb.Features {
	out := &pb.Features{}
	for _, c := range columns {
		out.Columns = append(out.Columns, &pb.Column{
			Side: columnSides[c.Side], Name: c.Name, Categories: c.Categories, Names: c.Names, Sets: c.Sets,
			Code: c.Code, Start: c.Start, Value: c.Value,
		})
	}
	return out
}

// adminBegin begins a run. Settings that are missing are those of the run before, or have their defaults.
func adminBegin(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	var q beginRequest
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	var s *Settings
	if q.Settings != nil {
		s = defaultSettings()
		s.methods = c.opt.Methods
		var last *Settings
		if c.begun() {
			before := c.latest.Load().given
			last = &c.latest.Load().given
			if before.Params = maps.Clone(before.Params); q.changesMethod(before.Method) {
				before.Params = map[string]string{} // another method has others
			}
			s = &before
		}
		if err := json.Unmarshal(q.Settings, s); err != nil {
			return nil, refusal(connect.CodeInvalidArgument, fmt.Errorf("malformed settings: %s",
				strings.TrimPrefix(err.Error(), "json: ")))
		}
		s.fitPasses(q.Settings, last)
	}
	if len(q.Features) > 0 && s != nil {
		b, err := wire.Marshal(columnsOf(q.Features))
		if err == nil {
			s.Features, err = wire.ReadFeatures(b, len(q.Items))
		}
		if err != nil {
			return nil, refusal(connect.CodeInvalidArgument, err)
		}
	}
	items := itemsOf(q.Items)
	err := c.BeginRun(s, items)
	if s != nil && errors.Is(err, ErrBegun) { // the same settings again, or it says what differs
		err = c.Begin(*s, items)
	}
	if err != nil {
		return nil, notNow(err)
	}
	return c.Status(), nil
}

// notNow makes the text of an error reach the operator: the call is impossible in this state.
func notNow(err error) error {
	if err == nil || errors.As(err, new(*connect.Error)) {
		return err
	}
	return refusal(connect.CodeFailedPrecondition, err)
}

// resetRequest is the body of POST budget/reset.
type resetRequest struct {
	Reason string `json:"reason"`
}

var adminResetBudget = change(func(c *Coordinator, q resetRequest) error { return notNow(c.ResetBudget(q.Reason)) })

func adminEvaluations(c *Coordinator, _ http.ResponseWriter, _ *http.Request) (any, error) {
	s := c.Status()
	return map[string]any{"evaluations": s.Evaluations, "missed": s.EvaluationMissed}, nil
}

// defaultSettings are the settings of a run that names none.
func defaultSettings() *Settings {
	s := &Settings{Goal: 1, Minimum: 0.5, Deadline: 30 * time.Second, Params: map[string]string{}}
	param.Defaults(&s.Config)
	return s
}
