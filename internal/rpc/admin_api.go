//go:build !js

package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
)

// AdminPrefix begins the path of every call of the admin API.
const AdminPrefix = "/admin/v1/"

// AdminClient calls the admin API.
type AdminClient struct {
	http http.Client
	url  string
}

// DialAdmin returns a client of the admin API. It makes no call yet.
func DialAdmin(o Options) (*AdminClient, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &AdminClient{
		http: http.Client{Transport: &bearer{o.Token, o.Transport}, CheckRedirect: noRedirect},
		url:  strings.TrimSuffix(o.URL, "/") + AdminPrefix,
	}, nil
}

// Get makes a call that reads. The path may have a query; out receives the answer.
func (c *AdminClient) Get(ctx context.Context, path string, out any) error {
	return c.call(ctx, http.MethodGet, path, nil, out)
}

// Post makes a call that changes something. in is its body as JSON; nil means an empty object.
func (c *AdminClient) Post(ctx context.Context, path string, in, out any) error {
	return c.call(ctx, http.MethodPost, path, in, out)
}

// Stream makes a call that reads, and copies the answer.
func (c *AdminClient) Stream(ctx context.Context, path string, to io.Writer) (int64, error) {
	a, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	n, err := io.Copy(to, a.Body)
	if err != nil {
		err = fmt.Errorf("the answer broke off after %d bytes: %w", n, err)
	}
	return n, err
}

// maxAdminBytes is the largest answer that an AdminClient reads into memory.
const maxAdminBytes = 1 << 30

func (c *AdminClient) call(ctx context.Context, method, path string, in, out any) error {
	a, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if err := json.NewDecoder(io.LimitReader(a.Body, maxAdminBytes)).Decode(out); err != nil {
		return fmt.Errorf("the answer of the admin API is malformed: %w", err)
	}
	return nil
}

// send returns an answer with status 200, whose body the caller closes.
func (c *AdminClient) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	body := []byte("{}")
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	if method == http.MethodGet {
		body = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := c.http.Do(r)
	if err != nil {
		return nil, &callError{connect.NewError(connect.CodeUnavailable, err)}
	}
	if a.StatusCode == http.StatusOK {
		return a, nil
	}
	defer a.Body.Close()
	return nil, adminErrorOf(a)
}

// adminErrorOf reads the error of an answer.
func adminErrorOf(a *http.Response) error {
	var body errorBody
	err := json.NewDecoder(io.LimitReader(a.Body, 1<<20)).Decode(&body)
	if err != nil || body.Error.Code == "" {
		body.Error.Code = Malformed
		body.Error.Message = fmt.Sprintf("this address does not serve the admin API: HTTP status %d", a.StatusCode)
	}
	code := connect.CodeInternal
	for _, c := range []connect.Code{
		connect.CodeInvalidArgument, connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeNotFound,
		connect.CodeUnimplemented, connect.CodeFailedPrecondition, connect.CodeResourceExhausted,
		connect.CodeUnavailable,
	} {
		if statusOf[c] == a.StatusCode {
			code = c
		}
	}
	var ce *connect.Error
	errors.As(Refuse(body.Error.Code, code, "%s", body.Error.Message), &ce)
	return &callError{ce}
}

// CheckContentType refuses a body that is not of one of the given types, or that is compressed.
func CheckContentType(r *http.Request, allowed ...string) error {
	got, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !slices.Contains(allowed, strings.TrimSpace(got)) {
		return Refuse(Malformed, connect.CodeInvalidArgument, "content type %.40q: must be %s", got,
			strings.Join(allowed, " or "))
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return Refuse(Malformed, connect.CodeInvalidArgument, "compressed bodies are not supported")
	}
	return nil
}
