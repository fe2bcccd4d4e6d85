package rpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall/js"
)

var errTooLong = fmt.Errorf("the response exceeds %d bytes", maxResponseBytes)

// post sends a body with fetch. It sends no cookies and no referrer, and follows no redirects: a signature is valid
// for one coordinator only.
func post(ctx context.Context, url, auth string, body []byte) (*answer, error) {
	abort := js.Global().Get("AbortController").New()
	stop := context.AfterFunc(ctx, func() { abort.Call("abort") })
	defer stop()
	defer abort.Call("abort") // frees the body of an answer that was not read to its end
	data := js.Global().Get("Uint8Array").New(len(body))
	js.CopyBytesToJS(data, body)
	headers := map[string]any{"Content-Type": "application/proto", "Connect-Protocol-Version": "1"}
	if auth != "" {
		headers[authHeader] = auth
	}
	response, err := Await(js.Global().Call("fetch", url, map[string]any{
		"method": "POST", "body": data, "headers": headers, "credentials": "omit", "cache": "no-store",
		"redirect": "error", "referrerPolicy": "no-referrer", "signal": abort.Get("signal"),
	}))
	if err != nil {
		return nil, err
	}
	get := func(name string) string {
		if v := response.Get("headers").Call("get", name); v.Type() == js.TypeString {
			return v.String()
		}
		return ""
	}
	a := &answer{status: response.Get("status").Int(), code: get(codeHeader), clock: -1}
	if n, err := strconv.ParseInt(get(clockHeader), 10, 64); err == nil {
		a.clock = n
	}
	if n, err := strconv.Atoi(get("Retry-After")); err == nil {
		a.retryAfter = n
	}
	a.body, err = readAll(response.Get("body"))
	return a, err
}

// readAll reads the body of an answer, up to the limit: its length is not known before, because the browser may
// decompress it.
func readAll(body js.Value) ([]byte, error) {
	if body.IsNull() || body.IsUndefined() {
		return nil, nil
	}
	reader := body.Call("getReader")
	var out []byte
	for {
		part, err := Await(reader.Call("read"))
		if err != nil {
			return nil, fmt.Errorf("the response is truncated: %w", err)
		}
		if part.Get("done").Bool() {
			return out, nil
		}
		value := part.Get("value")
		n := value.Get("byteLength").Int()
		if n > maxResponseBytes-len(out) {
			reader.Call("cancel")
			return nil, errTooLong
		}
		at := len(out)
		out = append(out, make([]byte, n)...)
		js.CopyBytesToGo(out[at:], value)
	}
}

// Await waits for a promise. Other goroutines run meanwhile. A callback of JavaScript must not call it, because
// the promise cannot settle before the callback returns.
func Await(promise js.Value) (js.Value, error) {
	type outcome struct {
		value js.Value
		err   error
	}
	settled := make(chan outcome, 1)
	resolve := js.FuncOf(func(_ js.Value, args []js.Value) any {
		v := js.Undefined()
		if len(args) > 0 {
			v = args[0]
		}
		settled <- outcome{value: v}
		return nil
	})
	defer resolve.Release()
	reject := js.FuncOf(func(_ js.Value, args []js.Value) any {
		settled <- outcome{err: errorOf(args)}
		return nil
	})
	defer reject.Release()
	promise.Call("then", resolve, reject)
	o := <-settled
	return o.value, o.err
}

// errorOf returns the message of what a promise was rejected with.
func errorOf(args []js.Value) error {
	if len(args) > 0 && args[0].Type() == js.TypeObject {
		if m := args[0].Get("message"); m.Type() == js.TypeString {
			return errors.New(m.String())
		}
	}
	return errors.New("the browser reported an error without a message")
}
