package operators

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/store"
)

func TestTokensAreNamedRevocableAndKeptAsHashes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(st)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Find(""); ok {
		t.Error("an empty token is accepted")
	}
	l.SetLocal("secret")
	if o, ok := l.Find("secret"); !ok || o.Name != Local || o.ReadOnly {
		t.Errorf("the local token: %+v, %v", o, ok)
	}
	token, err := l.Add("grafana", true, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"grafana": ErrTaken, "local": ErrName, "": ErrName, "A b": ErrName} {
		if _, err := l.Add(name, false, time.Now()); !errors.Is(err, want) {
			t.Errorf("name %q: %v, want %v", name, err, want)
		}
	}
	st.Close()
	if st, err = store.Open(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if l, err = Open(st); err != nil {
		t.Fatal(err)
	}
	if o, ok := l.Find(token); !ok || o.Name != "grafana" || !o.ReadOnly || len(l.All()) != 1 {
		t.Errorf("after a start: %+v, %v", o, ok)
	}
	if _, ok := l.Find("secret"); ok {
		t.Error("the local token survives a start")
	}
	filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), token) {
			t.Errorf("%s holds the token", path)
		}
		return nil
	})
	if err := l.Remove("grafana"); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Find(token); ok || !errors.Is(l.Remove("grafana"), ErrUnknown) {
		t.Error("a removed operator is still known")
	}
}
