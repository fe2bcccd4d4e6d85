package result

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// UserScores holds the test metrics of each evaluated user, for the method and the references. Significance tests
// use them.
type UserScores struct {
	Users []string
	// Of has, for each reference and for the method under "method", a column for each of the MetricNames, in the
	// order of Users; NaN if not measured.
	Of map[string]*[4][]float32
}

// methodKey is the method's key among the references.
const methodKey = "method"

var scoreKeys = [4]string{"sampled.hr@10", "sampled.ndcg@10", "full.hr@10", "full.ndcg@10"}

// WriteUserScores writes per_user_references.csv. A metric that was not measured is an empty cell.
func WriteUserScores(w io.Writer, b *UserScores) error {
	keys := map[string]bool{}
	for k := range b.Of {
		keys[k] = true
	}
	delete(keys, methodKey)
	header, columns := []string{"user"}, [][]float32(nil)
	for _, k := range append([]string{methodKey}, SortReferences(keys)...) {
		for m, name := range scoreKeys {
			if of := b.Of[k]; of != nil {
				header, columns = append(header, k+"."+name), append(columns, of[m])
			}
		}
	}
	c := csv.NewWriter(w)
	if err := c.Write(header); err != nil {
		return err
	}
	line := make([]string, len(header))
	for u, id := range b.Users {
		line[0] = id
		for i, of := range columns {
			if line[i+1] = ""; of[u] == of[u] {
				line[i+1] = strconv.FormatFloat(float64(of[u]), 'g', -1, 32)
			}
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// readUserScores reads per_user_references.csv.
func readUserScores(in io.Reader) (*UserScores, error) {
	c := csv.NewReader(in)
	c.ReuseRecord = true
	head, err := c.Read()
	if err != nil || head[0] != "user" || len(head) > 1+len(scoreKeys)*maxSettings {
		return nil, errors.New(":1: expected a header that starts with user")
	}
	head = slices.Clone(head)
	b := &UserScores{Of: map[string]*[4][]float32{}}
	columns := make([]*[]float32, len(head)-1)
	for i, name := range head[1:] {
		if columns[i] = b.column(name); columns[i] == nil {
			return nil, fmt.Errorf(":1: column %q is not a metric of a reference", format.Clip(name, 60))
		}
	}
	for {
		rec, err := c.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf(": %w", err)
		}
		b.Users = append(b.Users, strings.Clone(rec[0]))
		for i, s := range rec[1:] {
			x, err := fraction(s)
			if err != nil {
				line, _ := c.FieldPos(0)
				return nil, fmt.Errorf(":%d: %s %w", line, format.Clip(head[i+1], 60), err)
			}
			*columns[i] = append(*columns[i], x)
		}
	}
	return b, b.even()
}

// column returns the column with a name, or nil.
func (b *UserScores) column(name string) *[]float32 {
	for m, key := range scoreKeys {
		if of, ok := strings.CutSuffix(name, "."+key); ok && of != "" && len(of) <= maxName {
			if b.Of[of] == nil {
				b.Of[of] = new([4][]float32)
			}
			return &b.Of[of][m]
		}
	}
	return nil
}

// even reports a column that is missing or appears twice.
func (b *UserScores) even() error {
	for of, columns := range b.Of {
		for m, x := range columns {
			if len(x) != len(b.Users) {
				return fmt.Errorf(": %s.%s has %d values for %d users", format.Clip(of, 60), scoreKeys[m], len(x),
					len(b.Users))
			}
		}
	}
	return nil
}

func fraction(s string) (float32, error) {
	if s == "" {
		return float32(math.NaN()), nil
	}
	x, err := strconv.ParseFloat(s, 32)
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, errors.New("is " + strconv.Quote(format.Clip(s, 40)) +
			", expected a fraction from 0 to 1 or an empty cell")
	}
	return float32(x), nil
}
