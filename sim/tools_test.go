package sim

import (
	"context"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
)

// defaults are the options with their defaults.
func defaults() Options {
	var o Options
	param.Defaults(&o)
	return o
}

// pfedrec is PFedRec with its defaults and the given settings, as key and value.
func pfedrec(t testing.TB, settings ...string) *methods.PFedRec {
	t.Helper()
	m := &methods.PFedRec{}
	configure(t, m, settings...)
	return m
}

// fedrap is FedRAP likewise.
func fedrap(t testing.TB, settings ...string) *methods.FedRAP {
	t.Helper()
	m := &methods.FedRAP{}
	configure(t, m, settings...)
	return m
}

func configure(t testing.TB, m method.Method, settings ...string) {
	t.Helper()
	param.Defaults(m)
	for i := 0; i < len(settings); i += 2 {
		if err := param.Set(m, settings[i], settings[i+1]); err != nil {
			t.Fatal(err)
		}
	}
}

func world(t testing.TB, text string) *data.World {
	t.Helper()
	cfg, err := data.ParseWorld(text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := data.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func split(t testing.TB, src data.Source, protocol string) *data.Split {
	t.Helper()
	p, err := data.ProtocolNamed(protocol)
	if err != nil {
		t.Fatal(err)
	}
	s, err := data.NewSplit(src, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// small is a data set of 40 users and 90 items.
func small(t testing.TB, protocol string) *data.Split {
	t.Helper()
	return split(t, world(t, "users=40,items=90,mean-rows=12").Generate(), protocol)
}

func start(t testing.TB, m method.Method, s *data.Split, o Options, jobs int) *Run {
	t.Helper()
	r, err := New(m, s, o, 1, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func step(t testing.TB, r *Run) Event {
	t.Helper()
	e, err := r.Step(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// finish runs all rounds and returns what was told of each.
func finish(t testing.TB, r *Run) (events []Event) {
	t.Helper()
	for !r.Done() {
		events = append(events, step(t, r))
	}
	return events
}
