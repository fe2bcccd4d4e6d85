package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/coordinator/internal/enrolment"
)

// What operators see of devices and of the ways to enrol.
type (
	DeviceInfo = enrolment.Device
	TokenInfo  = enrolment.Token
	AppKeyInfo = enrolment.AppKey
)

// DeviceList is a page of the device list.
type DeviceList struct {
	Devices []ListedDevice `json:"devices"`
	// Next is the first ID of the next page; 0 if this is the last one.
	Next uint32 `json:"next"`
}

// ListedDevice is a device and the privacy cost of the releases since it enrolled.
type ListedDevice struct {
	DeviceInfo
	Epsilon *float64 `json:"epsilon,omitempty"` // none without a privacy guarantee
}

// maxListed is the largest number of devices on a page.
const maxListed = 1000

// Devices lists devices by ID, from a first ID on.
func (c *Coordinator) Devices(from uint32, limit int) DeviceList {
	if limit <= 0 || limit > maxListed {
		limit = maxListed
	}
	out := DeviceList{Devices: []ListedDevice{}}
	all := c.devices.Devices(c.now(), from, limit+1)
	if len(all) > limit {
		out.Next = all[limit].ID
		all = all[:limit]
	}
	secret := c.begun() && c.sampled()
	for _, d := range all {
		if secret && d.LastSeen != nil { // a report moves it: to the second, it would tell who is in the sample
			hour := d.LastSeen.Truncate(time.Hour)
			d.LastSeen = &hour
		}
		listed := ListedDevice{DeviceInfo: d}
		if epsilon, ok := c.DeviceEpsilon(d.ID); ok {
			listed.Epsilon = &epsilon
		}
		out.Devices = append(out.Devices, listed)
	}
	return out
}

func adminDevices(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	from, limit, err := page(r)
	return c.Devices(uint32(from), limit), err
}

// tokensResponse is the answer of GET tokens.
type tokensResponse struct {
	Tokens []TokenInfo `json:"tokens"`
}

// idRequest names a token or an app key.
type idRequest struct {
	ID string `json:"id"`
}

// appKeyRequest is the body of POST app-keys.
type appKeyRequest struct {
	PublicKey enrolment.Hex `json:"public_key"`
	Note      string        `json:"note,omitempty"`
}

// appKeysResponse is the answer of GET app-keys.
type appKeysResponse struct {
	Federation enrolment.Hex `json:"federation"` // the ID that app tokens are signed for
	AppKeys    []AppKeyInfo  `json:"app_keys"`
}

// Tokens lists the tokens.
func (c *Coordinator) Tokens() []TokenInfo { return c.devices.Tokens() }

// RevokeToken refuses a token from now on. Devices that enrolled with it stay.
func (c *Coordinator) RevokeToken(id string) error {
	return unknownID("token", "tokens", id, c.devices.RevokeToken(id))
}

// AddAppKey accepts the app tokens that the owner of an ed25519 key signs (see wire.NewAppToken).
func (c *Coordinator) AddAppKey(public []byte, note string) (id string, err error) {
	id, err = c.devices.AddAppKey(public, note, c.now())
	if err != nil {
		err = refusal(connect.CodeInvalidArgument, err)
	}
	return id, err
}

// RemoveAppKey refuses the tokens of an app key from now on.
func (c *Coordinator) RemoveAppKey(id string) error {
	return unknownID("app key", "app-key --list", id, c.devices.RemoveAppKey(id))
}

func unknownID(what, list, id string, err error) error {
	if errors.Is(err, enrolment.ErrUnknown) {
		return refusal(connect.CodeNotFound, fmt.Errorf("unknown %s %.40q: tacit admin %s shows the IDs", what, id,
			list))
	}
	return err
}

func adminAddAppKey(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	var q appKeyRequest
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	id, err := c.AddAppKey(q.PublicKey, q.Note)
	if err != nil {
		return nil, err
	}
	return idRequest{id}, nil
}

func adminTokens(c *Coordinator) tokensResponse { return tokensResponse{c.Tokens()} }

func adminAppKeys(c *Coordinator) appKeysResponse {
	return appKeysResponse{c.identity.id[:], c.devices.AppKeys()}
}

// adminID makes a call that changes a token or an app key.
func adminID(do func(*Coordinator, string) error) adminFunc {
	return change(func(c *Coordinator, q idRequest) error { return do(c, q.ID) })
}

// Devices lists a page of devices, from a first ID on.
func (a *AdminClient) Devices(ctx context.Context, from uint32) (*DeviceList, error) {
	out := &DeviceList{}
	return out, a.Get(ctx, fmt.Sprintf("devices?from=%d", from), out)
}

// Tokens lists the tokens.
func (a *AdminClient) Tokens(ctx context.Context) ([]TokenInfo, error) {
	var out tokensResponse
	err := a.Get(ctx, "tokens", &out)
	return out.Tokens, err
}

// RevokeToken refuses a token from now on.
func (a *AdminClient) RevokeToken(ctx context.Context, id string) (*Status, error) {
	return a.change(ctx, "tokens/revoke", idRequest{id})
}

// AppKeys lists the app keys, and the federation ID that app tokens are signed for.
func (a *AdminClient) AppKeys(ctx context.Context) (federation []byte, keys []AppKeyInfo, err error) {
	var out appKeysResponse
	err = a.Get(ctx, "app-keys", &out)
	return out.Federation, out.AppKeys, err
}

// AddAppKey accepts app tokens that the owner of a key signs.
func (a *AdminClient) AddAppKey(ctx context.Context, public []byte, note string) (id string, err error) {
	var out idRequest
	err = a.Post(ctx, "app-keys", appKeyRequest{public, note}, &out)
	return out.ID, err
}

// RemoveAppKey refuses the tokens of an app key from now on.
func (a *AdminClient) RemoveAppKey(ctx context.Context, id string) (*Status, error) {
	return a.change(ctx, "app-keys/remove", idRequest{id})
}
