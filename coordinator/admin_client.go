package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/tacit-rec/tacit/coordinator/internal/audit"
	"github.com/tacit-rec/tacit/coordinator/internal/budget"
	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// AdminClient calls the admin API of a coordinator. Calls that change something return the state
// afterwards.
type AdminClient struct{ *rpc.AdminClient }

// DialAdmin returns a client of the admin API. It makes no call yet.
func DialAdmin(o rpc.Options) (*AdminClient, error) {
	c, err := rpc.DialAdmin(o)
	return &AdminClient{c}, err
}

// Status returns the state of the coordinator.
func (a *AdminClient) Status(ctx context.Context) (*Status, error) {
	s := &Status{}
	return s, a.Get(ctx, "status", s)
}

func (a *AdminClient) change(ctx context.Context, path string, in any) (*Status, error) {
	s := &Status{}
	return s, a.Post(ctx, path, in, s)
}

// Begin begins a run with all of its settings.
func (a *AdminClient) Begin(ctx context.Context, s Settings, items []*pb.Item) (*Status, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return a.begin(ctx, text, items, s.Features)
}

// BeginNext begins another run with the settings of the newest one, except for changes: they have the keys of
// Settings. Items are added to the catalogue.
func (a *AdminClient) BeginNext(ctx context.Context, changes map[string]any, items []*pb.Item,
	features *rows.Features,
) (*Status, error) {
	var text []byte
	if len(changes) > 0 || features != nil {
		var err error
		if text, err = json.Marshal(changes); err != nil {
			return nil, err
		}
	}
	return a.begin(ctx, text, items, features)
}

func (a *AdminClient) begin(ctx context.Context, settings []byte, items []*pb.Item, features *rows.Features) (*Status,
	error,
) {
	q := beginRequest{Settings: settings, Items: jsonItems(items)}
	if features != nil {
		q.Features = jsonColumns(wire.EncodeFeatures(features))
	}
	return a.change(ctx, "runs", q)
}

// EndRun ends the newest run after the round in progress.
func (a *AdminClient) EndRun(ctx context.Context) (*Status, error) {
	return a.change(ctx, "runs/end", nil)
}

// ResetBudget begins a new budget period.
func (a *AdminClient) ResetBudget(ctx context.Context, reason string) (*Status, error) {
	return a.change(ctx, "budget/reset", resetRequest{reason})
}

// Pause pauses training after the round in progress, or resumes it.
func (a *AdminClient) Pause(ctx context.Context, pause bool) (*Status, error) {
	if pause {
		return a.change(ctx, "pause", nil)
	}
	return a.change(ctx, "resume", nil)
}

// Rollback requests an older model version, from the next round on.
func (a *AdminClient) Rollback(ctx context.Context, version uint64) (*Status, error) {
	return a.change(ctx, "rollback", rollbackRequest{version})
}

// Revoke refuses a device from now on.
func (a *AdminClient) Revoke(ctx context.Context, id uint32) (*Status, error) {
	return a.change(ctx, "devices/revoke", deviceRequest{id})
}

// History lists the model versions on disk, the oldest first.
func (a *AdminClient) History(ctx context.Context) ([]ModelVersion, error) {
	var out historyResponse
	err := a.Get(ctx, "history", &out)
	return out.Versions, err
}

// Counted lists the devices in a round's sum.
func (a *AdminClient) Counted(ctx context.Context, round uint32) (*CountedRound, error) {
	out := &CountedRound{}
	return out, a.Get(ctx, fmt.Sprintf("counted?round=%d", round), out)
}

// MakeToken makes a token that lets a number of devices enrol within some hours.
func (a *AdminClient) MakeToken(ctx context.Context, uses, hours int, note string) (string, error) {
	var out struct {
		Token string `json:"token"`
	}
	err := a.Post(ctx, "tokens", tokenRequest{uses, hours, note}, &out)
	return out.Token, err
}

// Export copies a model as a zip file of tables in a format, npy or csv; version 0 is the newest.
func (a *AdminClient) Export(ctx context.Context, version uint64, format string, to io.Writer) (int64, error) {
	return a.Stream(ctx, fmt.Sprintf("export?version=%d&format=%s", version, url.QueryEscape(format)), to)
}

// Backup copies a backup as a tar archive: see ReceiveBackup.
func (a *AdminClient) Backup(ctx context.Context, to io.Writer, o BackupOptions) error {
	q := url.Values{"partial": {fmt.Sprint(o.Partial)}}
	for key, name := range map[string]string{"ledger_from": budget.File, "audit_from": audit.File} {
		if n := o.Have[name]; n > 0 {
			q.Set(key, fmt.Sprint(n))
		}
	}
	_, err := a.Stream(ctx, "backup?"+q.Encode(), to)
	return err
}

// Readmit ends the exclusion of a device.
func (a *AdminClient) Readmit(ctx context.Context, id uint32) (*Status, error) {
	return a.change(ctx, "devices/readmit", deviceRequest{id})
}

// Audit verifies the audit log and returns its last entries, at most limit.
func (a *AdminClient) Audit(ctx context.Context, limit int) (*Audit, error) {
	out := &Audit{}
	return out, a.Get(ctx, fmt.Sprintf("audit?limit=%d", limit), out)
}

// Operators lists the operators that have a token of their own.
func (a *AdminClient) Operators(ctx context.Context) ([]Operator, error) {
	var out operatorsResponse
	err := a.Get(ctx, "operators", &out)
	return out.Operators, err
}

// AddOperator adds an operator and returns the token.
func (a *AdminClient) AddOperator(ctx context.Context, name string, readOnly bool) (token string, err error) {
	var out struct {
		Token string `json:"token"`
	}
	err = a.Post(ctx, "operators", operatorRequest{name, readOnly}, &out)
	return out.Token, err
}

// RemoveOperator revokes the token of an operator.
func (a *AdminClient) RemoveOperator(ctx context.Context, name string) error {
	return a.Post(ctx, "operators/remove", operatorRequest{Name: name}, &operatorsResponse{})
}
