package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"syscall/js"
	"time"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// facade is one device. Two Devices share its store and its model, so that the owner's calls do not wait for a
// step: one takes part in rounds, the other answers the owner.
type facade struct {
	running sync.Mutex // held by run, step and forget
	runner  *device.Device

	mu    sync.Mutex
	owner *device.Device

	stopping sync.Mutex
	cancel   context.CancelFunc // of the call that holds running
}

// newFacade opens a device with the options of JavaScript: url, token, store, blobs, memoryMB, duty, holdOut,
// deterministic and observe.
func newFacade(o js.Value) (*facade, error) {
	memory := number(o, "memoryMB", 256)
	if !(memory >= 1 && memory <= 4096) {
		return nil, fmt.Errorf("memoryMB = %g: must be 1 to 4096", memory)
	}
	space := &device.Workspace{Memory: memory * (1 << 20)}
	opt := device.Options{
		Token: text(o, "token"), Store: &store{o.Get("store")}, Blobs: &blobs{o.Get("blobs")}, Workspace: space,
		Software: "tacit-web " + version, HoldOut: truth(o, "holdOut", true), Duty: number(o, "duty", 0.5),
		Deterministic: truth(o, "deterministic", false),
	}
	if o.Get("store").Type() != js.TypeObject || o.Get("blobs").Type() != js.TypeObject {
		return nil, errors.New("the options store and blobs are missing")
	}
	f := &facade{}
	var err error
	if f.owner, err = device.Open(opt); err != nil {
		return nil, err
	}
	url, observe := text(o, "url"), observer(o.Get("observe"))
	opt.Dial = func(key ed25519.PrivateKey) (device.Conn, error) {
		return rpc.Dial(rpc.Options{URL: url, Key: key, Observe: observe})
	}
	f.runner, err = device.Open(opt)
	return f, err
}

// observer passes the requests of a device to a JavaScript function.
func observer(f js.Value) func(call string, sent, received int) {
	if f.Type() != js.TypeFunction {
		return nil
	}
	return func(call string, sent, received int) { f.Invoke(call, sent, received) }
}

// exclusive runs a call that stop can end.
func (f *facade) exclusive(do func(ctx context.Context) error) error {
	f.running.Lock()
	defer f.running.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.setCancel(cancel)
	defer f.setCancel(nil)
	return do(ctx)
}

func (f *facade) setCancel(cancel context.CancelFunc) {
	f.stopping.Lock()
	defer f.stopping.Unlock()
	f.cancel = cancel
}

// run takes part in rounds until stop, or until an error that no later step can fix: run(onStep). onStep receives
// the result of each step, and the code and the text of its error or empty strings.
func (f *facade) run(args []js.Value) (any, error) {
	err := f.exclusive(func(ctx context.Context) error {
		return f.runner.Run(ctx, func(out device.StepResult, err error) {
			if len(args) > 0 && args[0].Type() == js.TypeFunction {
				message := ""
				if err != nil {
					message = err.Error()
				}
				args[0].Invoke(valueOf(out), device.ErrorCode(err), message)
			}
		})
	})
	if errors.Is(err, context.Canceled) {
		return nil, nil
	}
	return nil, err
}

// step checks in once, for programs with a schedule of their own.
func (f *facade) step([]js.Value) (any, error) {
	var out device.StepResult
	err := f.exclusive(func(ctx context.Context) (err error) {
		out, err = f.runner.Step(ctx)
		return err
	})
	return out, err
}

// stop ends run, step or forget at its next safe point.
func (f *facade) stop([]js.Value) (any, error) {
	f.stopping.Lock()
	defer f.stopping.Unlock()
	if f.cancel != nil {
		f.cancel()
	}
	return nil, nil
}

// add records an event: add(item, time in milliseconds, or undefined for now).
func (f *facade) add(args []js.Value) (any, error) {
	item, err := textArg(args, 0)
	if err != nil {
		return nil, err
	}
	e := device.Event{Item: item, Time: time.Now().UnixMilli()}
	if len(args) > 1 && args[1].Type() == js.TypeNumber {
		e.Time = int64(args[1].Float())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return nil, f.owner.Add(e)
}

// remove removes all events with an item.
func (f *facade) remove(args []js.Value) (any, error) {
	item, err := textArg(args, 0)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner.Remove(item)
}

// event is a recorded event with the title of its item.
type event struct {
	device.Item
	Time int64 `json:"time"`
}

// events returns the recorded events, the oldest first.
func (f *facade) events([]js.Value) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := f.owner.Events()
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i, e := range all {
		ids[i] = e.Item
	}
	items, err := f.owner.Items(ids...)
	if err != nil && !errors.Is(err, device.ErrNoModel) {
		return nil, err
	}
	out := make([]event, len(all))
	for i, e := range all {
		out[i] = event{device.Item{ID: e.Item}, e.Time}
		if items != nil {
			out[i].Item = items[i]
		}
	}
	return out, nil
}

// search returns items of the catalogue: search(text, n).
func (f *facade) search(args []js.Value) (any, error) {
	words, err := textArg(args, 0)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner.Search(words, countArg(args, 1))
}

// recommend returns the n best items: recommend(n).
func (f *facade) recommend(args []js.Value) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner.Recommend(countArg(args, 0))
}

// about describes the device and lists its reports.
func (f *facade) about([]js.Value) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, err := f.owner.About()
	if err != nil {
		return nil, err
	}
	return struct {
		*device.About
		Text string `json:"guarantee_text"`
	}{a, a.Guarantee.String()}, nil
}

// pause stops the device from taking part, or lets it take part again: pause(on).
func (f *facade) pause(args []js.Value) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return nil, f.owner.Pause(len(args) > 0 && args[0].Truthy())
}

// forget leaves the federation and deletes everything. The device must not be used afterwards.
func (f *facade) forget(args []js.Value) (any, error) {
	if _, err := f.stop(nil); err != nil {
		return nil, err
	}
	return nil, f.exclusive(f.runner.Forget)
}

func number(o js.Value, key string, otherwise float64) float64 {
	if v := o.Get(key); v.Type() == js.TypeNumber {
		return v.Float()
	}
	return otherwise
}

func truth(o js.Value, key string, otherwise bool) bool {
	if v := o.Get(key); v.Type() == js.TypeBoolean {
		return v.Bool()
	}
	return otherwise
}

func text(o js.Value, key string) string {
	if v := o.Get(key); v.Type() == js.TypeString {
		return v.String()
	}
	return ""
}

func textArg(args []js.Value, i int) (string, error) {
	if i >= len(args) || args[i].Type() != js.TypeString {
		return "", fmt.Errorf("argument %d must be a string", i+1)
	}
	return args[i].String(), nil
}

// countArg is a number of items; 10 if it is missing.
func countArg(args []js.Value, i int) int {
	if i >= len(args) || args[i].Type() != js.TypeNumber {
		return 10
	}
	return int(min(max(args[i].Float(), 0), 10_000))
}
