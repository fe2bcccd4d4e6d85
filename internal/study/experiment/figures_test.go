package experiment

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/methods"
)

func drawn(t *testing.T, words ...string) (string, *Job) {
	t.Helper()
	dir := t.TempDir()
	j := job(t, dir, words...)
	j.Figures = true
	return dir, j
}

func load(t *testing.T, dir string) *result.Run {
	t.Helper()
	r, err := result.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The folder of every method has its figures, and the reasons for those that are missing.
func TestEveryMethodHasItsFiguresOrAReason(t *testing.T) {
	for _, e := range methods.Default().Entries() {
		dir, j := drawn(t, "method="+e.Name)
		if _, err := j.Run(context.Background()); err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		f := load(t, dir).Figures
		if f == nil {
			t.Errorf("%s: no %s", e.Name, figuresFile)
			continue
		}
		if slices.Contains([]string{"pfedrec", "fedmf", "fedncf", "fedrap", "fedrecgel"}, e.Name) &&
			f.Landscape == nil {
			t.Errorf("%s has no landscape: %s", e.Name, f.Missing["landscape"])
		}
		for key, there := range map[string]bool{
			"items": f.Items != nil, "inference": f.Inference != nil, "popularity": f.Popularity != nil,
			"landscape": f.Landscape != nil,
		} {
			if there == (f.Missing[key] != "") {
				t.Errorf("%s: figure %s is there: %v, and the reason why not is %q", e.Name, key, there, f.Missing[key])
			}
		}
	}
}

// bitsOf returns the content of the files that must not depend on figures.
func bitsOf(t *testing.T, dir string) string {
	t.Helper()
	out := ""
	for _, name := range []string{perUserFile, metricsFile} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out += string(b)
	}
	out = regexp.MustCompile(`"(train_ms|eval_ms)":[0-9.e+-]+`).ReplaceAllString(out, "")
	return regexp.MustCompile(`,"spectra":\[.*\]\}`).ReplaceAllString(out, "}")
}

func TestFiguresChangeNeitherResultNorTimeOfARun(t *testing.T) {
	plain := t.TempDir()
	if _, err := job(t, plain).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	dir, j := drawn(t)
	start := time.Now()
	res, err := j.Run(context.Background())
	all := time.Since(start).Seconds()
	if err != nil {
		t.Fatal(err)
	}
	if bitsOf(t, plain) != bitsOf(t, dir) {
		t.Error("a run with figures has other numbers than one without")
	}
	f := load(t, dir).Figures
	// However slow a machine is, times that do not overlap are no longer than all; both are rounded.
	if res.Seconds.Total+f.Seconds > all*1.01 {
		t.Errorf("the run took %.3f s and its figures %.3f s, both %.3f s: theirs seem to be counted in its time",
			res.Seconds.Total, f.Seconds, all)
	}
	if load(t, plain).Figures != nil {
		t.Error("a run without figures has some")
	}
}

func TestFiguresAreTheSameForAnyNumberOfWorkersAndAfterAResume(t *testing.T) {
	var want string
	for _, stop := range []int{0, 3} {
		dir, j := drawn(t, "method=ials-next")
		j.Jobs = 1 + stop
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		j.OnEvent = func(e Event) {
			if ev, ok := e.(RoundEnded); ok && ev.Round == stop {
				cancel()
			}
		}
		_, err := j.Run(ctx)
		var s *Stopped
		if errors.As(err, &s) {
			j.Resume, j.OnEvent = true, nil
			_, err = j.Run(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		r := load(t, dir)
		r.Figures.Seconds = 0
		b, err := r.Figures.JSON()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range r.Points {
			n += len(p.Spectra)
		}
		if n != 18 { // three in each of six rounds
			t.Errorf("%d spectra, want 18", n)
		}
		if want == "" {
			want = string(b)
		} else if want != string(b) {
			t.Error("the figures differ after a resume, or with another number of workers")
		}
	}
}

// tacit run --resume does not repeat --no-figures: the folder holds it.
func TestAResumedRunWithoutFiguresHasNone(t *testing.T) {
	dir, j := drawn(t, "method=fedmf", "rounds=2")
	j.Figures = false
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j.OnEvent = func(e Event) {
		if ev, ok := e.(RoundEnded); ok && ev.Round == 1 {
			cancel()
		}
	}
	var s *Stopped
	if _, err := j.Run(ctx); !errors.As(err, &s) {
		t.Fatalf("error is %v, want Stopped", err)
	}
	j.Resume, j.Figures, j.OnEvent = true, true, nil
	if _, err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if load(t, dir).Figures != nil {
		t.Error("the run was started without figures, and has them after a resume")
	}
}

func TestOnlyTheFirstSeedHasFigures(t *testing.T) {
	dir, j := drawn(t, "seeds=2")
	if _, err := j.RunSeeds(context.Background()); err != nil {
		t.Fatal(err)
	}
	r := load(t, dir)
	if r.Seeds[0].Figures == nil || r.Seeds[1].Figures != nil {
		t.Errorf("figures of seeds: %v and %v, want of the first only", r.Seeds[0].Figures != nil,
			r.Seeds[1].Figures != nil)
	}
}

func TestGiniByHand(t *testing.T) {
	for _, c := range []struct {
		xs   []int
		want float64
	}{{[]int{1, 1, 1, 1}, 0}, {[]int{0, 0, 0, 5}, 1}, {[]int{1, 3}, 0.5}, {nil, 0}, {[]int{0, 0}, 0}} {
		if got := gini(c.xs); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("the Gini coefficient of %v is %g, want %g", c.xs, got, c.want)
		}
	}
}
