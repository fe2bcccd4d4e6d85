package coordinator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/audit"
	"github.com/tacit-rec/tacit/coordinator/internal/operators"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// adminCall is one call of the admin API. docs/admin-api.md documents them.
type adminCall struct {
	query  []string // the keys that its query may have
	secret bool     // it reads what a read-only operator may not see; recorded like a change
	do     adminFunc
}

// adminFunc answers a call: with the value that it returns, or by writing to w.
type adminFunc = func(c *Coordinator, w http.ResponseWriter, r *http.Request) (any, error)

// adminCalls are the calls of the admin API, by method and path.
var adminCalls = map[string]adminCall{
	"GET status":      {do: answer((*Coordinator).Status)},
	"GET history":     {do: adminHistory},
	"GET runs":        {do: answer(adminRuns)},
	"GET rounds":      {do: answer(adminRounds)},
	"GET items":       {query: []string{"from", "limit"}, do: adminListItems},
	"GET counted":     {query: []string{"round"}, secret: true, do: adminCounted},
	"GET audit":       {query: []string{"limit"}, do: adminAudit},
	"GET operators":   {do: adminOperators},
	"GET budget":      {do: answer((*Coordinator).Budget)},
	"GET evaluations": {do: adminEvaluations},
	"GET backup":      {query: []string{"partial", "ledger_from", "audit_from"}, secret: true, do: adminBackup},
	"GET export":      {query: []string{"version", "format"}, secret: true, do: adminExport},

	"GET devices":  {query: []string{"from", "limit"}, do: adminDevices},
	"GET tokens":   {do: answer(adminTokens)},
	"GET app-keys": {do: answer(adminAppKeys)},

	"POST runs":             {do: adminBegin},
	"POST runs/end":         {do: change(func(c *Coordinator, _ struct{}) error { return notNow(c.EndRun()) })},
	"POST budget/reset":     {do: adminResetBudget},
	"POST pause":            {do: adminPause(true)},
	"POST resume":           {do: adminPause(false)},
	"POST rollback":         {do: adminRollback},
	"POST items":            {do: adminItems},
	"POST tokens":           {do: adminMakeToken},
	"POST tokens/revoke":    {do: adminID((*Coordinator).RevokeToken)},
	"POST app-keys":         {do: adminAddAppKey},
	"POST app-keys/remove":  {do: adminID((*Coordinator).RemoveAppKey)},
	"POST devices/revoke":   {do: adminDevice((*Coordinator).Revoke)},
	"POST devices/readmit":  {do: adminDevice((*Coordinator).Readmit)},
	"POST operators":        {do: adminAddOperator},
	"POST operators/remove": {do: adminRemoveOperator},
}

// deviceRequest names a device.
type deviceRequest struct {
	DeviceID uint32 `json:"device_id"`
}

// admin is what operators and monitors need.
type admin struct {
	operators *operators.List
	log       *audit.Log
	damage    string // of the log, found at the start
	durations durations
	health    health
	rounds    roundLog
	traffic   traffic
}

// SetAdminToken sets the token of the local operator, who may make all calls of the admin API; empty for none.
func (c *Coordinator) SetAdminToken(token string) { c.admin.operators.SetLocal(token) }

// authorize returns the operator whose token it is.
func (c *Coordinator) authorize(token string) (rpc.Operator, bool) {
	o, ok := c.admin.operators.Find(token)
	return rpc.Operator{Name: o.Name, ReadOnly: o.ReadOnly}, ok
}

// serveAdmin answers a call of the admin API. Calls that change something are in the audit log before they do.
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
	if r.Method == http.MethodGet && !call.secret {
		return c.answerAdmin(w, r, call)
	}
	if err := c.refuseReads(); err != nil { // it could not be written either
		return err
	}
	end, err := c.audit(r, path)
	if err != nil {
		return err
	}
	if operator := rpc.OperatorFrom(r.Context()); operator.ReadOnly {
		err = rpc.Refuse(rpc.Forbidden, connect.CodePermissionDenied,
			"the token of operator %s may only read; use another token", operator.Name)
	} else {
		err = c.answerAdmin(w, r, call)
	}
	end(err)
	return err
}

func (c *Coordinator) answerAdmin(w http.ResponseWriter, r *http.Request, call adminCall) error {
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

// audit reads the body of a call and records that it begins. end records its outcome.
func (c *Coordinator) audit(r *http.Request, path string) (end func(error), err error) {
	args, _ := json.Marshal(map[string][]string(r.URL.Query()))
	if r.Method == http.MethodPost {
		if err := rpc.CheckContentType(r, "application/json"); err != nil {
			return nil, err
		}
		if args, err = io.ReadAll(r.Body); err != nil {
			return nil, &rpc.BodyError{Err: err}
		}
		r.Body = io.NopCloser(bytes.NewReader(args))
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	done, err := c.admin.log.Begin(audit.Call{
		Name: r.Method + " " + path, Args: args, Operator: rpc.OperatorFrom(r.Context()).Name, Remote: host,
	})
	if err != nil {
		return nil, rpc.Refuse(rpc.NotNow, connect.CodeUnavailable, "%v", err)
	}
	return func(err error) {
		outcome := "ok"
		if err != nil {
			outcome = rpc.Code(err)
		}
		c.opt.Info("admin call", "call", r.Method+" "+path, "operator", rpc.OperatorFrom(r.Context()).Name,
			"remote", host, "outcome", outcome)
		err = done(outcome)
		if err == nil {
			err = c.st.PutJSON(auditLinesKey, c.admin.log.Lines())
		}
		if err == nil && path == "backup" {
			c.progress.count(backupsMade, 1)
		} else {
			c.progress.count(adminCallsMade, 1)
		}
		if err != nil {
			c.opt.Warn(fmt.Sprintf("%s %s is done, but its outcome is not in the audit log: %v", r.Method, path, err))
		}
	}, nil
}

// Counters of the calls in the audit log: each backup, and each other call. Each of them writes one record to the
// store when it ends.
const (
	backupsMade    = "backups"
	adminCallsMade = "admin_calls"
)

// auditLinesKey is the key of the number of lines of the audit log, by which a shortened one is noticed.
const auditLinesKey = "audit_lines"

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
func answer[T any](get func(*Coordinator) T) adminFunc {
	return func(c *Coordinator, _ http.ResponseWriter, _ *http.Request) (any, error) { return get(c), nil }
}

// change makes a call that changes something, and answers with the state afterwards.
func change[Q any](do func(*Coordinator, Q) error) adminFunc {
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
