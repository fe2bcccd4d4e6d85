package conform

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/sim"
)

// keepsNoState checks that a run changes neither the method that it was given nor the method that
// Bind returned, and that a method that was used declares the same slots as a new one for a
// catalogue of another size.
func keepsNoState(build Build) error {
	s, err := data.NewSplit(board(), fair, 1)
	if err != nil {
		return err
	}
	used := build()
	before := snapshot(used)
	o := options(2)
	r, err := sim.New(used, s, o, 1, 2)
	if err != nil {
		return err
	}
	if err := unchanged(before, used); err != nil {
		return fmt.Errorf("the method was changed by Bind, Slots or Visit: %w", err)
	}
	bound := snapshot(r.Plan().Method)
	if err := steps(r, o.Rounds); err != nil {
		return err
	}
	if err := unchanged(before, used); err != nil {
		return fmt.Errorf("a run of 2 rounds changed the method: %w", err)
	}
	if err := unchanged(bound, r.Plan().Method); err != nil {
		return fmt.Errorf("a run of 2 rounds changed the method that Bind returned: %w", err)
	}
	features, err := s.Features()
	if err != nil {
		return err
	}
	var slots [2][]method.Slot
	for k, m := range []method.Method{used, build()} {
		if m, err = method.Bind(m, features); err != nil {
			return err
		}
		slots[k] = m.Slots(boardSize / 2)
	}
	if err := firstDifference(snapshot(slots[1]), snapshot(slots[0])); err != nil {
		return fmt.Errorf("a method that was used declares other slots for %d items than a new one: %w",
			boardSize/2, err)
	}
	return nil
}

func unchanged(before []string, m method.Method) error { return firstDifference(before, snapshot(m)) }

// firstDifference reports the first line that two snapshots do not share.
func firstDifference(want, got []string) error {
	for i := range max(len(want), len(got)) {
		w, g := "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			return fmt.Errorf("expected %s, got %s; a method must keep no state", w, g)
		}
	}
	return nil
}

// snapshot lists everything that a value reaches, one line per number, text or function, with its
// path. It reads unexported fields too.
func snapshot(v any) []string {
	s := snapshotter{seen: map[pointer]string{}}
	value := reflect.ValueOf(v)
	s.add(strings.TrimPrefix(value.Type().String(), "*"), value)
	return s.lines
}

type snapshotter struct {
	lines []string
	seen  map[pointer]string // the path of each pointer that was followed
}

// pointer identifies a pointer. A struct and its first field have the same address.
type pointer struct {
	address uintptr
	of      reflect.Type
}

func (s *snapshotter) line(path, format string, args ...any) {
	s.lines = append(s.lines, path+" = "+fmt.Sprintf(format, args...))
}

func (s *snapshotter) add(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			s.line(path, "nil")
			return
		}
		p := pointer{v.Pointer(), v.Type()}
		if first, ok := s.seen[p]; ok {
			s.line(path, "pointer to %s", first)
			return
		}
		s.seen[p] = path
		s.add(path, v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			s.line(path, "nil")
			return
		}
		s.add(path+".("+v.Elem().Type().String()+")", v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			s.add(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		s.line("the length of "+path, "%d", v.Len())
		for i := range v.Len() {
			s.add(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		s.line("the length of "+path, "%d", v.Len())
		s.addMap(path, v)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		s.line(path, "%#x", v.Pointer())
	default:
		s.line(path, "%v", v) // fmt prints the number or text that a Value holds, exported or not
	}
}

// addMap adds the entries of a map in the order of their keys' text.
func (s *snapshotter) addMap(path string, v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	for _, k := range keys {
		s.add(fmt.Sprintf("%s[%v]", path, k), v.MapIndex(k))
	}
}
