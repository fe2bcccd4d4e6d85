package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/param"
)

// notInConfig are flags that a configuration file cannot set.
var notInConfig = []string{"config", "print-config", "repair", "new-pin", "help", "all"}

// configure reads --config. It returns the words of the command line with the parameters of the file that they do not
// set.
func (f *serveFlags) configure(c *cobra.Command, words []string) ([]string, error) {
	if f.config == "" {
		return words, nil
	}
	params, err := readConfig(c, f.config)
	if err != nil {
		return nil, err
	}
	params = slices.DeleteFunc(params, func(p string) bool {
		key, _, _ := strings.Cut(p, "=")
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, key+"=") })
	})
	return append(params, words...), nil
}

// readConfig sets the flags that a TOML file sets and the command line does not. Keys are the names of flags; the
// table params has the method's parameters, which are returned as words such as dim=32.
func readConfig(c *cobra.Command, path string) (words []string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, input(err, "")
	}
	var tree map[string]any
	if err := toml.Unmarshal(b, &tree); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, _ := at.Position()
			return nil, input(fmt.Errorf("line %d of %s: %s", line, path, strings.TrimPrefix(at.Error(), "toml: ")), "")
		}
		return nil, input(fmt.Errorf("%s: %w", path, err), "")
	}
	params, _ := tree["params"].(map[string]any)
	delete(tree, "params")
	for _, key := range sortedKeys(params) {
		words = append(words, fmt.Sprintf("%s=%v", key, params[key]))
	}
	for _, key := range sortedKeys(tree) {
		f := c.Flags().Lookup(key)
		if f == nil || f.Hidden || slices.Contains(notInConfig, key) {
			return nil, unknownKey(c, place(path, b, key), key)
		}
		if f.Changed { // the command line wins
			continue
		}
		if err := setFlag(c.Flags(), f, tree[key]); err != nil {
			return nil, input(fmt.Errorf("%s: %s = %v: %w", place(path, b, key), key, tree[key], err), "")
		}
		if s, ok := f.Value.(*setting); ok {
			s.from = place(path, b, key)
		}
	}
	return words, nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// place says where a key is in a file, if its line begins with it.
func place(path string, file []byte, key string) string {
	for i, line := range strings.Split(string(file), "\n") {
		name, _, _ := strings.Cut(line, "=")
		if strings.Trim(name, " \t\"'[]") == key {
			return fmt.Sprintf("line %d of %s", i+1, path)
		}
	}
	return path
}

func unknownKey(c *cobra.Command, place, key string) error {
	hint := "keys are the flags of tacit serve without dashes; tacit serve --print-config lists them"
	names := slices.DeleteFunc(flagNames(c), func(name string) bool { return slices.Contains(notInConfig, name) })
	if near := param.Nearest(key, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return input(fmt.Errorf("%s: unknown key %q", place, key), hint)
}

// setFlag sets a flag to a value of a TOML file. A list sets a flag that can be repeated.
func setFlag(flags *pflag.FlagSet, f *pflag.Flag, value any) error {
	all, isList := value.([]any)
	switch {
	case !isList:
		all = []any{value}
	case f.Value.Type() != "stringArray":
		return fmt.Errorf("must be %s, not a list", cmp.Or(flagTypes[f.Value.Type()], "one value"))
	}
	for _, v := range all {
		switch v.(type) {
		case string, int64, float64, bool:
		default:
			return errors.New("must be a text, a number, true or false")
		}
		if err := flags.Set(f.Name, fmt.Sprint(v)); err != nil {
			return fmt.Errorf("must be %s", flagTypes[f.Value.Type()])
		}
	}
	return nil
}

// writeConfig prints the configuration as a file that --config reads. Settings with their defaults are comments.
func writeConfig(c *cobra.Command, words []string, out io.Writer) error {
	var b strings.Builder
	b.WriteString("# tacit serve --config FILE\n")
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || slices.Contains(notInConfig, f.Name) {
			return
		}
		fmt.Fprintf(&b, "\n# %s\n", strings.ReplaceAll(f.Usage, "`", ""))
		if !f.Changed {
			b.WriteString("# ")
		}
		fmt.Fprintf(&b, "%s = %s\n", f.Name, tomlValue(f))
	})
	if len(words) > 0 {
		b.WriteString("\n[params]\n")
		for _, w := range words {
			key, value, _ := strings.Cut(w, "=")
			fmt.Fprintf(&b, "%s = %s\n", key, tomlString(value))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// tomlValue is the value of a flag in TOML.
func tomlValue(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool", "int", "float64":
		return f.Value.String()
	case "stringArray":
		if list, ok := f.Value.(pflag.SliceValue); ok {
			var out []string
			for _, s := range list.GetSlice() {
				out = append(out, tomlString(s))
			}
			return "[" + strings.Join(out, ", ") + "]"
		}
	}
	return tomlString(f.Value.String())
}

func tomlString(s string) string {
	b, err := toml.Marshal(map[string]string{"x": s})
	if err != nil {
		return `""`
	}
	return strings.TrimSpace(strings.TrimPrefix(string(b), "x = "))
}
