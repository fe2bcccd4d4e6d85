package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := Open(dir, func() time.Time { return time.Unix(1e9, 0) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (l *Log) record(t *testing.T, name, args, outcome string) {
	t.Helper()
	end, err := l.Begin(Call{Name: name, Args: json.RawMessage(args), Operator: "ann", Remote: "192.0.2.1"})
	if err == nil {
		err = end(outcome)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l *Log) intact(t *testing.T, lines int) []Entry {
	t.Helper()
	all, damage, err := l.Read(100, lines)
	if damage != nil || err != nil || len(all) != lines {
		t.Fatalf("%d entries, damage %v, %v; want %d", len(all), damage, err, lines)
	}
	return all
}

func TestCallsAreRecordedWithTheirOutcome(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	l.record(t, "POST pause", `{ }`, "ok")
	l.record(t, "POST items", `{"items":"`+strings.Repeat("x", 5000)+`"}`, "malformed")
	all := l.intact(t, 4)
	if all[0].Outcome != Started || all[1].Outcome != "ok" || *all[1].Of != 0 || string(all[0].Args) != "{}" {
		t.Errorf("entries %+v", all[:2])
	}
	if string(all[3].Args) == "" || strings.Contains(string(all[3].Args), "xxx") || all[3].Outcome != "malformed" {
		t.Errorf("long arguments: %s", all[3].Args)
	}
	l.Close()
	l = open(t, dir)
	l.record(t, "POST resume", "", "ok")
	if all := l.intact(t, 6); all[5].N != 5 || all[5].Remote != "192.0.2.1" || all[5].Operator != "ann" {
		t.Errorf("after a start: %+v", all[5])
	}
	if last, _, _ := l.Read(2, 0); len(last) != 2 || last[1].N != 5 {
		t.Errorf("the last two are %+v", last)
	}
	info, err := os.Stat(filepath.Join(dir, File))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A line that was changed, removed or cut off the end is noticed, and the others are still listed.
func TestChangesOfTheLogAreNoticed(t *testing.T) {
	l := open(t, t.TempDir())
	for range 3 {
		l.record(t, "POST pause", `{}`, "ok")
	}
	whole, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for name, b := range map[string][]byte{
		"changed": bytes.Replace(whole, []byte("ann"), []byte("bob"), 1),
		"removed": bytes.Join(append(slices.Clone(lines[:2]), lines[3:]...), nil),
		"cut":     bytes.Join(lines[:4], nil),
		"added":   append([]byte("half a line\n"), whole...),
	} {
		if err := os.WriteFile(l.path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if all, damage, err := l.Read(100, 6); damage == nil || err != nil || len(all) < 4 {
			t.Errorf("%s: %d entries, damage %v, %v", name, len(all), damage, err)
		}
	}
}

// A call is refused if its line cannot be written, and later calls are recorded again.
func TestACallThatCannotBeRecordedIsRefused(t *testing.T) {
	l := open(t, t.TempDir())
	l.log.Close() // so that writes fail
	if _, err := l.Begin(Call{Name: "POST pause"}); err == nil || !strings.Contains(err.Error(), "audit log") {
		t.Errorf("it was recorded: %v", err)
	}
	l.record(t, "POST pause", `{}`, "ok")
	l.intact(t, 2)
}
