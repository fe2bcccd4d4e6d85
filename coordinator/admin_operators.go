package coordinator

import (
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/audit"
	"github.com/tacit-rec/tacit/coordinator/internal/operators"
)

type (
	// Operator may call the admin API with a token of its own.
	Operator = operators.Operator
	// AuditEntry is a line of the audit log.
	AuditEntry = audit.Entry
)

// Audit is the end of the audit log.
type Audit struct {
	Entries []AuditEntry `json:"entries"`
	Lines   int          `json:"lines"` // of the whole log
	OK      bool         `json:"ok"`    // no line of the whole log was changed or removed
	Damage  string       `json:"damage,omitempty"`
}

// openAudit opens the audit log and warns if it was changed. Training does not depend on it.
func (c *Coordinator) openAudit() (err error) {
	if c.admin.log, err = audit.Open(c.opt.Dir, c.opt.Now); err != nil {
		return err
	}
	found, err := c.Audit(1)
	if err != nil {
		return err
	}
	if c.admin.damage = found.Damage; found.Damage != "" {
		c.opt.Warn(found.Damage + "; tacit admin audit shows what is left of it")
	}
	return nil
}

// Audit verifies the whole audit log and returns its last entries.
func (c *Coordinator) Audit(limit int) (*Audit, error) {
	written := 0
	if err := c.st.GetJSON(auditLinesKey, &written); err != nil {
		return nil, err
	}
	entries, damage, err := c.admin.log.Read(limit, written)
	if err != nil {
		return nil, err
	}
	out := &Audit{Entries: entries, Lines: c.admin.log.Lines(), OK: damage == nil}
	if damage != nil {
		out.Damage = damage.Error()
	}
	if out.Entries == nil {
		out.Entries = []AuditEntry{}
	}
	return out, nil
}

func adminAudit(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	limit, err := number(r.URL.Query(), "limit")
	if err != nil {
		return nil, err
	}
	if limit == 0 || limit > 100_000 {
		limit = 100
	}
	return c.Audit(int(limit))
}

// operatorsResponse is the answer of GET operators.
type operatorsResponse struct {
	Operators []Operator `json:"operators"`
}

func adminOperators(c *Coordinator, _ http.ResponseWriter, _ *http.Request) (any, error) {
	return operatorsResponse{c.admin.operators.All()}, nil
}

// operatorRequest is the body of POST operators and POST operators/remove.
type operatorRequest struct {
	Name     string `json:"name"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

func adminAddOperator(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	var q operatorRequest
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	token, err := c.admin.operators.Add(q.Name, q.ReadOnly, c.now())
	if err != nil {
		return nil, operatorError(err)
	}
	return map[string]any{"name": q.Name, "read_only": q.ReadOnly, "token": token}, nil
}

func adminRemoveOperator(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	var q operatorRequest
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	if err := c.admin.operators.Remove(q.Name); err != nil {
		return nil, operatorError(err)
	}
	return operatorsResponse{c.admin.operators.All()}, nil
}

func operatorError(err error) error {
	switch {
	case errors.Is(err, operators.ErrName):
		return refusal(connect.CodeInvalidArgument, err)
	case errors.Is(err, operators.ErrUnknown):
		return refusal(connect.CodeNotFound, err)
	case errors.Is(err, operators.ErrTaken), errors.Is(err, operators.ErrFull):
		return refusal(connect.CodeFailedPrecondition, err)
	}
	return err
}
