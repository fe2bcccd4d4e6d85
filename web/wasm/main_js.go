// Command wasm is a device for browsers: the facade of package device that JavaScript calls. It defines
// globalThis.tacit with one function, open, and waits for calls. web/js wraps it; programs use that.
package main

import (
	"encoding/json"
	"fmt"
	"syscall/js"

	"github.com/tacit-rec/tacit/device"
)

// version is the version of the program, which `make web` sets.
var version = "dev"

func main() {
	js.Global().Set("tacit", map[string]any{"open": function(open), "version": version})
	select {} // calls arrive as events
}

// open opens the device of a store: open(options) resolves to an object with the methods below.
func open(args []js.Value) (any, error) {
	if len(args) != 1 || args[0].Type() != js.TypeObject {
		return nil, fmt.Errorf("open requires one object of options")
	}
	f, err := newFacade(args[0])
	if err != nil {
		return nil, err
	}
	return js.ValueOf(map[string]any{
		"run": function(f.run), "step": function(f.step), "stop": function(f.stop), "add": function(f.add),
		"remove": function(f.remove), "events": function(f.events), "search": function(f.search),
		"recommend": function(f.recommend), "about": function(f.about), "pause": function(f.pause),
		"forget": function(f.forget),
	}), nil
}

// function makes a JavaScript function that returns a promise. A goroutine runs the call, because a callback
// must not wait.
func function(do func(args []js.Value) (any, error)) js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		executor := js.FuncOf(func(_ js.Value, settle []js.Value) any {
			resolve, reject := settle[0], settle[1]
			go func() {
				v, err := do(args)
				if err != nil {
					reject.Invoke(errorValue(err))
					return
				}
				resolve.Invoke(valueOf(v))
			}()
			return nil
		})
		defer executor.Release()
		return js.Global().Get("Promise").New(executor)
	})
}

// errorValue is an Error of JavaScript with the stable code of device.ErrorCode.
func errorValue(err error) js.Value {
	e := js.Global().Get("Error").New(err.Error())
	e.Set("code", device.ErrorCode(err))
	return e
}

// valueOf converts a result to JavaScript by way of JSON.
func valueOf(v any) js.Value {
	switch v := v.(type) {
	case nil:
		return js.Undefined()
	case js.Value:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil {
		return js.Undefined() // unreachable: all results can be encoded
	}
	return js.Global().Get("JSON").Call("parse", string(b))
}
