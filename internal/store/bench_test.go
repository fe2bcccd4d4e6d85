package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkFile is what the disk can do: the same bytes in a plain file, with a sync each.
func BenchmarkFile(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	must(b, err)
	defer f.Close()
	record := make([]byte, 1000)
	for b.Loop() {
		_, err := f.Write(record)
		must(b, err)
		must(b, f.Sync())
	}
}

func BenchmarkAppend(b *testing.B) {
	s := open(b, b.TempDir())
	record := make([]byte, 1000)
	for b.Loop() {
		must(b, s.Append("log", record))
	}
}

// BenchmarkAppendLanes is four owners with a log each.
func BenchmarkAppendLanes(b *testing.B) {
	s := open(b, b.TempDir())
	record := make([]byte, 1000)
	for i := range lanes {
		must(b, s.Append(fmt.Sprint(i), record))
	}
	b.ResetTimer()
	done := make(chan error)
	for i := range lanes {
		go func() {
			for range (b.N + lanes - 1 - i) / lanes {
				if err := s.Append(fmt.Sprint(i), record); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range lanes {
		must(b, <-done)
	}
}

const blobSize = 16 << 20

func BenchmarkFileBlob(b *testing.B) {
	blob := make([]byte, blobSize)
	b.SetBytes(blobSize)
	path := filepath.Join(b.TempDir(), "plain")
	for b.Loop() {
		f, err := os.Create(path)
		must(b, err)
		_, err = f.Write(blob)
		must(b, err)
		must(b, f.Sync())
		must(b, f.Close())
	}
}

func BenchmarkPutBlob(b *testing.B) {
	s := open(b, b.TempDir())
	blob := make([]byte, blobSize)
	b.SetBytes(blobSize)
	for i := 0; b.Loop(); i++ {
		copy(blob, fmt.Sprint(i))
		h, err := s.PutBlob(blob)
		must(b, err)
		must(b, s.DropBlob(h))
	}
}

func BenchmarkBlob(b *testing.B) {
	s := open(b, b.TempDir())
	h, err := s.PutBlob(make([]byte, blobSize))
	must(b, err)
	b.SetBytes(blobSize)
	for b.Loop() {
		_, err := s.Blob(h)
		must(b, err)
	}
}

func BenchmarkOpenEmpty(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		s, err := Open(filepath.Join(dir, fmt.Sprint(i)), Options{})
		must(b, err)
		must(b, s.Close())
	}
}
