package experiment

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/methods"
)

// A model above the limit is dropped with an event, unless it is to be kept always.
func TestLargeModelsAreDropped(t *testing.T) {
	for _, c := range []struct {
		model Model
		limit int64
		kept  bool
	}{{ModelAuto, 1000, false}, {ModelAuto, 1 << 20, true}, {ModelAlways, 1000, true}, {ModelNever, 1 << 20, false}} {
		spec, err := Resolve(Pairs("test", "method=fedmf", "world=users=20,items=30,mean-rows=8", "rounds=1"))
		if err != nil {
			t.Fatal(err)
		}
		src, err := OpenData(&spec.Settings, "")
		if err != nil {
			t.Fatal(err)
		}
		dir, told := filepath.Join(t.TempDir(), "run"), false
		j := &Job{
			Spec: spec, Source: src, Jobs: 1, Out: dir, NoReferences: true, Model: c.model, modelLimit: c.limit,
			OnEvent: func(e Event) {
				_, dropped := e.(ModelDropped)
				told = told || dropped
			},
		}
		if _, err := j.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		kept := exists(filepath.Join(dir, checkpointFile))
		if kept != c.kept || told != (c.model == ModelAuto && !c.kept) {
			t.Errorf("model %q, limit %d: kept %v, event %v", c.model, c.limit, kept, told)
		}
		if _, err := Restore(methods.Default(), dir, ""); (err == nil) != c.kept {
			t.Errorf("model %q, limit %d: restored: %v", c.model, c.limit, err)
		}
	}
}
