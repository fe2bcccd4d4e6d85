package data

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// The sets below cannot be given away. These files are made by what their owners
// say of the format, and the counts by an oracle that knows nothing of loaders.

// count says how many users, items and rows are left when users with fewer rows
// than least are gone.
func count(rows [][2]int, least int) string {
	own := map[int]int{}
	for _, r := range rows {
		own[r[0]]++
	}
	users, items, n := map[int]bool{}, map[int]bool{}, 0
	for _, r := range rows {
		if own[r[0]] >= least {
			users[r[0]], items[r[1]] = true, true
			n++
		}
	}
	return fmt.Sprint(len(users), " ", len(items), " ", n)
}

// hetRecFiles makes a tag log in both forms, listening counts and a catalogue.
// Users tag an artist repeatedly, and all they do in a day has the same time.
func hetRecFiles(users int) (fsys fstest.MapFS, tags, plays [][2]int) {
	r := rng.New(7, rng.Test)
	var stamps, days, counts, names strings.Builder
	stamps.WriteString("\xef\xbb\xbfuserID\tartistID\ttagID\ttimestamp\r\n")
	days.WriteString("userID\tartistID\ttagID\tday\tmonth\tyear\r\n")
	counts.WriteString("userID\tartistID\tweight\r\n")
	names.WriteString("id\tname\turl\tpictureURL\n")
	for u := 2; u < 2+users; u++ {
		for range 1 + r.Uint32n(12) {
			day := time.Date(2005+int(r.Uint32n(6)), time.Month(1+r.Uint32n(12)), 1, 0, 0, 0, 0, time.UTC)
			if r.Uint32n(50) == 0 {
				day = time.Date(1956, 6, 1, 0, 0, 0, 0, time.UTC) // before 1970, and so before 0
			}
			artist := 1 + int(r.Uint32n(60))
			for tag := range 1 + r.Uint32n(3) {
				tags = append(tags, [2]int{u, artist})
				fmt.Fprintf(&stamps, "%d\t%d\t%d\t%d\r\n", u, artist, tag, day.UnixMilli())
				fmt.Fprintf(&days, "%d\t%d\t%d\t%d\t%d\t%d\r\n", u, artist, tag, day.Day(), day.Month(), day.Year())
			}
		}
		for k := range int(r.Uint32n(25)) {
			plays = append(plays, [2]int{u, 1 + (u*7+k*k)%90})
			fmt.Fprintf(&counts, "%d\t%d\t%d\r\n", u, 1+(u*7+k*k)%90, 1+r.Uint32n(9000))
		}
	}
	for a := 1; a < 60; a++ { // the last artists have no name
		fmt.Fprintf(&names, "%d\tMot\xf6rhead %d\thttp://x\n", a, a)
	}
	return files("lastfm-2k/user_taggedartists-timestamps.dat", stamps.String(), "lastfm-2k/user_taggedartists.dat",
		days.String(),
		"lastfm-2k/user_artists.dat", counts.String(), "lastfm-2k/artists.dat", names.String()), tags, plays
}

func opened(t *testing.T, fsys fs.FS, name string, opt Options) *Set {
	t.Helper()
	s, err := Open(fsys, name, opt)
	if err != nil {
		t.Fatal(err)
	}
	checkSet(t, s)
	return s
}

func sizes(s *Set) string { return fmt.Sprint(s.Users(), " ", s.Items(), " ", len(s.Item)) }

func TestLastFMHasTwoReadingsInOneFolder(t *testing.T) {
	fsys, tags, plays := hetRecFiles(80)
	log := opened(t, fsys, "lastfm-2k", Options{})
	if got, want := sizes(log), count(tags, 5); got != want {
		t.Errorf("the tag log has %s users, items and rows, want %s", got, want)
	}
	listened := opened(t, fsys, "lastfm-2k-artists", Options{})
	if got, want := sizes(listened), count(plays, 10); got != want {
		t.Errorf("the listening counts have %s users, items and rows, want %s", got, want)
	}
	if log.Meta.TimeKind != RealTime || listened.Meta.TimeKind != OrderOnly || log.Value != nil ||
		listened.Value == nil {
		t.Errorf("times are %v and %v, want real and order only; only the counts have values", log.Meta.TimeKind,
			listened.Meta.TimeKind)
	}
	if got := log.Meta.ItemName(0); !strings.HasPrefix(got, "Motörhead ") {
		t.Errorf("the first artist is called %q", got)
	}
	for least, rows := range map[int][][2]int{1: tags, 3: tags, 9: tags} {
		if got, want := sizes(opened(t, fsys, "lastfm-2k", Options{MinRows: least})), count(rows, least); got != want {
			t.Errorf("min rows %d: got %s, want %s", least, got, want)
		}
	}
}

