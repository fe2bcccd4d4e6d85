package wire

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/base/rows"
	"github.com/tacit-rec/tacit/internal/pb"
)

func someFeatures() *rows.Features {
	return &rows.Features{
		User: []rows.Column{{Name: "age", Card: 2, Code: []uint32{1, 0, 1}, Names: []string{"young", "old"}}},
		Item: []rows.Column{{
			Name: "genre", Card: 2, Start: []uint32{0, 0, 2, 3}, Code: []uint32{1, 0, 1},
			Names: []string{"war", ""},
		}, {Name: "size", Value: []float32{1, -2, 0.5}}},
		Row: []rows.Column{{Name: "age", Card: 7, Code: []uint32{6}}, {
			Name: "tags", Card: 2, Code: []uint32{1},
			Start: []uint32{0, 1},
		}},
	}
}

func TestEncodedFeaturesContainNoPrivateValues(t *testing.T) {
	f := someFeatures()
	got, err := ReadFeatures(must2(t)(Marshal(EncodeFeatures(f))), 3)
	if err != nil {
		t.Fatal(err)
	}
	want := someFeatures()
	want.User[0].Code, want.Row[0].Code, want.Row[1].Code, want.Row[1].Start = nil, nil, nil, []uint32{0}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v comes back as %+v", want, got)
	}
	if _, err := ReadFeatures(must2(t)(Marshal(EncodeFeatures(f))), 4); err == nil {
		t.Error("features of 3 items are taken for 4")
	}
}

func TestRefusesInvalidFeatures(t *testing.T) {
	for name, spoil := range map[string]func(c []*pb.Column){
		"no side":          func(c []*pb.Column) { c[0].Side = 0 },
		"another side":     func(c []*pb.Column) { c[0].Side = 9 },
		"no name":          func(c []*pb.Column) { c[0].Name = "" },
		"a control":        func(c []*pb.Column) { c[0].Name = "a\x1b" },
		"twice":            func(c []*pb.Column) { c[2].Name = "genre" },
		"values of users":  func(c []*pb.Column) { c[0].Code = []uint32{1} },
		"values of rows":   func(c []*pb.Column) { c[3].Code = []uint32{1} },
		"a name too few":   func(c []*pb.Column) { c[0].Names = c[0].Names[:1] },
		"one name twice":   func(c []*pb.Column) { c[0].Names = []string{"a", "a"} },
		"a bad name":       func(c []*pb.Column) { c[0].Names = []string{"a", "\x00"} },
		"sets of numbers":  func(c []*pb.Column) { c[1].Categories, c[1].Names = 0, nil },
		"sets unsaid":      func(c []*pb.Column) { c[1].Sets = false },
		"numbers and more": func(c []*pb.Column) { c[2].Code = []uint32{0, 0, 0} },
		"a large code":     func(c []*pb.Column) { c[1].Code[0] = 2 },
		"a wild start":     func(c []*pb.Column) { c[1].Start[1] = 9 },
		"no number":        func(c []*pb.Column) { c[2].Value[0] = float32(math.NaN()) },
		"many categories":  func(c []*pb.Column) { c[3].Categories = 1 << 30 },
	} {
		m := EncodeFeatures(someFeatures())
		spoil(m.Columns)
		b := must2(t)(proto.Marshal(m))
		if f, err := ReadFeatures(b, 3); err == nil {
			t.Errorf("%s: %+v is taken", name, f)
		}
	}
}

func FuzzFeatures(f *testing.F) {
	f.Add(must2(f)(Marshal(EncodeFeatures(someFeatures()))), uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, items uint16) {
		got, err := ReadFeatures(b, int(items))
		if err != nil {
			return
		}
		for i := range got.Item {
			for k := range uint32(items) {
				if c := &got.Item[i]; c.Card > 0 {
					_ = c.Of(k)
				} else {
					_ = c.Value[k]
				}
			}
		}
		again, err := ReadFeatures(must2(t)(Marshal(EncodeFeatures(got))), int(items))
		if err != nil || !proto.Equal(EncodeFeatures(got), EncodeFeatures(again)) {
			t.Fatalf("%+v comes back as %+v, %v", got, again, err)
		}
	})
}

func TestRefusesTooManyColumnsBeforeReadingThem(t *testing.T) {
	m := &pb.Features{}
	for i := range rows.MaxColumns + 1 {
		m.Columns = append(m.Columns, &pb.Column{Side: pb.Column_USER, Name: strconv.Itoa(i), Categories: 2})
	}
	m.Columns[1].Name = "" // an error that only reading the columns finds
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFeatures(b, 1); err == nil || !strings.Contains(err.Error(), "65 columns") {
		t.Error(err)
	}
}
