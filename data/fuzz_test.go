package data

import (
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// checkRead checks a set, or the error instead of it, and reports whether it is a set.
func checkRead(t *testing.T, name string, s *Set, err error) bool {
	t.Helper()
	if (s == nil) == (err == nil) {
		t.Fatalf("%s: got set %v and error %v", name, s, err)
	}
	if err != nil && strings.ContainsRune(err.Error(), '\n') {
		t.Fatalf("%s: the error has more than a line: %q", name, err)
	}
	if err == nil {
		checkSet(t, s)
	}
	return err == nil
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"196\t242\t3\t881250949\n186\t302\t3\t891717742\n", "1::2::3::4\n1::3::3::5\r\n",
		"user,item,rating\n1,\"a, \"\"b\",3\n",
		"1 1 2\n1 2 3.5\n", "\xef\xbb\xbfa;b\nc;d", "1|2|1e3|-5.5\n1|3|2|7\n", "1\tMis\xe9rables\n",
		zipped("1 2\n3 4\n"), "", "\n", "\"",
	} {
		f.Add(s, "", "", "", float32(0), false, "", 0)
	}
	f.Add("1 2 3 4\n1 2 4 5\n", "space", "no", "user,item,rating,time", float32(3.5), true, "last", 1)
	f.Add("a b\n1 2\n", " ", "yes", "user=a,item=b", float32(0), false, "first", 2)
	f.Add("1 2 3\n", "", "auto", "user=3,item=1", float32(0), false, "none", 0)
	f.Add("uid,movie,ts\n1,2,978300760999\n1,3,978300760998\n", "", "", "", float32(0), false, "", 0)
	f.Add("user,item,when,genres\n1,2,31/12/2000,a|b\n1,3,2000-12-31 10:20 PM,\n", "", "", "user,item,time,context",
		float32(0), false, "", 0)
	f.Add("1,2\n1,2,3\x00\n", "", "", "user=0,item=1", float32(0), false, "", 0)
	f.Fuzz(func(t *testing.T, text, sep, header, columns string, threshold float32, has bool, dedup string, least int) {
		opt := Options{
			Sep: sep, Header: header, Columns: columns, Threshold: threshold, HasThreshold: has,
			Dedup: dedup, MinRows: least,
		}
		s, err := Read(strings.NewReader(text), "fuzz", opt)
		if !checkRead(t, "fuzz", s, err) {
			return
		}
		if in := s.Meta.Columns; !strings.HasPrefix(in, "user=") || !utf8.ValidString(in) ||
			strings.ContainsAny(in, "\n\x00\x1b") {
			t.Fatalf("columns are %q", in)
		}
		c := Describe(s)
		if c.Rows != len(s.Item) || c.Pairs > c.Rows || c.PerUser.Min < max(1, least) || dedup != "" &&
			dedup != "none" && c.Duplicates > 0 {
			t.Fatalf("card is %+v", c)
		}
	})
}

// FuzzOpen gives the same text to every known set, as all of its files.
func FuzzOpen(f *testing.F) {
	fsys, _, _ := hetRecFiles(4)
	for _, m := range fsys {
		f.Add(string(m.Data))
	}
	f.Add("user_id,item_id,click\n1,2,1\n1,3,0\n")
	f.Add("2000-11-01 00:00:00;1  ;D ;E ;1;2;3;51;57\n2000-11-31;1;D;E;1;2;3;51;57\n")
	f.Add("TRANSACTION_DT,CUSTOMER_ID,PRODUCT_ID,AMOUNT\n11/1/2000,1,2,3\n")
	f.Add("A1EE2E3N7PW666,B000GFDAUG,5.0,1202774400\n")
	f.Add(uData)
	f.Add(uItem)
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range KnownSets() {
			all := fstest.MapFS{}
			for _, name := range k.Files() {
				all[name] = &fstest.MapFile{Data: []byte(text)}
			}
			s, err := Open(all, k.Name, Options{MinRows: 1})
			checkRead(t, k.Name, s, err)
		}
	})
}

func FuzzParseWorld(f *testing.F) {
	f.Add("users=1000,items=500,mean-rows=40,seed=7,drift=0.5")
	f.Add("users=1,items=20")
	f.Add("usrs=1,,=,drift=1e-320")
	f.Fuzz(func(t *testing.T, s string) {
		cfg, err := ParseWorld(s)
		if err != nil {
			return
		}
		if back, err := ParseWorld(cfg.String()); err != nil || back != cfg {
			t.Fatalf("%q gives %+v, whose text gives %+v, %v", s, cfg, back, err)
		}
		if cfg.Items > 2000 || cfg.MeanRows > 200 {
			return
		}
		w, err := NewWorld(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var h History
		w.History(cfg.Users-1, &h)
		if len(h.Items) < 5 {
			t.Fatalf("the last user has %d rows", len(h.Items))
		}
	})
}