func TestBothFormsOfTheTagLogAreOneSet(t *testing.T) {
	fsys, _, _ := hetRecFiles(40)
	stamped := opened(t, fsys, "lastfm-2k", Options{})
	delete(fsys, "lastfm-2k/user_taggedartists-timestamps.dat")
	dated := opened(t, fsys, "lastfm-2k", Options{})
	if stamped.Meta.Hash != dated.Meta.Hash {
		t.Errorf("milliseconds and dates give the hashes %s and %s", stamped.Meta.Hash, dated.Meta.Hash)
	}
	if want := "time=timestamp (column 4), in milliseconds; header yes"; !strings.Contains(stamped.Meta.Columns, want) {
		t.Errorf("columns are %q, want %q in them", stamped.Meta.Columns, want)
	}
}

func TestTheNewestRowOfATieIsTheFirstInTheFile(t *testing.T) {
	fsys := files("user_taggedartists.dat",
		"userID\tartistID\ttagID\tday\tmonth\tyear\n2\t52\t13\t1\t4\t2009\n2\t52\t15\t1\t4\t2009\n"+
			"2\t63\t13\t1\t4\t2009\n2\t73\t13\t1\t3\t2009\n2\t94\t20\t1\t4\t2009\n")
	const april, march = "@1238544000", "@1235865600"
	want := "2: 73" + march + " 94" + april + " 63" + april + " 52" + april + " 52" + april + "\n"
	if got := dump(opened(t, fsys, "lastfm-2k", Options{})); got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

func TestItemsFirstRowIsUsedAsItsTime(t *testing.T) {
	// Artist 9 is the last to appear and artist 5 the first, independent of the order of a user's rows.
	fsys := files("user_artists.dat", "userID\tartistID\tweight\n2\t5\t100\n2\t7\t90\n3\t9\t8\n3\t5\t7\n3\t7\t6\n")
	s := opened(t, fsys, "lastfm-2k-artists", Options{MinRows: 3})
	if got, want := dump(s), "3: 5=7@0 7=6@1 9=8@2\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	if want := "time=the item's first row; header yes"; !strings.Contains(s.Meta.Columns, want) {
		t.Errorf("columns are %q, want %q in them", s.Meta.Columns, want)
	}
	temporal, err := ProtocolNamed("temporal")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSplit(s, temporal, 1); err == nil {
		t.Error("the protocol temporal takes an order for a time")
	}
}

func TestQBArticleKeepsItsFirstRowAndOnlyClicks(t *testing.T) {
	head := "user_id,item_id,click,gender,age,exposure_count\n"
	fsys := files("qb-article/QB-article.csv", head+
		"1,30,1,2,5,9\n1,10,0,2,5,9\n1,20,1,2,5,9\n2,20,1.0,1,6,9\n2,10,1,1,6,9\n2,30,1,1,6,9\n")
	s := opened(t, fsys, "qb-article", Options{})
	// Article 10 appears second, although that row is not a click.
	if got, want := dump(s), "1: 30=1@0 20=1@2\n2: 30=1@0 10=1@1 20=1@2\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	if want := "1 rows with a value below 1"; s.Meta.FilteredOut != want {
		t.Errorf("left out %q, want %q", s.Meta.FilteredOut, want)
	}
	clicks := opened(t, fsys, "qb-article-clicks", Options{MinRows: 1})
	if got, want := dump(clicks), "1: 30=1@0 20=1@2\n2: 20=1@3 10=1@4 30=1@5\n"; got != want {
		t.Errorf("in the order of clicks: got %swant %s", got, want)
	}
}

