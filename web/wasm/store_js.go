package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"syscall/js"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/rpc"
)

var (
	_ device.Store = (*store)(nil)
	_ device.Blobs = (*blobs)(nil)
)

// store is a device.Store whose functions are JavaScript's and return promises: load, save, lock and wipe. See
// web/js/store.js.
type store struct{ v js.Value }

func (s *store) Load() ([]byte, error) {
	v, err := rpc.Await(s.v.Call("load"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the stored state: %w", err)
	}
	return bytesOf(v)
}

func (s *store) Save(b []byte) error {
	if _, err := rpc.Await(s.v.Call("save", arrayOf(b))); err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	return nil
}

// Lock keeps other pages of the same origin from saving.
func (s *store) Lock() (func(), error) {
	unlock, err := rpc.Await(s.v.Call("lock"))
	if err != nil {
		return nil, fmt.Errorf("cannot lock the stored state: %w", err)
	}
	return func() { unlock.Invoke() }, nil
}

func (s *store) Wipe() error {
	if _, err := rpc.Await(s.v.Call("wipe")); err != nil {
		return fmt.Errorf("cannot delete the stored state: %w", err)
	}
	return nil
}

// blobs is a device.Blobs whose functions are JavaScript's and return promises: get, put and keep.
type blobs struct{ v js.Value }

func (s *blobs) Get(hash [32]byte) ([]byte, error) {
	v, err := rpc.Await(s.v.Call("get", hex.EncodeToString(hash[:])))
	if err != nil {
		return nil, fmt.Errorf("cannot read the stored model: %w", err)
	}
	return bytesOf(v)
}

func (s *blobs) Put(hash [32]byte, b []byte) error {
	if _, err := rpc.Await(s.v.Call("put", hex.EncodeToString(hash[:]), arrayOf(b))); err != nil {
		return fmt.Errorf("cannot save the model: %w", err)
	}
	return nil
}

func (s *blobs) Keep(hashes [][32]byte) error {
	names := make([]any, len(hashes))
	for i, h := range hashes {
		names[i] = hex.EncodeToString(h[:])
	}
	if _, err := rpc.Await(s.v.Call("keep", names)); err != nil {
		return fmt.Errorf("cannot delete an older model: %w", err)
	}
	return nil
}

// maxStored is the largest record or blob that is read, in bytes.
const maxStored = 1 << 30

// bytesOf copies a Uint8Array; null and undefined are nil.
func bytesOf(v js.Value) ([]byte, error) {
	if v.IsNull() || v.IsUndefined() {
		return nil, nil
	}
	if !v.InstanceOf(js.Global().Get("Uint8Array")) || v.Get("byteLength").Int() > maxStored {
		return nil, errors.New("the stored bytes are not a Uint8Array, or exceed 1 GiB")
	}
	b := make([]byte, v.Get("byteLength").Int())
	js.CopyBytesToGo(b, v)
	return b, nil
}

func arrayOf(b []byte) js.Value {
	v := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(v, b)
	return v
}
