package experiment

import (
	"fmt"
	"strings"
	"testing"
)

// Data on which no run is possible is refused with the cause, when it is checked and when it is split.
func TestImpossibleDataIsRefusedWithItsCause(t *testing.T) {
	rows := func(users, items, each int) string {
		var b strings.Builder
		b.WriteString("user,item,time\n")
		for u := range users {
			for k := range each {
				fmt.Fprintf(&b, "u%d,i%d,%d\n", u, (u+k)%items, 978300760+k)
			}
		}
		return b.String()
	}
	for _, c := range []struct {
		name, text, want, hint string
		minRows                int
	}{
		{"one user", rows(1, 9, 5), "f.csv has 1 user: a federation requires at least 2", "data describe f.csv", 0},
		{"one item", rows(9, 1, 5), "f.csv has 1 item: a ranking requires at least 2", "--columns user=NAME", 0},
		{
			"short histories", rows(9, 9, 2),
			"f.csv has 0 users with 3 interactions or more (the longest history has 2)",
			"tacit run -d f.csv --protocol temporal --min-rows 1", 0,
		},
		{"all seen", rows(9, 4, 4), "no user of f.csv can be ranked", "collect more items", 0},
		{
			"one is left", rows(1, 9, 5) + "v,i1,5\nw,i2,5\n",
			"f.csv has 1 user after filters dropped 2 users with fewer than 3 rows (2 rows)", "--min-rows", 3,
		},
		{"enough", rows(9, 9, 5), "", "", 3},
	} {
		s := &Settings{Data: "f.csv", Protocol: "deployed"}
		s.MinRows = c.minRows
		src, err := ReadData(s, []byte(c.text), "f.csv")
		if err != nil {
			t.Fatal(c.name, err)
		}
		_, splitErr := (&Spec{Settings: *s}).Split(src)
		for what, err := range map[string]error{"check": CheckData(src, s), "split": splitErr} {
			if c.want == "" {
				if err != nil {
					t.Errorf("%s, %s: %v", c.name, what, err)
				}
				continue
			}
			in, ok := err.(*InputError)
			if !ok || !strings.Contains(in.Error(), c.want) || !strings.Contains(in.Hint, c.hint) {
				t.Errorf("%s, %s: error is %#v, want %s (%s)", c.name, what, err, c.want, c.hint)
			}
		}
	}
}
