package coordinator

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/rpc"
)

// adminCall is one call of the admin API. docs/admin-api.md documents them.
type adminCall struct {
	query []string // the keys that its query may have
	// do answers the call: with the value that it returns, or by writing to w.
	do func(c *Coordinator, w http.ResponseWriter, r *http.Request) (any, error)
}

// adminCalls are the calls of the admin API, by method and path.
var adminCalls = map[string]adminCall{
	"GET status":  {do: answer((*Coordinator).Status)},
	"GET history": {do: adminHistory},
	"GET counted": {query: []string{"round"}, do: adminCounted},
	"GET export":  {query: []string{"version", "format"}, do: adminExport},
	"POST runs":   {do: adminBegin},
	"POST pause":  {do: adminPause(true)},
	"POST resume": {do: adminPause(false)},
	"POST items":  {do: adminItems},
	"POST tokens": {do: adminMakeToken},
	"POST rollback": {do: change(func(c *Coordinator, q struct {
		Version uint64 `json:"version"`
	},
	) error {
		return c.Rollback(q.Version)
	})},
	"POST devices/revoke": {do: change(func(c *Coordinator, q deviceRequest) error { return c.Revoke(q.DeviceID) })},
}

// deviceRequest names a device.
type deviceRequest struct {
	DeviceID uint32 `json:"device_id"`
}

// adminAccess is who may call the admin API.
type adminAccess struct {
	mu    sync.Mutex
	token string
}

// SetAdminToken sets the token that allows all calls of the admin API. Without one the API is closed.
func (c *Coordinator) SetAdminToken(token string) {
	c.admin.mu.Lock()
	defer c.admin.mu.Unlock()
	c.admin.token = token
}

// serveAdmin answers a call of the admin API.
func (c *Coordinator) serveAdmin(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimPrefix(r.URL.Path, rpc.AdminPrefix)
	call, ok := adminCalls[r.Method+" "+path]
	if !ok {
		return unknownAdminCall(r.Method, path)
	}
	for key := range r.URL.Query() {
		if !slices.Contains(call.query, key) {
			return refusal(connect.CodeInvalidArgument, fmt.Errorf("unknown parameter %.40q: must be one of %s", key,
				strings.Join(call.query, ", ")))
		}
	}
	if r.Method == http.MethodPost {
		if err := rpc.CheckContentType(r, "application/json"); err != nil {
			return err
		}
	}
	out, err := call.do(c, w, r)
	if err != nil || out == nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(out) // the client has gone
	return nil
}

// authorize returns the operator whose token it is. Hashes have the same length, so that the time of
// the comparison does not reveal the token's.
func (c *Coordinator) authorize(token string) (rpc.Operator, bool) {
	c.admin.mu.Lock()
	expected := c.admin.token
	c.admin.mu.Unlock()
	got, must := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(expected))
	same := subtle.ConstantTimeCompare(got[:], must[:]) == 1
	return rpc.Operator{Name: "local"}, same && expected != ""
}

func unknownAdminCall(method, path string) error {
	for _, other := range []string{http.MethodGet, http.MethodPost} {
		if _, ok := adminCalls[other+" "+path]; ok {
			return rpc.Refuse(rpc.Malformed, connect.CodeUnimplemented, "%s %s%s: use %s", method, rpc.AdminPrefix,
				path, other)
		}
	}
	return refusal(connect.CodeNotFound, fmt.Errorf("unknown call %s%.80s: docs/admin-api.md lists the calls",
		rpc.AdminPrefix, path))
}

// answer makes a call that returns what the coordinator knows.
func answer[T any](get func(*Coordinator) T) func(*Coordinator, http.ResponseWriter, *http.Request) (any, error) {
	return func(c *Coordinator, _ http.ResponseWriter, _ *http.Request) (any, error) { return get(c), nil }
}

// change makes a call that changes something, and answers with the state afterwards.
func change[Q any](do func(*Coordinator, Q) error) func(*Coordinator, http.ResponseWriter, *http.Request) (any, error) {
	return func(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
		var q Q
		if err := readJSON(r, &q); err != nil {
			return nil, err
		}
		if err := do(c, q); err != nil {
			return nil, err
		}
		return c.Status(), nil
	}
}

// readJSON reads the body of a call: one JSON object without unknown keys. An empty body is an empty object.
func readJSON(r *http.Request, out any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return &rpc.BodyError{Err: err}
	}
	if len(b) == 0 {
		b = []byte("{}")
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	err = d.Decode(out)
	if err == nil && d.More() {
		err = errors.New("text after the JSON object")
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "json: ")
		return refusal(connect.CodeInvalidArgument, fmt.Errorf("malformed body: %s", text))
	}
	return nil
}

// number reads a parameter of a query; a missing one is 0.
func number(q url.Values, key string) (uint64, error) {
	text := q.Get(key)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, refusal(connect.CodeInvalidArgument, fmt.Errorf("%s = %.40q: must be an integer of 0 or more", key,
			text))
	}
	return n, nil
}
