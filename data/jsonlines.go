package data

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// jsonLines is a table of one JSON object per line. Its columns are the keys of the first objects.
type jsonLines struct {
	in     *lines
	names  []string
	at     map[string]int
	fields [][]byte
	late   []string // the first keys that the first objects lack
	more   bool     // others follow
}

func (t *jsonLines) Format() string    { return "JSON lines" }
func (t *jsonLines) Columns() []string { return t.names }
func (t *jsonLines) line() int         { return t.in.n }

// newJSONLines returns nil if the text does not start with a brace.
func newJSONLines(in *lines) (*jsonLines, error) {
	head, first, err := in.probe(32)
	if err != nil || len(head) == 0 {
		return nil, err
	}
	switch start := bytes.TrimLeft(head[0], " \t"); {
	case bytes.HasPrefix(start, []byte("[")) && (len(start) == 1 || bytes.HasPrefix(trim(start[1:]), []byte("{"))):
		return nil, &InputError{
			File: in.file, Line: first, Found: short(head[0]), Expected: "one JSON object per line, not an array",
			Hint: "convert it: jq -c '.[]' FILE > FILE.jsonl",
		}
	case !bytes.HasPrefix(start, []byte("{")):
		return nil, nil
	}
	t := &jsonLines{in: in, at: map[string]int{}}
	for i, line := range head {
		object, err := t.object(line, first)
		if err != nil && i > 0 {
			break // Next reports it with its line
		}
		if err != nil {
			return nil, err
		}
		keys := make([]string, 0, len(object))
		for k := range object {
			if _, known := t.at[k]; !known {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			t.at[k] = len(t.names)
			t.names = append(t.names, k)
		}
		if len(t.names) > maxColumns {
			break // openTable rejects it
		}
	}
	t.fields = make([][]byte, len(t.names))
	return t, nil
}

func (t *jsonLines) object(line []byte, n int) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil || object == nil {
		hint := ""
		if bytes.HasPrefix(trim(line), []byte("{")) && !bytes.HasSuffix(trim(line), []byte("}")) {
			hint = "write each object on one line: jq -c . FILE > FILE.jsonl"
		}
		return nil, &InputError{File: t.in.file, Line: n, Found: short(line), Expected: "a JSON object", Hint: hint}
	}
	return object, nil
}

func (t *jsonLines) Next() ([][]byte, error) {
	for {
		line, err := t.in.next()
		if err != nil {
			return nil, err
		}
		if blank(line) {
			continue
		}
		object, err := t.object(line, t.in.n)
		if err != nil {
			return nil, err
		}
		clear(t.fields)
		for k, v := range object {
			if c, ok := t.at[k]; ok {
				t.fields[c] = jsonText(v)
			} else if !slices.Contains(t.late, k) {
				t.tooLate(k)
			}
		}
		return t.fields, nil
	}
}

// tooLate keeps a key for note.
func (t *jsonLines) tooLate(key string) {
	if len(t.late) == maxNamed {
		t.more = true
		return
	}
	t.late = append(t.late, key)
}

// note names the keys that are ignored because only the first objects say which columns there are.
func (t *jsonLines) note() string {
	if len(t.late) == 0 {
		return ""
	}
	names := make([]string, len(t.late))
	for i, k := range t.late {
		names[i] = printable(k)
	}
	slices.Sort(names)
	out := "unused columns, which the first 32 objects lack: " + strings.Join(names, ", ")
	if t.more {
		out += " and more"
	}
	return out + "; to use one, move an object that has it to the beginning of the file"
}

// jsonText is a value as text: lists of texts and numbers with | between their parts, and nothing for null, objects
// and lists of other things.
func jsonText(v json.RawMessage) []byte {
	switch v[0] {
	case '"':
		var s string
		if json.Unmarshal(v, &s) != nil {
			return nil
		}
		return trim([]byte(s))
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			return nil
		}
		var out []byte
		for i, x := range list {
			if i > 0 {
				out = append(out, '|')
			}
			if x[0] != '[' {
				out = append(out, jsonText(x)...)
			}
		}
		return out
	case '{', 'n':
		return nil
	}
	return v
}
