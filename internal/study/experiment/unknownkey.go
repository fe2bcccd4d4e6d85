package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// unknown returns the error for a key that neither the run nor its method has. If the key belongs to
// other methods, the error says so instead of suggesting a similar key.
func (s *Spec) unknown(g Setting, key string) error {
	all := append(param.Keys(s.Params), param.Keys(&s.Settings)...)
	lists := "tacit methods " + s.Method + " lists the keys"
	others := s.having(key)
	if len(others) == 0 {
		err := &param.Unknown{Key: g.Key, Nearest: param.Nearest(key, all)}
		return AsInput(fmt.Errorf("%s: %w (method %s)", g.From, err, s.Method), lists)
	}
	why := "does not have this setting"
	if s.closed() {
		why = "solves in closed form and has no learning rate or epochs"
	}
	err := &param.Unknown{Key: g.Key}
	more := ""
	if shown := 3; len(others) > shown {
		others, more = others[:shown], " and others"
	}
	return AsInput(fmt.Errorf("%s: %w: %s %s; its settings are %s", g.From, err, s.Method, why,
		strings.Join(param.Keys(s.Params), ", ")),
		fmt.Sprintf("%s; %s is a setting of %s%s, for example: -m %s %s=%s", lists, key, strings.Join(others, ", "),
			more, others[0], key, g.Value))
}

// closed reports whether the method solves in closed form.
func (s *Spec) closed() bool {
	_, learns := method.As[method.Learner](s.Params)
	_, central := method.As[method.Central](s.Params)
	return !learns && !central && !slices.Contains(param.Keys(s.Params), "lr")
}

// having returns the names of the methods that have a key.
func (s *Spec) having(key string) (out []string) {
	for _, e := range s.Methods.Entries() {
		if slices.Contains(param.Keys(e.Build()), key) {
			out = append(out, e.Name)
		}
	}
	return out
}
