package data

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Every form of a date is read as package time reads it.
func TestDatesAreReadAsPackageTimeReadsThem(t *testing.T) {
	layouts := []string{
		time.DateOnly, time.DateTime, time.RFC3339, time.RFC3339Nano, "2006-01-02 15:04", "2006-01-02T15:04:05",
		"2006-01-02 15:04:05.000000", "2006-01-02 15:04:05-07:00", "2006-01-02 15:04:05 UTC", "2006-01-02T15:04:05-07",
		"2006-01-02T15:04:05-0700", "2006/01/02 15:04:05", "20060102", "20060102150405", "02.01.2006", "2.1.2006 15:04",
		"Mon Jan 02 15:04:05 -0700 2006", "Mon, 02 Jan 2006 15:04:05 GMT", "Jan 2, 2006",
		"2 January 2006", "02-Jan-2006",
		"January 2, 2006 3:04 PM", "2. Jan 2006", "01 2, 2006x",
	}
	zone := time.FixedZone("", -(3*3600 + 1800))
	read := 0
	for _, layout := range layouts {
		for _, when := range []time.Time{
			time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(1999, 12, 31, 23, 59, 59, 999999000, zone),
			time.Date(1969, 7, 20, 12, 30, 15, 123000, time.UTC), time.Date(2024, 9, 5, 12, 0, 1, 0, zone),
			time.Date(1900, 3, 1, 11, 5, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 59, 0, 0, time.UTC),
		} {
			if strings.Contains(layout, "UTC") || strings.Contains(layout, "GMT") {
				when = when.UTC()
			}
			text := when.Format(layout)
			want, err := time.Parse(layout, text)
			if err != nil {
				t.Fatal(err)
			}
			var s stamp
			ok := s.parse([]byte(text))
			got, _, valid, _ := s.moments()
			if strings.HasSuffix(layout, "x") {
				if ok && valid {
					t.Errorf("%q is read as a date", text)
				}
				continue
			}
			read++
			if !ok || !valid || got != want.UnixMicro() {
				t.Errorf("%q: got %d, %t, want %d", text, got, ok && valid, want.UnixMicro())
			}
		}
	}
	if read != 6*(len(layouts)-1) {
		t.Errorf("%d dates were read", read)
	}
}

func TestMomentsAreWrittenAsPackageTimeWritesThem(t *testing.T) {
	for _, at := range []int64{0, -1, 951782399, 951782400, 951868800, 4107542400, -62135596800, 253402300799} {
		for k := range int64(3000) {
			x := at + (k-1500)*(secondsPerDay+61)
			if x < -62135596800 || x > 253402300799 { // years 1 to 9999
				continue
			}
			if got, want := momentText(x), time.Unix(x, 0).UTC().Format("2006-01-02T15:04:05Z"); got != want {
				t.Fatalf("%d is %s, want %s", x, got, want)
			}
		}
	}
}

func TestWhatIsNoDateIsRejected(t *testing.T) {
	for _, text := range []string{
		"", "5", "4.5", "881250949", "2001-02-29", "2000-13-01", "2000-00-10", "0000-01-01", "2000-1", "00-11-01",
		"2000-11-01T", "2000-11-01T24:00:00", "2000-11-01 10:60", "2000-11-01 1", "2000-11-01+02:00", "10:20:30",
		"2000-11-01 13:00 PM", "2000-11-01 0:10 AM", "11/1/00", "Nov 2000", "Foo 1 2000", "1 Nov Nov 2000", "-5",
		"2000-11/01",
		"2000-11-01 10:20:30 EST", "2000-11-01 10:20 +99:00", strings.Repeat(" ", 80) + "2000-11-01", "31/31/2000",
		"2000-11-01 2001-11-01", "20001301", "20001101246060", "1e9", "nan", "２000-11-01",
	} {
		if isDate([]byte(text)) {
			t.Errorf("%q is read as a date", text)
		}
	}
}

// rated makes a file with one row for each time.
func rated(times ...string) string {
	var b strings.Builder
	b.WriteString("user;item;when\n")
	for i, at := range times {
		fmt.Fprintf(&b, "u;%c;%s\n", 'a'+i, at)
	}
	return b.String()
}