func TestTaFengsFourFilesAreOneSetInTheOrderOfTime(t *testing.T) {
	const big5 = "" +
		"\xa4\xe9\xb4\xc1;\xb7|\xad\xfb\xa5d\xb8\xb9;\xa6~\xc4\xd6;\xb0\xcf\xb0\xec;\xb0\xd3\xab~\xa4\xc0\xc3\xfe;" +
		"\xb0\xd3\xab~\xbds\xbdX;\xbc\xc6\xb6q;\xa6\xa8\xa5\xbb;\xbeP\xb0\xe2\r\n"
	row := func(day, user, item string, n int) string {
		return fmt.Sprintf("%s 00:00:00;%s  ;D ;E ;110411;%s;%d;51;57\r\n", day, user, item, n)
	}
	four := files(
		"tafeng/D11", big5+row("2000-11-30", "00046855", "4710", 3)+row("2000-11-01", "00046855", "4711", 1),
		// without the line of names
		"tafeng/D12", row("2000-12-25", "00046855", "4712", 1)+row("2000-12-24", "01", "4710", 2),
		"tafeng/D01", big5+row("2001-01-01", "01", "4711", 1),
		"tafeng/D02", big5+row("2001-02-28", "01", "4710", 1)+row("2001-02-28", "00046855", "4710", 1))
	s := opened(t, four, "tafeng", Options{})
	want := "00046855: 4711=1@973036800 4710=3@975542400 4712=1@977702400 4710=1@983318400\n01: 4710=2@977616000 " +
		"4711=1@978307200 4710=1@983318400\n"
	if got := dump(s); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	const columns = "user=column 2, item=column 6, rating=column 7, time=column 1; header yes; separator semicolon"
	if s.Meta.Columns != columns {
		t.Errorf("columns are %q, want %q", s.Meta.Columns, columns)
	}
	merged := files("tafeng/ta_feng_all_months_merged.csv",
		"TRANSACTION_DT,CUSTOMER_ID,AGE_GROUP,PIN_CODE,PRODUCT_SUBCLASS,PRODUCT_ID,AMOUNT,ASSET,SALES_PRICE\n"+
			"11/30/2000,46855,35-39,115,110411,4710,3,51,57\n11/1/2000,46855,35-39,115,110411,4711,1,51,57\n"+
			"12/25/2000,46855,35-39,115,110411,4712,1,51,57\n12/24/2000,1,35-39,115,110411,4710,2,51,57\n"+
			"1/1/2001,1,35-39,115,110411,4711,1,51,57\n2/28/2001,1,35-39,115,110411,4710,1,51,57\n"+
			"2/28/2001,46855,35-39,115,110411,4710,1,51,57\n")
	if got := opened(t, merged, "tafeng", Options{}).Meta.Hash; got != s.Meta.Hash {
		t.Error("the merged file is another set than the four")
	}
	delete(four, "tafeng/D01")
	_, err := Open(four, "tafeng", Options{})
	var missing *MissingFileError
	if !errors.As(err, &missing) || missing.File != "tafeng/D01" || strings.Contains(err.Error(), "data fetch") {
		t.Errorf("got %v, want the file that is missing and no command that cannot help", err)
	}
}

func TestAmazonRatingsLoadByNameAndAsFiles(t *testing.T) {
	const users, items = "A1EE2E3N7PW666 AFI4TKPAEMA6VBRHQ25MUXLHEIBA A1RSDE90N6RSZF",
		"B000GFDAUG 0439381673 B004HC5RF2"
	rows := "A1EE2E3N7PW666,B000GFDAUG,5.0,1202774400\nA1RSDE90N6RSZF,0439381673,4.0,1202774500\n" +
		"A1EE2E3N7PW666,0439381673,1.0,1202774300\n"
	want := "A1EE2E3N7PW666: 0439381673=1@1202774300 B000GFDAUG=5@1202774400\nA1RSDE90N6RSZF: 0439381673=4@1202774500\n"
	s := opened(t, files("amazon-video/ratings_Amazon_Instant_Video.csv", rows), "amazon-video", Options{MinRows: 1})
	if got := dump(s); got != want {
		t.Errorf("by name: got\n%swant\n%s", got, want)
	}
	var of2018, of2023 strings.Builder
	of2023.WriteString("user_id,parent_asin,rating,timestamp,history\n")
	for _, line := range strings.Split(strings.TrimSpace(rows), "\n") {
		f := strings.Split(line, ",")
		fmt.Fprintf(&of2018, "%s,%s,%s,%s\n", f[1], f[0], f[2], f[3])
		fmt.Fprintf(&of2023, "%s,%s,%s,%s123,%s\n", f[0], f[1], f[2], f[3], "B000000001 B000000002")
	}
	for name, text := range map[string]string{"2014": rows, "2018": of2018.String(), "2023": of2023.String()} {
		if got := dump(mustLoad(t, text, Options{})); got != want {
			t.Errorf("the form of %s: got\n%swant\n%s", name, got, want)
		}
	}
	// One row that could be the other way round leaves the columns as they come.
	odd := mustLoad(t, of2018.String()+"7,8,1,1202774300\n", Options{})
	if !strings.HasPrefix(odd.Meta.Columns, "user=column 1, item=column 2") {
		t.Errorf("columns are %q", odd.Meta.Columns)
	}
	for _, id := range strings.Fields(users) {
		if isASIN([]byte(id)) || !isReviewer([]byte(id)) {
			t.Errorf("%s is taken for a product", id)
		}
	}
	for _, id := range strings.Fields(items) {
		if !isASIN([]byte(id)) || isReviewer([]byte(id)) {
			t.Errorf("%s is taken for a reviewer", id)
		}
	}
}

