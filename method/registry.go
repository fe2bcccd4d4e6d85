package method

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/param"
)

// Entry describes one method of a Registry.
type Entry struct {
	Name    string
	Title   string
	Paper   string
	Caution string // what a user must know before believing a number
	// New returns the method with zero parameters. Build sets the defaults.
	New func() Method
	// Options are run settings that come with the method, such as the number of
	// rounds. A preset, a file or a flag overrides them.
	Options map[string]string
	// Grid lists settings, each as key=value words. A run without a preset and
	// without settings of the user tries each and takes the best on validation.
	Grid []string
}

// Build returns the method with its default parameters.
func (e Entry) Build() Method {
	m := e.New()
	param.Defaults(m)
	return m
}

// Clone returns a copy of m, a method of this entry, with the same parameters.
func (e Entry) Clone(m Method) Method {
	c := e.New()
	for key, value := range param.Values(m) {
		if err := param.Set(c, key, fmt.Sprint(value)); err != nil {
			panic(err) // m holds the same value
		}
	}
	return c
}

// Plugin is a mechanism that changes other methods. Users write `base+plugin`.
type Plugin struct {
	Name    string
	Title   string
	Paper   string
	Caution string
	// On returns the base with the plug-in, or an error that says why the plug-in
	// does not fit the base.
	On func(base Method) (Method, error)
}

// Registry is a set of methods and plug-ins by name. The zero value is empty. A
// registry may be read by many goroutines, but not while one of them adds to it.
type Registry struct {
	entries []Entry
	plugins []Plugin
}

// Add adds a method. Its name must be new, non-empty and without a plus sign.
func (r *Registry) Add(e Entry) error {
	if err := checkName("method", e.Name, names(r.entries, entryName)); err != nil {
		return err
	}
	if e.New == nil {
		return fmt.Errorf("method %q: New is nil; it must return a new method", e.Name)
	}
	r.entries = append(r.entries, e)
	return nil
}

// AddPlugin adds a plug-in. Its name must be new among the plug-ins, non-empty and
// without a plus sign.
func (r *Registry) AddPlugin(p Plugin) error {
	if err := checkName("plug-in", p.Name, names(r.plugins, pluginName)); err != nil {
		return err
	}
	if p.On == nil {
		return fmt.Errorf("plug-in %q: On is nil; it must return the changed method", p.Name)
	}
	r.plugins = append(r.plugins, p)
	return nil
}

// Entries returns the methods in the order in which they were added.
func (r *Registry) Entries() []Entry { return slices.Clone(r.entries) }

// Plugins returns the plug-ins in the order in which they were added.
func (r *Registry) Plugins() []Plugin { return slices.Clone(r.plugins) }

// Clone returns a copy to which methods can be added without changing r.
func (r *Registry) Clone() *Registry { return &Registry{r.Entries(), r.Plugins()} }

// Lookup returns the entry of a method, or of a method with plug-ins, such as
// fedncf+dualper. The error for an unknown name suggests the nearest one.
func (r *Registry) Lookup(name string) (Entry, error) {
	words := strings.Split(name, "+")
	if slices.Contains(words, "") {
		return Entry{}, fmt.Errorf("invalid method name %q: must be a method, or a method and plug-ins, such as "+
			"fedncf+dualper", name)
	}
	e, err := find("method", words[0], r.entries, entryName)
	if err != nil {
		return Entry{}, err
	}
	for _, word := range words[1:] {
		p, err := find("plug-in", word, r.plugins, pluginName)
		if err != nil {
			return Entry{}, err
		}
		e, err = compose(e, p)
		if err != nil {
			return Entry{}, err
		}
	}
	return e, nil
}

// Composed returns every method with every single plug-in that fits it.
func (r *Registry) Composed() []Entry {
	var out []Entry
	for _, p := range r.plugins {
		for _, e := range r.entries {
			if both, err := compose(e, p); err == nil {
				out = append(out, both)
			}
		}
	}
	return out
}

// compose returns the entry of a method with a plug-in.
func compose(e Entry, p Plugin) (Entry, error) {
	inner := e.New
	if _, err := p.On(inner()); err != nil {
		return Entry{}, fmt.Errorf("%s cannot have +%s: %w", e.Name, p.Name, err)
	}
	e.New = func() Method {
		m, err := p.On(inner())
		if err != nil {
			panic(err) // the same call succeeded above
		}
		return m
	}
	e.Name += "+" + p.Name
	e.Title += " + " + p.Title
	e.Paper += "; plug-in: " + p.Paper
	e.Caution = strings.TrimSpace(e.Caution + " " + p.Caution)
	return e, nil
}

func entryName(e Entry) string   { return e.Name }
func pluginName(p Plugin) string { return p.Name }

func names[T any](all []T, nameOf func(T) string) []string {
	out := make([]string, len(all))
	for i, x := range all {
		out[i] = nameOf(x)
	}
	return out
}

func checkName(what, name string, known []string) error {
	switch {
	case name == "":
		return errors.New(what + " without a name")
	case strings.ContainsAny(name, "+ \t\n"):
		return fmt.Errorf("%s %q: a name must not contain spaces or a plus sign", what, name)
	case slices.Contains(known, name):
		return fmt.Errorf("%s %q is already registered; choose another name", what, name)
	}
	return nil
}

func find[T any](what, name string, all []T, nameOf func(T) string) (T, error) {
	known := names(all, nameOf)
	if i := slices.Index(known, name); i >= 0 {
		return all[i], nil
	}
	var zero T
	if near := param.Nearest(name, known); near != "" {
		return zero, fmt.Errorf("unknown %s %q; did you mean %q?", what, name, near)
	}
	return zero, fmt.Errorf("unknown %s %q; known: %s", what, name, strings.Join(known, ", "))
}
