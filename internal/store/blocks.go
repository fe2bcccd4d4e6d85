package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// JetStream's blocks are read here before it sees them. Given a damaged one it
// cuts off all that follows in the block, or asks for memory without end where
// the bit was in a sequence number. A record of a block is, little-endian:
//
//	length 4, its high bit says that there are headers | sequence 8 | time 8 |
//	subject's length 2 | subject | with headers: their length 4, headers | payload | HighwayHash-64 8
//
// and the hash is over sequence, time, subject, headers and payload, with the
// SHA-256 of the stream's name and the block's number as its key.
const (
	recordHead = 22
	recordHash = 8
	withHeader = 1 << 31
)

// blockFile is a block of a stream.
type blockFile struct {
	path   string
	number int
}

func blockFiles(dir, stream string) ([]blockFile, error) {
	paths, err := filepath.Glob(filepath.Join(escape(dir), "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		return nil, err
	}
	var out []blockFile
	for _, p := range paths {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(p), ".blk"))
		if err == nil {
			out = append(out, blockFile{p, n})
		}
	}
	slices.SortFunc(out, func(a, b blockFile) int { return cmp.Compare(a.number, b.number) })
	return out, nil
}

// escape quotes a folder's name for use in a pattern.
func escape(dir string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(dir)
}

// checkBlocks walks the blocks of all streams, before the server is started. A
// record that a crash cut short, at the end of a stream's last block, is cut off;
// any other corruption is Damage.
func checkBlocks(dir string, known map[uint64]head) error {
	seen := map[uint64]uint64{} // a chain's last frame
	type cut struct {
		path string
		at   int
	}
	var torn []cut
	for _, c := range streams() {
		blocks, err := blockFiles(dir, c.Name)
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		for i, f := range blocks {
			b, err := os.ReadFile(f.path)
			if err != nil {
				return fmt.Errorf("store: %w", err)
			}
			at := walkBlock(b, c.Name, f.number, func(frame []byte) {
				id, number := binary.LittleEndian.Uint64(frame[8:]), binary.LittleEndian.Uint64(frame[24:])
				seen[id] = max(seen[id], number)
			})
			if at == len(b) {
				continue
			}
			whole := 0
			scanFrames(b[at:], func(frame, int) { whole++ })
			if i < len(blocks)-1 || whole > 0 {
				rel, _ := filepath.Rel(dir, f.path)
				return damage(dir, "file "+rel, "the record at byte %d of %d is corrupt: its checksum does not match",
					at, len(b))
			}
			torn = append(torn, cut{f.path, at})
		}
	}
	for _, t := range torn {
		for id, h := range known {
			if seen[id] < h.number {
				rel, _ := filepath.Rel(dir, t.path)
				return damage(dir, "file "+rel, "the record at byte %d, its last, is corrupt: its checksum does "+
					"not match", t.at)
			}
		}
		if err := os.Truncate(t.path, int64(t.at)); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	return nil
}

// walkBlock calls each for the frames of a block, and returns where the first
// record begins that is not whole. Records without headers are JetStream's own.
func walkBlock(b []byte, stream string, number int, each func(frame []byte)) (at int) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, number))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic("store: a key of the wrong size")
	}
	var sum [8]byte
	for at < len(b) {
		r := b[at:]
		if len(r) < recordHead+recordHash {
			return at
		}
		n := binary.LittleEndian.Uint32(r)
		skip := 0
		if n&withHeader != 0 {
			skip = 4
		}
		n &^= withHeader
		subject := int(binary.LittleEndian.Uint16(r[20:]))
		if uint64(n) > uint64(len(r)) || int(n) < recordHead+subject+skip+recordHash {
			return at
		}
		r = r[:n]
		body := r[recordHead+subject+skip : len(r)-recordHash]
		hash.Reset()
		hash.Write(r[4:20])
		hash.Write(r[recordHead : recordHead+subject])
		hash.Write(body)
		if !bytes.Equal(hash.Sum(sum[:0]), r[len(r)-recordHash:]) {
			return at
		}
		if skip > 0 {
			// The headers' length is not under the hash. All that has headers is ours, and a frame.
			h := binary.LittleEndian.Uint32(r[recordHead+subject:])
			if uint64(h) > uint64(len(body)) {
				return at
			}
			if body = body[h:]; len(body) == 0 || frameLen(body) != len(body) {
				return at
			}
			each(body)
		}
		at += int(n)
	}
	return at
}

// scanFrames finds whole frames in bytes of any kind.
func scanFrames(b []byte, each func(f frame, at int)) {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(magic))
		if i < 0 {
			return
		}
		at += i
		n := frameLen(b[at:])
		if n > 0 && n <= len(b)-at {
			if f, err := readFrame(b[at : at+n]); err == nil {
				each(f, at)
				at += n
				continue
			}
		}
		at++
	}
}
