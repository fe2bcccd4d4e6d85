package parquet

import (
	"errors"
	"fmt"
)

var errSchema = errors.New("invalid schema")

// walk flattens a schema, which lists each group before its children.
type walk struct {
	list   []any
	at     int
	leaves int
}

// schema sets the columns of a file, and returns the number of leaves of the schema.
func (f *File) schema(list []any) (int, error) {
	if len(list) == 0 {
		return 0, errSchema
	}
	root, _ := list[0].(record)
	w := &walk{list: list, at: 1}
	for range root.int(5) {
		if w.at >= len(list) {
			return 0, errSchema
		}
		top, _ := list[w.at].(record)
		name, _ := top[4].([]byte)
		found, err := w.element(0, 0, 0)
		if err != nil {
			return 0, err
		}
		if len(found) != 1 || found[0].rep > 1 {
			continue // a record or a map
		}
		found[0].name = string(name)
		f.names, f.columns = append(f.names, string(name)), append(f.columns, found[0])
		if len(f.columns) > maxColumns {
			return 0, fmt.Errorf("more than %d columns", maxColumns)
		}
	}
	if w.at != len(list) {
		return 0, errSchema
	}
	return w.leaves, nil
}

// element returns the leaves of the next element.
func (w *walk) element(def, rep, depth int) ([]*column, error) {
	if w.at >= len(w.list) || depth > maxDepth {
		return nil, errSchema
	}
	e, _ := w.list[w.at].(record)
	w.at++
	switch e.int(3) {
	case 0:
	case 1:
		def++
	case 2:
		def++
		rep++
	default:
		return nil, errSchema
	}
	if n := e.int(5); n != 0 || !e.has(1) {
		var out []*column
		if n < 0 || n > int64(len(w.list)) {
			return nil, errSchema
		}
		for range n {
			found, err := w.element(def, rep, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		return out, nil
	}
	c := &column{leaf: w.leaves, kind: kind{def: def, rep: rep, physical: int(e.int(1)), length: int(e.int(2))}}
	w.leaves++
	if c.physical < boolean || c.physical > fixedArray || c.physical == fixedArray && (c.length < 1 ||
		c.length > maxPage) {
		return nil, errSchema
	}
	c.mean(e)
	return []*column{c}, nil
}

// mean sets what the numbers of a column mean, from the logical type, or from the older converted type.
func (c *column) mean(e record) {
	logical := e.record(10)
	scale := e.int(7)
	switch {
	case logical.has(6):
		c.meaning = date
	case logical.has(8):
		t := logical.record(8)
		c.utc, _ = t[1].(bool)
		unit := t.record(2)
		for k, m := range []meaning{millis, micros, nanos} {
			if unit.has(int16(k + 1)) {
				c.meaning = m
			}
		}
	case logical.has(5):
		c.meaning, scale = decimal, logical.record(5).int(1)
	case logical.has(10):
		if signed, ok := logical.record(10)[2].(bool); ok && !signed {
			c.meaning = unsigned
		}
	case logical.has(14):
		c.meaning = uuid
	case e.has(6):
		switch k := e.int(6); k {
		case 5:
			c.meaning = decimal
		case 6:
			c.meaning = date
		case 9, 10:
			c.meaning, c.utc = millis+meaning(k-9), true
		case 11, 12, 13, 14:
			c.meaning = unsigned
		}
	}
	if c.meaning == decimal {
		c.scale = int(min(max(scale, 0), 300))
	}
}
