package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The test binary is also the process that is killed, and the one that is watched.
const (
	childEnv = "TACIT_STORE_CRASH_CHILD"
	syncEnv  = "TACIT_STORE_SYNC_CHILD"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, child(dir))
		os.Exit(1)
	}
	if dir := os.Getenv(syncEnv); dir != "" {
		if err := syncChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var crashOptions = Options{part: 64 << 10}

// numbered is the record with a number; every fifth takes several messages.
func numbered(name string, n int) []byte {
	b := fmt.Appendf(nil, "%s %d ", name, n)
	size := 100
	if n%5 == 4 {
		size = 150 << 10
	}
	return append(b, bytes.Repeat([]byte{byte(n)}, size)...)
}

// child writes until it is killed, and prints each write that was answered.
func child(dir string) error {
	s, err := Open(dir, crashOptions)
	if err != nil {
		return err
	}
	fail := make(chan error)
	write := func(name string, do func(n int) error) {
		n := 0
		if v, err := s.Get("next/" + name); err == nil {
			n, _ = strconv.Atoi(string(v))
		} else if err := s.Replay(name, func([]byte) error { n++; return nil }); err != nil {
			fail <- err
			return
		}
		for ; ; n++ {
			if err := do(n); err != nil {
				fail <- err
				return
			}
			fmt.Printf("%s %d\n", name, n)
		}
	}
	for _, log := range []string{"a", "b"} {
		go write(log, func(n int) error { return s.Append(log, numbered(log, n)) })
	}
	go write("value", func(n int) error { return s.Put("next/value", []byte(strconv.Itoa(n))) })
	// Logs and blobs that come and go.
	go write("round", func(n int) error {
		log := fmt.Sprintf("round/%d", n)
		for i := range 2 {
			if err := s.Append(log, numbered(log, i)); err != nil {
				return err
			}
		}
		h, err := s.PutBlob(numbered("blob", n))
		if err != nil {
			return err
		}
		if err := s.Put("next/round", []byte(strconv.Itoa(n+1))); err != nil {
			return err
		}
		return errors.Join(s.Drop(log), s.DropBlob(h))
	})
	return <-fail
}

func TestNothingAcknowledgedIsLostByAKill(t *testing.T) {
	const kills, most = 30, 300
	// A kill leaves what was handed to the system, on any file system; this one is quick.
	dir := quickDir(t)
	rnd := rand.New(rand.NewPCG(8, 32))
	acked := map[string]int{"a": -1, "b": -1, "value": -1, "round": -1}
	tails := 0
	did := func(kill int) bool { return kill >= kills && acked["a"] >= kills && acked["round"] >= 0 }
	kill := 0
	for ; kill < most && !did(kill); kill++ { // a busy machine does less before a kill
		runAndKill(t, dir, time.Duration(rnd.IntN(60*(1+kill/kills)))*time.Millisecond, acked)
		tails += checkAfterKill(t, dir, acked)
		if t.Failed() {
			t.Fatalf("after kill %d", kill+1)
		}
	}
	if !did(kill) {
		t.Errorf("acknowledged: %v; the child did too little for this test", acked)
	}
	t.Logf("%d kills, acknowledged to %v, %d written and not yet acknowledged", kill, acked, tails)
}

// runAndKill starts a child, kills it some time after its first answer, and
// notes what it printed.
func runAndKill(t *testing.T, dir string, after time.Duration, acked map[string]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var once sync.Once
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		once.Do(func() { time.AfterFunc(after, func() { cmd.Process.Kill() }) })
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		must(t, err)
		acked[name] = n
	}
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Errorf("the child said %s", &stderr)
	}
}

// checkAfterKill opens the folder as the next process does, and returns how many
// logs have a record that was not acknowledged; that one is now.
func checkAfterKill(t *testing.T, dir string, acked map[string]int) (tails int) {
	t.Helper()
	s, err := Open(dir, crashOptions)
	must(t, err)
	defer s.Close()
	must(t, s.Verify())
	for _, log := range []string{"a", "b"} {
		n := 0
		must(t, s.Replay(log, func(r []byte) error {
			if !bytes.Equal(r, numbered(log, n)) {
				return fmt.Errorf("log %s: record %d is %.20q", log, n, r)
			}
			n++
			return nil
		}))
		switch n - 1 - acked[log] {
		case 0:
		case 1:
			tails++
			acked[log]++
		default:
			t.Errorf("log %s ends with record %d, acknowledged to %d", log, n-1, acked[log])
		}
	}
	if v, err := s.Get("next/value"); err == nil {
		n, _ := strconv.Atoi(string(v))
		if n != acked["value"] && n != acked["value"]+1 {
			t.Errorf("value is %d, acknowledged to %d", n, acked["value"])
		}
	}
	// Of what comes and goes, at most one of each is there.
	if logs, blobs := s.Logs("round/"), s.Blobs(); len(logs) > 1 || len(blobs) > 1 {
		t.Logf("left: %q, %d blobs", logs, len(blobs))
		for _, log := range logs {
			must(t, s.Drop(log))
		}
		for h := range blobs {
			must(t, s.DropBlob(h))
		}
	}
	return tails
}
