package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/tacit-rec/tacit/coordinator"
)

// testMachine is the disk and the clock of a coordinator that chaos disturbs. As root on Linux the disk
// is a small file system of its own; otherwise a variable tells the coordinator to act as if it were full.
type testMachine struct {
	dir     string // for what is not on the disk
	disk    string
	mounted bool
}

func newTestMachine(dir string, smallDisk bool) (*testMachine, error) {
	m := &testMachine{dir: dir, disk: filepath.Join(dir, "disk")}
	if err := os.Mkdir(m.disk, 0o700); err != nil {
		return nil, err
	}
	if smallDisk && runtime.GOOS == "linux" && os.Getuid() == 0 {
		m.mounted = exec.Command("mount", "-t", "tmpfs", "-o", "size=256m,mode=700", "tacit-chaos", m.disk).Run() == nil
	}
	return m, m.setClock(0)
}

func (m *testMachine) close() {
	if m.mounted {
		_ = exec.Command("umount", "-l", m.disk).Run()
	}
}

func (m *testMachine) clockFile() string { return filepath.Join(m.dir, "clock") }
func (m *testMachine) fullFile() string  { return filepath.Join(m.dir, "full") }

func (m *testMachine) environ() []string {
	return []string{
		coordinator.ClockVariable + "=" + m.clockFile(), coordinator.DiskFullVariable + "=" + m.fullFile(),
	}
}

// setClock sets the coordinator's clock off.
func (m *testMachine) setClock(off time.Duration) error {
	path := m.clockFile()
	if err := os.WriteFile(path+".new", []byte(off.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// fillDisk leaves no space.
func (m *testMachine) fillDisk() (free func() error, err error) {
	if !m.mounted {
		return func() error { return os.Remove(m.fullFile()) }, os.WriteFile(m.fullFile(), nil, 0o600)
	}
	path := filepath.Join(m.disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	for size := 4 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if f.Close(); !errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("the disk did not fill up: %w", err)
	}
	return func() error { return os.Remove(path) }, nil
}
