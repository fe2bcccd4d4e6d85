package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func someFrame() []byte {
	return appendFrame(nil, &frame{
		kind: kindLog, chain: 1<<32 | 5, epoch: 1, number: 3, parts: 1, prev: Hash{7},
		payload: []byte("payload"),
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(someFrame())
	f.Add(appendFrame(nil, &frame{kind: kindIndex, chain: 1, epoch: 2, number: 1, claim: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if fr, err := readFrame(b); err == nil {
			if again := appendFrame(nil, &fr); !bytes.Equal(again, b) {
				t.Errorf("a frame has two forms: %x and %x", b, again)
			}
		}
		scanFrames(b, func(fr frame, at int) {
			if !bytes.Equal(appendFrame(nil, &fr), b[at:at+frameSize+len(fr.payload)]) {
				t.Errorf("the frame found at %d is not what is there", at)
			}
		})
	})
}

func FuzzIndexRecord(f *testing.F) {
	b := appendOp(nil, op{code: opPut, key: "k", value: []byte("v")})
	b = appendOp(b, op{code: opBlob, key: string(make([]byte, 32)), chain: 1 << 33, size: 9})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		st := newState()
		var again []byte
		if readOps(b, func(o op) { st.apply(o); again = appendOp(again, o) }) != nil {
			return
		}
		var second []byte
		if err := readOps(again, func(o op) { second = appendOp(second, o) }); err != nil ||
			!bytes.Equal(again, second) {
			t.Errorf("operations do not come back: %x, %x, %v", again, second, err)
		}
	})
}

func FuzzHeads(f *testing.F) {
	h := head{kind: kindLog, sequence: 3, chain: 5, number: 9, sum: Hash{1}}
	f.Add(append(h.bytes(), h.bytes()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "heads"), b, 0o600))
		got, err := loadHeads(dir)
		must(t, err)
		for id, h := range got {
			if back, ok := readHead(h.bytes()); !ok || back != h || id != h.chain {
				t.Errorf("a head does not come back: %+v, %+v", h, back)
			}
		}
	})
}

func FuzzBlock(f *testing.F) {
	f.Add(someFrame())
	f.Fuzz(func(t *testing.T, b []byte) {
		if at := walkBlock(b, "index", 1, func([]byte) {}); at < 0 || at > len(b) {
			t.Errorf("the walk of %d bytes ends at %d", len(b), at)
		}
	})
}

func TestEveryFlippedBitOfAFrameIsFound(t *testing.T) {
	b := someFrame()
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if _, err := readFrame(b); err == nil {
			t.Errorf("bit %d is flipped, and nobody noticed", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	if _, err := readFrame(b); err != nil {
		t.Error(err)
	}
}
