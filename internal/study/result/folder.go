package result

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// Limits on the files of a run folder, which are untrusted input.
const (
	maxResult = 16 << 20
	maxFile   = 256 << 20
	maxLine   = 1 << 20
	maxRuns   = 1000
)

// Load reads the folder of a finished run (result.json, and metrics.jsonl, per_user.csv, per_user_references.csv and
// figures.json if they exist), of a search, or of a leaderboard. In a folder made with --seeds, the points and users
// of each run are in the subfolder seed-N; those of the folder itself belong to the first run.
func Load(dir string) (*Run, error) {
	f, err := open(dir, "result.json", maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		if s, err := loadSearch(dir); s != nil || err != nil {
			return &Run{Dir: dir, Search: s}, err
		}
		if b, err := loadLeaderboard(dir); b != nil || err != nil {
			return &Run{Dir: dir, Leaderboard: b}, err
		}
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("folder %s does not exist; create it with `tacit run -o %s`", dir, dir)
		}
		return nil, fmt.Errorf("%s has no finished run (no result.json); finish it with `tacit run --resume %s`", dir,
			dir)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results, err := readResults(f)
	if err != nil {
		return nil, fmt.Errorf("%s%w; write it again with `tacit run %s -o OTHER`", f.Name(), err,
			filepath.Join(dir, "config.toml"))
	}
	first, err := loadRun(dir, dir, results[0])
	if err != nil || len(results) == 1 {
		return first, err
	}
	for i, res := range results {
		sub := filepath.Join(dir, fmt.Sprintf("seed-%d", res.Seed))
		r, err := loadRun(dir, sub, res)
		if err != nil {
			return nil, err
		}
		if i == 0 && len(r.Points)+len(r.Users) == 0 {
			r.Points, r.Users, r.Figures = first.Points, first.Users, first.Figures
		}
		first.Seeds = append(first.Seeds, r)
	}
	first.Points, first.Users, first.Figures = first.Seeds[0].Points, first.Seeds[0].Users, first.Seeds[0].Figures
	return first, nil
}

