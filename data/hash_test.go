package data

import "testing"

// What a method may learn from changes the hash of a file; names do not.
func TestTheHashDependsOnGenresAndContext(t *testing.T) {
	const columns = "user=user,item=item,title=title,genres=genres,context=city"
	text := func(title, genre, city string) string {
		return "user,item,title,genres,city\na,1," + title + ",g|h,x\na,2,two," + genre + ",y\nb,1,one,g|h," + city +
			"\n"
	}
	hash := func(text, columns string) string { return mustLoad(t, text, Options{Columns: columns}).Meta.Hash }
	base := text("one", "g", "x")
	same, other := hash(base, columns), hash(base, "user=user,item=item")
	for name, c := range map[string]struct {
		got   string
		equal bool
	}{
		"another title": {hash(text("uno", "g", "x"), columns), true},
		"another genre": {hash(text("one", "h", "x"), columns), false},
		"another city":  {hash(text("one", "g", "y"), columns), false},
		"JSON lines": {hash(`{"user":"a","item":1,"title":"one","genres":["g","h"],"city":"x"}
{"user":"a","item":2,"title":"two","genres":["g"],"city":"y"}
{"user":"b","item":1,"title":"one","genres":["g","h"],"city":"x"}`, columns), true},
		"neither": {other, false},
		"without a header": {
			hash("a,1,one,g|h,x\na,2,two,g,y\nb,1,one,g|h,x\n", "user,item,title,genres,context"), true,
		},
	} {
		if (c.got == same) != c.equal {
			t.Errorf("%s: the hash is %.8s, before %.8s", name, c.got, same)
		}
	}
	if got := hash("user,item\na,1\na,2\nb,1\n", ""); got != other {
		t.Error("the hash of a file without genres and context depends on columns that are not used")
	}
}
