package parquet

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	writer "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

// event is a row of the files that the tests write with another program's writer.
type event struct {
	User   string    `parquet:"user,dict"`
	Item   int64     `parquet:"item"`
	Stars  float64   `parquet:"stars,optional"`
	When   time.Time `parquet:"when,timestamp(microsecond)"`
	Day    int32     `parquet:"day,date"`
	Title  *string   `parquet:"title,optional,dict"`
	Genres []string  `parquet:"genres,list"`
	Liked  bool      `parquet:"liked"`
	Count  uint32    `parquet:"count,optional"`
	Where  struct {
		City string `parquet:"city"`
		Zip  int32  `parquet:"zip"`
	} `parquet:"where"`
	Small float32 `parquet:"small"`
}

func events(n int) []event {
	var out []event
	for i := range n {
		e := event{
			User: fmt.Sprintf("u%d", i%7), Item: int64(i * i), Stars: float64(i%9) / 2, Day: int32(i),
			When:  time.Date(2000, 1, 1+i, 10, 20, 30, i*1000, time.UTC),
			Liked: i%3 == 0, Count: uint32(i % 5), Small: float32(i) / 4,
		}
		if i%4 != 0 {
			title := fmt.Sprintf("title %d", i%11)
			e.Title = &title
		}
		for k := range i % 4 {
			e.Genres = append(e.Genres, fmt.Sprintf("g%d", (i+k)%5))
		}
		out = append(out, e)
	}
	return out
}