func TestTheOrderOfDayAndMonthIsDetected(t *testing.T) {
	const columns = "user=user,item=item,time=when"
	for _, c := range []struct {
		name, format, want, unit string
		times                    []string
	}{
		{
			"a day above 12, second", "", "u: b@947721600 a@975628800\n", "times: month/day/year",
			[]string{"12/1/2000", "1/13/2000"},
		},
		{
			"a day above 12, last row", "", "u: b@957398400 a@957484800 c@1009756800\n", "times: day/month/year",
			[]string{"5/5/2000", "4/5/2000", "31/12/2001"},
		},
		{
			"set", "day-first", "u: b@952041600 a@976233600\n", "times: day/month/year",
			[]string{"8/12/2000", "3/3/2000"},
		},
		{
			"set", "month-first", "u: b@952041600 a@976233600\n", "times: month/day/year",
			[]string{"12/8/2000", "3/3/2000"},
		},
		{"ambiguous", "", "", "", []string{"4/7/2000", "3/3/2000"}},
		{"compact with a time of day", "", "u: b@952093805 a@952093806\n", "times: YYYYMMDD, no zone: UTC", []string{
			"20000303143006", "20000303143005",
		}},
		{"compact", "", "u: b@952041600 a@955065600\n", "times: YYYYMMDD", []string{"20000407", "20000303"}},
		{"numbers", "number", "u: b@20000303 a@20000407\n", "", []string{"20000407", "20000303"}},
		{
			"zones", "", "u: b@951951600 a@952041600\n", "times: ISO 8601, UTC without a zone",
			[]string{"2000-03-03 00:00", "2000-03-02T00:00:00+01:00"},
		},
		{"fractions", "", "u: b@952041600 a@952041600\n", "times: ISO 8601, no zone: UTC", []string{
			"2000-03-03 00:00:00.25", "2000-03-03 00:00:00.125",
		}},
	} {
		s, err := Read(strings.NewReader(rated(c.times...)), "f", Options{Columns: columns, TimeFormat: c.format})
		if c.name == "ambiguous" {
			if err == nil || !strings.Contains(err.Error(), "--time-format day-first") {
				t.Errorf("%s: error is %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if dump(s) != c.want || !strings.Contains(s.Meta.Columns, c.unit+";") {
			t.Errorf("%s: got %s%s, want %s%s", c.name, dump(s), s.Meta.Columns, c.want, c.unit)
		}
		if s.Meta.TimeKind != RealTime {
			t.Errorf("%s: times are %s", c.name, s.Meta.TimeKind)
		}
	}
}

func TestDatesThatDoNotFitTheOthersNameTheirLine(t *testing.T) {
	for _, c := range []struct {
		want  string
		times []string
	}{
		{"f line 4: found \"12/31/2000\", expected a date such as 2000-11-30 or 30/11/2000, day first as in other " +
			"rows, in column 3 (time)", []string{"5/5/2000", "31/12/2000", "12/31/2000"}},
		{
			"f line 3: found \"soon\", expected a date such as 2000-11-30 or 2000-11-30T18:30:00Z in column 3 (time)",
			[]string{"2000-11-30", "soon"},
		},
		{"f line 3: found \"\", expected a date", []string{"2000-11-30", ""}},
		{"f line 3: found \"2000-11-30\", expected a number in column 3 (time)", []string{"881250949", "2000-11-30"}},
	} {
		_, err := Read(strings.NewReader(rated(c.times...)), "f", Options{Columns: "user,item,time"})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if _, err := Read(strings.NewReader(rated("1")), "f", Options{TimeFormat: "dayfirst"}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "day-first"?`) {
		t.Errorf("error is %v", err)
	}
}

// Dates are detected with known column names, in files without a header, and in gzip files.
func TestDatesNeedNoSettings(t *testing.T) {
	for name, text := range map[string]string{
		"known name": "userId,movieId,rating,timestamp\n1,10,3,2000-03-03 00:00:00\n1,11,4,2000-04-07 00:00:00\n",
		"no header":  "1,10,3,2000-03-03T00:00:00Z\n1,11,4,2000-04-07T00:00:00Z\n",
		"gzip":       zipped("1,10,3,2000-03-03T00:00:00Z\n1,11,4,2000-04-07T00:00:00Z\n"),
	} {
		s := mustLoad(t, text, Options{})
		if want := "1: 10=3@952041600 11=4@955065600\n"; dump(s) != want {
			t.Errorf("%s: got %s, want %s", name, dump(s), want)
		}
	}
	s := mustLoad(t, "1,10,2000-03-03\n1,11,2000-04-07\n", Options{})
	if want := "1: 10@952041600 11@955065600\n"; dump(s) != want {
		t.Errorf("got %s, want %s", dump(s), want)
	}
}
