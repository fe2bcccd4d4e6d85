package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

var errPacked = errors.New("corrupt compressed page")

// unpack decompresses a page to exactly whole bytes.
func unpack(codec int, b []byte, whole int) ([]byte, error) {
	var in io.Reader
	switch codec {
	case 0:
		return b, nil
	case 1:
		if n, err := snappy.DecodedLen(b); err != nil || n != whole {
			return nil, errPacked
		}
		return snappy.Decode(make([]byte, whole), b)
	case 2:
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		in = z
	case 6:
		z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage),
			zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		in = z
	case 7:
		return lz4(b, whole)
	default:
		names := map[int]string{3: "LZO", 4: "BROTLI", 5: "LZ4"}
		return nil, &unsupportedError{"compression", names[codec]}
	}
	var out bytes.Buffer // grows with what is unpacked, not with what the file claims
	n, err := io.Copy(&out, io.LimitReader(in, int64(whole)+1))
	if err != nil || n != int64(whole) {
		return nil, errPacked
	}
	return out.Bytes(), nil
}

// lz4 decompresses a block of the LZ4 format, without a frame, to exactly whole bytes. A block is a sequence of
// literals and of copies of earlier bytes.
func lz4(b []byte, whole int) ([]byte, error) {
	var out []byte // grows with what is unpacked, not with what the file claims
	for len(b) > 0 {
		token := b[0]
		n, rest, ok := lz4Length(int(token>>4), b[1:])
		if !ok || n > len(rest) || n > whole-len(out) {
			return nil, errPacked
		}
		out, b = append(out, rest[:n]...), rest[n:]
		if len(b) == 0 {
			break // the last sequence has no copy
		}
		if len(b) < 2 {
			return nil, errPacked
		}
		back := int(binary.LittleEndian.Uint16(b))
		if n, b, ok = lz4Length(int(token&15), b[2:]); !ok {
			return nil, errPacked
		}
		if n += 4; back == 0 || back > len(out) || n > whole-len(out) {
			return nil, errPacked
		}
		for n > 0 { // a copy may overlap itself
			part := out[len(out)-back:][:min(n, back)]
			out = append(out, part...)
			n -= len(part)
		}
	}
	if len(out) != whole {
		return nil, errPacked
	}
	return out, nil
}

// lz4Length continues a length of 15 with the bytes that follow.
func lz4Length(n int, b []byte) (length int, rest []byte, ok bool) {
	if n < 15 {
		return n, b, true
	}
	for len(b) > 0 {
		x := b[0]
		b = b[1:]
		if n += int(x); x < 255 {
			return n, b, n <= maxPage
		}
	}
	return 0, nil, false
}