func write(t testing.TB, rows []event, groups int, options ...writer.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := writer.NewGenericWriter[event](&b, options...)
	for g := range groups {
		if _, err := w.Write(rows[g*len(rows)/groups : (g+1)*len(rows)/groups]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read returns all rows of a file, with commas between the fields.
func read(b []byte) (names, rows []string, err error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	for {
		fields, err := f.Next()
		if err == io.EOF {
			return f.Columns(), rows, nil
		}
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, string(bytes.Join(fields, []byte(","))))
	}
}

func wanted(rows []event) []string {
	var out []string
	for _, e := range rows {
		stars, title, count := "", "", ""
		if e.Stars != 0 {
			stars = fmt.Sprint(e.Stars)
		}
		if e.Title != nil {
			title = *e.Title
		}
		if e.Count != 0 {
			count = fmt.Sprint(e.Count)
		}
		out = append(out, strings.Join([]string{
			e.User, fmt.Sprint(e.Item), stars, e.When.Format("2006-01-02T15:04:05.999999Z"),
			time.Unix(int64(e.Day)*86400, 0).UTC().Format(time.DateOnly), title, strings.Join(e.Genres, "|"),
			fmt.Sprint(e.Liked), count, fmt.Sprint(e.Small),
		}, ","))
	}
	return out
}

// What another implementation writes is read back, with every supported compression, page version and page size.
func TestFilesOfAnotherWriterAreReadBack(t *testing.T) {
	rows := events(500)
	want := strings.Join(wanted(rows), "\n")
	for name, codec := range map[string]compress.Codec{
		"none": &writer.Uncompressed, "snappy": &writer.Snappy, "gzip": &writer.Gzip, "zstd": &writer.Zstd,
		"lz4": &writer.Lz4Raw,
	} {
		for version := 1; version <= 2; version++ {
			for _, pages := range []int{200, 1 << 20} {
				b := write(t, rows, 3, writer.Compression(codec), writer.DataPageVersion(version),
					writer.PageBufferSize(pages))
				names, got, err := read(b)
				if err != nil {
					t.Errorf("%s, version %d, pages of %d: %v", name, version, pages, err)
					continue
				}
				if n := strings.Join(names, " "); n != "user item stars when day title genres liked count small" {
					t.Errorf("columns are %s", n)
				}
				if text := strings.Join(got, "\n"); text != want {
					t.Errorf("%s, version %d, pages of %d: got\n%.300s\nwant\n%.300s", name, version, pages, text, want)
				}
			}
		}
	}
}

func TestUnsupportedFilesSaySo(t *testing.T) {
	rows := events(50)
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{write(t, rows, 1, writer.Compression(&writer.Brotli)), "unsupported compression BROTLI; write it again"},
		{[]byte("PAR1"), "truncated Parquet file"},
		{append(write(t, rows, 1), 0), "does not end with PAR1"},
		{[]byte("PAR1....\xff\xff\xff\x7fPAR1"), "bytes of metadata, must be at most 4"},
		{[]byte("PAR1....PARE"), "encrypted"},
	} {
		if _, _, err := read(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %s", err, c.want)
		}
	}
}

// Texts that share prefixes, and numbers whose bytes are split, are read back.
func TestPrefixesAndSplitBytesAreReadBack(t *testing.T) {
	type row struct {
		Text  string   `parquet:"text,delta"`
		Maybe string   `parquet:"maybe,optional,delta"` // missing if it is empty
		ID    [16]byte `parquet:"id,uuid"`
		Small float32  `parquet:"small,split"`
		Large float64  `parquet:"large,split"`
	}
	var rows []row
	var want []string
	for i := range 300 {
		x := row{
			Text: fmt.Sprintf("https://example.org/%0*d", i%9, i), Small: float32(i) / 8, Large: float64(i) / 3,
			ID: [16]byte{byte(i), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255},
		}
		if i%3 > 0 {
			x.Maybe = strings.Repeat("x", i%11)
		}
		rows = append(rows, x)
		want = append(want, fmt.Sprintf("%s,%s,%02x010203-0405-0607-0809-0a0b0c0d0eff,%v,%v", x.Text, x.Maybe, i%256,
			x.Small, x.Large))
	}
	for version := 1; version <= 2; version++ {
		var b bytes.Buffer
		w := writer.NewGenericWriter[row](&b, writer.DataPageVersion(version), writer.PageBufferSize(1000))
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, got, err := read(b.Bytes()); err != nil || !slices.Equal(got, want) {
			t.Errorf("version %d: got %.300q, %v, want %.300q", version, got, err, want)
		}
	}
}

// Malformed LZ4 blocks are refused: no panic, and never more bytes than the page claims.
func TestMalformedLZ4IsRefused(t *testing.T) {
	long := append([]byte{0x1f, 'a', 1, 0}, append(bytes.Repeat([]byte{255}, 100), 0, 0)...)
	for name, c := range map[string]struct {
		b     string
		whole int
		want  string // empty if it is malformed
	}{
		"literals":            {"\x30abc", 3, "abc"},
		"a copy":              {"\x32abc\x03\x00\x00", 9, "abcabcabc"},
		"an overlapping copy": {"\x11a\x01\x00\x00", 6, "aaaaaa"},
		"a long copy":         {string(long), 1 + 4 + 15 + 25500, strings.Repeat("a", 1+4+15+25500)},
		"too few":             {"\x30abc", 4, ""},
		"too many":            {"\x30abc", 2, ""},
		"a copy too many":     {string(long), 25519, ""},
		"no literals":         {"\x30ab", 3, ""},
		"no offset":           {"\x30abc\x01", 7, ""},
		"offset 0":            {"\x10a\x00\x00", 5, ""},
		"offset too far":      {"\x10a\x02\x00", 5, ""},
		"an endless length":   {"\xf0\xff\xff", 600, ""},
	} {
		got, err := lz4([]byte(c.b), c.whole)
		if (err == nil) != (c.want != "") || string(got) != c.want {
			t.Errorf("%s: got %.40q, error is %v", name, got, err)
		}
	}
}

// trailingZeros of a fraction are not written by this package.
var trailingZeros = regexp.MustCompile(`\.?0+(Z?)$`)

// Files that DuckDB and polars wrote hold what DuckDB wrote as CSV.
func TestFilesOfDuckDBAndPolarsAreReadBack(t *testing.T) {
	in, err := os.Open("testdata/rows.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for file, columns := range map[string]int{"duckdb": 13, "polars": 6} {
		b, err := os.ReadFile("testdata/" + file + ".parquet")
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Columns()) != columns {
			t.Errorf("%s: %d columns, want %d", file, len(f.Columns()), columns)
		}
		for n, row := range rows[1:] {
			got, err := f.Next()
			if err != nil {
				t.Fatalf("%s: row %d: %v", file, n, err)
			}
			for i, name := range f.Columns() {
				want := row[slices.Index(rows[0], name)]
				if strings.ContainsAny(want, ".") && !strings.Contains(want, "http") {
					want = trailingZeros.ReplaceAllString(want, "$1")
				}
				if string(got[i]) != want {
					t.Errorf("%s: row %d has %s %q, want %q", file, n, name, got[i], want)
				}
			}
		}
		if _, err := f.Next(); err != io.EOF {
			t.Errorf("%s: error after the last row is %v", file, err)
		}
	}
}