func TestDatesMatchTheCalendar(t *testing.T) {
	for day := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 10000; day = day.AddDate(0, 0, 1+
		int(day.Unix()/86400&63)) {
		for _, layout := range []string{"2006-01-02", "2006-01-02 15:04:05", "1/2/2006"} {
			if got, ok := dateText.seconds([][]byte{[]byte(day.Format(layout))}); !ok || got != day.Unix() {
				t.Fatalf("%s is %d, %v, want %d", day.Format(layout), got, ok, day.Unix())
			}
		}
	}
	for _, bad := range []string{
		"", "-", "--", "//", "2001-02-29", "1900-02-29", "2000-13-01", "2000-00-01", "2000-01-00", "2000-04-31",
		"0-1-1", "10000-1-1",
		"2000-01-01 noon", "13/1/2000", "1/2/2000/3", "2000-1", "1e3-1-1", "-2000-1-1", "99999999999999999999-1-1",
		"973036800",
	} {
		if got, ok := dateText.seconds([][]byte{[]byte(bad)}); ok {
			t.Errorf("%q is the date %d, want none", bad, got)
		}
	}
}

func TestMalformedRowsOfKnownSetsNameTheLine(t *testing.T) {
	tagged := "userID\tartistID\ttagID\tday\tmonth\tyear\n"
	for _, c := range []struct{ name, file, text, want string }{
		{
			"tafeng", "D11", "2000-11-01 00:00:00;1;D;E;1;2;3;51;57\nyesterday;1;D;E;1;2;3;51;57\n",
			`D11 line 2: found "yesterday", expected a date such as 2000-11-01 or 11/1/2000 in column 1 (time)`,
		},
		{
			"tafeng", "D11", "2000-11-01 00:00:00;1;D;E;1\n",
			`D11 line 1: found "2000-11-01 00:00:00;1;D;E;1", expected at least 7 columns separated by semicolon`,
		},
		{
			"lastfm-2k", "user_taggedartists.dat", tagged + "1\t2\t3\t31\t2\t2009\n",
			`user_taggedartists.dat line 2: found "31", expected the day, month and year of a date, starting in column 4 (time)`,
		},
		{
			"lastfm-2k", "user_taggedartists.dat", tagged + "1\t2\t3\t31\n",
			`user_taggedartists.dat line 2: found "1\t2\t3\t31", expected at least 6 columns separated by tab`,
		},
		{
			"lastfm-2k", "user_taggedartists.dat", "2\t52\t13\t1\t4\t2009\n",
			`user_taggedartists.dat line 1: found "2 52 13 1 4 2009", expected a column named "userID" in the header`,
		},
		{
			"lastfm-2k-artists", "user_artists.dat", "userID\tartistID\tweight\n1\t2\tmany\n",
			`user_artists.dat line 2: found "many", expected a number in column 3 (rating)`,
		},
		{
			"qb-article", "QB-article.csv", "user_id,item_id,click\n1,2,0\n",
			`QB-article.csv: found "0 of 1 rows", expected at least one row after the filters; dropped: 1 rows with a value below 1`,
		},
		{
			"qb-article", "QB-article.csv", "user_id,item_id\n1,2\n",
			`QB-article.csv line 1: found "user_id item_id", expected a column named "click" in the header`,
		},
		{
			"amazon-video", "ratings_Amazon_Instant_Video.csv", "A1,B1,5.0,x\n",
			`ratings_Amazon_Instant_Video.csv line 1: found "x", expected a number in column 4 (time); write times as ISO 8601 dates or as Unix seconds, or name the columns to use`,
		},
	} {
		if c.file == "D11" { // all four must be there
			if _, err := Open(files(c.file, c.text, "D12", c.text, "D01", c.text, "D02", c.text), c.name,
				Options{}); err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			continue
		}
		if _, err := Open(files(c.file, c.text), c.name, Options{}); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestEverySetHasAHomeAndALicence(t *testing.T) {
	folders := map[string]Archive{}
	for _, k := range KnownSets() {
		if k.About == "" || !strings.HasPrefix(k.Home, "https://") || len(k.Licence) < 40 || k.Needs() == "" ||
			k.Users*k.Items*k.Rows == 0 {
			t.Errorf("%s lacks something: %+v", k.Name, k)
		}
		if a := k.Archive; a.URL != "" && !strings.HasPrefix(a.URL, "https://") || a.SHA256 != "" &&
			len(a.SHA256) != 64 {
			t.Errorf("%s: archive %+v", k.Name, a)
		}
		if a, ok := folders[k.Folder]; ok && a != k.Archive {
			t.Errorf("%s shares the folder %s and not the archive", k.Name, k.Folder)
		}
		folders[k.Folder] = k.Archive
	}
}

func TestASetIsFoundWhereItWouldBeOpened(t *testing.T) {
	fsys, _, _ := hetRecFiles(20)
	for _, k := range KnownSets() {
		_, err := Open(fsys, k.Name, Options{})
		if got := k.Find(fsys); (got != "") != (err == nil) || got != "" && !strings.HasPrefix(got, "lastfm-2k/user_") {
			t.Errorf("%s is found at %q, and opening it says %v", k.Name, got, err)
		}
	}
}