// loadRun adds the points, users, user scores and figures in folder sub to a result.
func loadRun(dir, sub string, res *Result) (*Run, error) {
	r := &Run{Dir: dir, Result: res}
	err := read(sub, "metrics.jsonl", func(in io.Reader) (err error) {
		r.Points, err = readPoints(in)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = read(sub, "per_user.csv", func(in io.Reader) (err error) {
		r.Users, err = readUsers(in)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = read(sub, "per_user_references.csv", func(in io.Reader) (err error) {
		res.UserScores, err = readUserScores(in)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = read(sub, "figures.json", func(in io.Reader) (err error) {
		r.Figures, err = readFigures(in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// read decodes a file that may be missing.
func read(dir, name string, decode func(io.Reader) error) error {
	f, err := open(dir, name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := decode(f); err != nil {
		return fmt.Errorf("%s%w; remove the file to continue without it", f.Name(), err)
	}
	return nil
}

// open opens a regular file of at most limit bytes.
func open(dir, name string, limit int64) (*os.File, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; pass a folder written by `tacit run -o`", path)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %s, more than the limit of %s; pass a folder written by `tacit run -o`", path,
			format.Size(float64(info.Size())), format.Size(float64(limit)))
	}
	return os.Open(path)
}

// readResults reads one result or the results of several seeds, bare or in the envelope of `--format json`. It
// returns at least one result or an error. Errors of this and the following functions start with ":LINE: " or ": ",
// to be appended to the name of the file.
func readResults(in io.Reader) ([]*Result, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxResult))
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	var env struct {
		Status string
		Data   json.RawMessage
		Error  struct{ Message string }
		Runs   []json.RawMessage
	}
	if err := decode(b, b, 0, &env); err != nil {
		return nil, err
	}
	if env.Status == "error" {
		return nil, fmt.Errorf(": contains the error %q instead of a result", format.Clip(env.Error.Message, 200))
	}
	whole := b
	if len(env.Data) > 0 {
		b = env.Data
		if err := decode(whole, b, bytes.Index(whole, b), &env); err != nil {
			return nil, err
		}
	}
	each := env.Runs
	if each == nil {
		each = []json.RawMessage{b}
	}
	if len(each) == 0 || len(each) > maxRuns {
		return nil, fmt.Errorf(": has %d runs, expected 1 to %d", len(each), maxRuns)
	}
	var out []*Result
	at := 0
	for i, raw := range each {
		r := new(Result)
		at += max(0, bytes.Index(whole[at:], raw))
		if err := decode(whole, raw, at, r); err != nil {
			return nil, err
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf(":%d: run %d: %w", lineAt(whole, at), i+1, err)
		}
		at += len(raw)
		out = append(out, r)
	}
	return out, nil
}

// decode unmarshals part, which starts at byte start of whole; errors name the line in whole.
func decode(whole, part []byte, start int, v any) error {
	err := json.Unmarshal(part, v)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		start += int(syntax.Offset)
	case errors.As(err, &typed):
		start += int(typed.Offset)
		field := cmp.Or(typed.Field, "the document")
		err = fmt.Errorf("%s is a JSON %s, expected %s", field, typed.Value, kind(typed.Type.Kind().String()))
	}
	return fmt.Errorf(":%d: %w", lineAt(whole, start), err)
}

func kind(s string) string {
	switch {
	case strings.HasPrefix(s, "int"), strings.HasPrefix(s, "uint"):
		return "an integer"
	case strings.HasPrefix(s, "float"):
		return "a number"
	case s == "map", s == "struct", s == "ptr":
		return "an object"
	}
	return "a " + s
}

func lineAt(b []byte, offset int) int {
	return 1 + bytes.Count(b[:min(max(offset, 0), len(b))], []byte("\n"))
}

// readPoints reads metrics.jsonl.
func readPoints(in io.Reader) ([]Point, error) {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 64<<10), maxLine)
	var out []Point
	last, n := 0, 0
	for s.Scan() {
		n++
		line := bytes.TrimSpace(s.Bytes())
		if len(line) == 0 {
			continue
		}
		var p Point
		if err := decode(line, line, 0, &p); err != nil {
			return nil, fmt.Errorf(":%d%s", n, strings.TrimPrefix(err.Error(), ":1"))
		}
		if p.Round <= last {
			return nil, fmt.Errorf(":%d: round %d after round %d, expected increasing rounds from 1", n, p.Round, last)
		}
		if err := checkSummaries(p.Valid, p.Test); err != nil {
			return nil, fmt.Errorf(":%d: %w", n, err)
		}
		if len(p.Spectra) > 8 {
			return nil, fmt.Errorf(":%d: %d spectra, expected at most 8", n, len(p.Spectra))
		}
		for _, s := range p.Spectra {
			if err := s.check(); err != nil {
				return nil, fmt.Errorf(":%d: %w", n, err)
			}
		}
		last = p.Round
		out = append(out, p)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf(":%d: %w", n+1, err)
	}
	return out, nil
}

var userHeader = []string{"user", "rows", "valid_rank", "test_rank", "valid_full_rank", "test_full_rank"}

// readUsers reads per_user.csv.
func readUsers(in io.Reader) ([]User, error) {
	c := csv.NewReader(in)
	c.FieldsPerRecord = -1
	c.ReuseRecord = true
	expected := strings.Join(userHeader, ",")
	rec, err := c.Read()
	if err == io.EOF {
		return nil, fmt.Errorf(":1: empty file, expected the header %s", expected)
	}
	if got := strings.Join(rec, ","); err == nil && got != expected {
		return nil, fmt.Errorf(":1: header %q, expected %q", format.Clip(got, 200), expected)
	}
	out := []User{}
	for err == nil {
		if rec, err = c.Read(); err == io.EOF {
			return out, nil
		}
		if err == nil {
			line, _ := c.FieldPos(0)
			var u User
			if u, err = parseUser(rec); err != nil {
				return nil, fmt.Errorf(":%d: %w", line, err)
			}
			out = append(out, u)
		}
	}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return nil, fmt.Errorf(":%d: %w", parse.Line, parse.Err)
	}
	return nil, fmt.Errorf(": %w", err)
}

func parseUser(rec []string) (User, error) {
	if len(rec) != len(userHeader) {
		return User{}, fmt.Errorf("%d cells, expected %d", len(rec), len(userHeader))
	}
	u := User{ID: strings.Clone(rec[0])}
	for i, dst := range []*int{&u.Rows, &u.ValidRank, &u.TestRank, &u.ValidFull, &u.TestFull} {
		s := rec[i+1]
		if s == "" {
			continue
		}
		v, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return User{}, fmt.Errorf("%s is %q, expected a non-negative integer or an empty cell", userHeader[i+1],
				format.Clip(s, 40))
		}
		*dst = int(v)
	}
	return u, nil
}

// WriteUsers writes per_user.csv. A rank of 0 is an empty cell.
func WriteUsers(w io.Writer, users []User) error {
	c := csv.NewWriter(w)
	if err := c.Write(userHeader); err != nil {
		return err
	}
	rec := make([]string, len(userHeader))
	for _, u := range users {
		rec[0], rec[1] = u.ID, strconv.Itoa(u.Rows)
		for i, v := range [...]int{u.ValidRank, u.TestRank, u.ValidFull, u.TestFull} {
			rec[i+2] = ""
			if v != 0 {
				rec[i+2] = strconv.Itoa(v)
			}
		}
		if err := c.Write(rec); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