// Integers in delta encoding are read back, over several blocks and with extreme differences.
func TestDeltasAreReadBack(t *testing.T) {
	type numbers struct {
		A int64 `parquet:"a,delta"`
		B int32 `parquet:"b,delta"`
	}
	for _, n := range []int{1, 2, 32, 33, 128, 129, 130, 1000} {
		var rows []numbers
		var want []string
		for i := range n {
			x := numbers{A: int64(i*i) * 1e12 * int64(1-2*(i%2)), B: int32(i * 7 % 13)}
			if i == 5 {
				x.A, x.B = math.MinInt64, math.MinInt32
			} else if i == 6 {
				x.A, x.B = math.MaxInt64, math.MaxInt32
			}
			rows, want = append(rows, x), append(want, fmt.Sprintf("%d,%d", x.A, x.B))
		}
		var b bytes.Buffer
		w := writer.NewGenericWriter[numbers](&b)
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, got, err := read(b.Bytes()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d rows: got %.200q, %v, want %.200q", n, got, err, want)
		}
	}
}

// A file with any byte changed or cut off is read or refused: no panic, and memory stays near the size of the file.
func TestCorruptFilesAreRefused(t *testing.T) {
	b := write(t, events(40), 2, writer.Compression(&writer.Snappy))
	refused := 0
	check := func(b []byte) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := read(b); err != nil {
			refused++
			if strings.ContainsRune(err.Error(), '\n') {
				t.Fatalf("the error has more than a line: %q", err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 2*maxPage {
			t.Fatalf("%d bytes were allocated for a file of %d", n, len(b))
		}
	}
	for i := 0; i < len(b); i += 9 {
		bad := bytes.Clone(b)
		bad[i] ^= byte(1 + i%255)
		check(bad)
		check(append(bytes.Clone(b[:i]), b[len(b)-8:]...))
	}
	if refused < len(b)/18 {
		t.Errorf("%d of %d corrupt files were refused", refused, 2*len(b)/9)
	}
}

// The rows that a file claims to have are limited by its size.
func TestRowsAreLimitedByTheSize(t *testing.T) {
	f := &File{columns: []*column{{}}}
	group := record{3: int64(1 << 30), 1: []any{record{}}}
	if err := f.groups(nil, 1000, []any{group}, 1); err == nil ||
		!strings.Contains(err.Error(), "must be at most 64000") {
		t.Errorf("error is %v", err)
	}
}

// What all columns hold together is limited, because each has pages of its own.
func TestMemoryOfAllColumnsIsLimited(t *testing.T) {
	b := write(t, events(2000), 2, writer.Compression(&writer.Snappy))
	all := func(most int64) (held int64, err error) {
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		f.memory.most = most
		for err == nil {
			_, err = f.Next()
			held = max(held, f.memory.held)
		}
		return held, err
	}
	held, err := all(maxHeld)
	if err != io.EOF || held <= 0 {
		t.Fatalf("%d bytes were held, error is %v", held, err)
	}
	if got, err := all(held); err != io.EOF || got != held {
		t.Errorf("with a limit of %d bytes, %d were held, error is %v", held, got, err)
	}
	if _, err := all(held - 1); err == nil || !strings.Contains(err.Error(), "bytes at a time") {
		t.Errorf("error is %v", err)
	}
}

// A record of three bytes takes some hundred bytes of memory: a footer within its limit must not take gigabytes.
func TestRecordsOfTheMetadataAreLimited(t *testing.T) {
	for name, c := range map[string]struct {
		kind byte
		part []byte
		n    int
		ok   bool
	}{
		"few records":  {12, []byte{0x15, 2, 0}, 1000, true},
		"many records": {12, []byte{0x15, 2, 0}, 3 << 19, false},
		"many numbers": {5, []byte{2}, maxFooter - 100, false},
	} {
		footer := append([]byte{0x29, 15<<4 | c.kind}, binary.AppendUvarint(nil, uint64(c.n))...)
		footer = append(append(footer, bytes.Repeat(c.part, c.n)...), 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := (&thrift{b: footer}).record(0)
		runtime.ReadMemStats(&after)
		if c.ok != (err == nil) || c.ok != (len(got.list(2)) == c.n) || !c.ok && !errors.Is(err, errTooMany) {
			t.Errorf("%s: error is %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 600<<20 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

// A table without the columns that are not used has the rows of the whole table, and holds less.
func TestColumnsThatAreNotUsedAreSkipped(t *testing.T) {
	rows := events(500)
	b := write(t, rows, 3, writer.Compression(&writer.Snappy), writer.PageBufferSize(200))
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	f.Select(nil)
	for i, e := range rows {
		if i == 40 {
			used := make([]bool, len(f.Columns()))
			used[1], used[6] = true, true
			before := f.memory.held
			f.Select(used)
			if f.memory.held >= before {
				t.Errorf("%d bytes are held, before %d", f.memory.held, before)
			}
		}
		got, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		if string(got[1]) != fmt.Sprint(e.Item) || string(got[6]) != strings.Join(e.Genres, "|") {
			t.Fatalf("row %d is %q", i, got)
		}
		if string(got[0]) != e.User && i < 40 || got[0] != nil && i >= 40 {
			t.Fatalf("row %d: the user is %q", i, got[0])
		}
	}
	if _, err := f.Next(); err != io.EOF {
		t.Errorf("error is %v, want EOF", err)
	}
}

// An unsupported column is an error only if it is used.
func TestUnsupportedColumnsMayBeUnused(t *testing.T) {
	b := write(t, events(3), 1, writer.Compression(&writer.Brotli))
	for _, used := range []bool{false, true} {
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		f.Select(nil)
		if _, err := f.Next(); err != nil {
			t.Fatal(err)
		}
		columns := make([]bool, len(f.Columns()))
		columns[0] = used
		f.Select(columns)
		if _, err := f.Next(); used != (err != nil) {
			t.Errorf("used %v: error is %v", used, err)
		}
	}
}

func TestRunsAreReadInBothForms(t *testing.T) {
	r := runs{b: []byte{5 << 1, 3, 1<<1 | 1, 0b10001000, 0b11000110, 0b11111010}, width: 3}
	var got []uint32
	for {
		v, ok := r.next()
		if !ok {
			break
		}
		got = append(got, v)
	}
	if want := "[3 3 3 3 3 0 1 2 3 4 5 6 7]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(write(f, events(5), 1, writer.Compression(&writer.Snappy)))
	f.Add(write(f, events(9), 2, writer.Compression(&writer.Uncompressed), writer.DataPageVersion(1)))
	f.Add(write(f, events(3), 1, writer.Compression(&writer.Zstd)))
	f.Add(write(f, events(3), 1, writer.Compression(&writer.Lz4Raw)))
	for _, name := range []string{"duckdb", "polars"} {
		b, err := os.ReadFile("testdata/" + name + ".parquet")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, rows, err := read(b)
		if errors.Is(err, io.ErrUnexpectedEOF) && len(rows) > rowsByte*len(b) {
			t.Fatalf("%d rows in %d bytes", len(rows), len(b))
		}
		if err != nil && strings.ContainsRune(err.Error(), '\n') {
			t.Fatalf("the error has more than a line: %q", err)
		}
	})
}
