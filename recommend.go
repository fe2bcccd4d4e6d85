package tacit

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// Item is one recommended item.
type Item struct {
	ID    string
	Title string // empty if the data has no titles
	Score float32
}

// Recommend returns the n best items for a user of the data, best first, as the user's
// own device would after the last round. Items that the device trained on are left out.
// Held-out items may appear: the model has not seen them.
func (r *Result) Recommend(user string, n int) ([]Item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil, errNotRun
	}
	u, err := r.userNumber(user)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("n = %d: must be 1 or more", n)
	}
	device := r.run.Inspect(u, -1)
	scores := device.Own
	if scores == nil {
		scores = device.Global
	}
	seen := make([]bool, len(scores))
	for _, i := range device.Train {
		seen[i] = true
	}
	var order []int
	for i := range scores {
		if !seen[i] {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	info := r.source.Info()
	var out []Item
	for _, i := range order[:min(n, len(order))] {
		item := Item{ID: r.itemID(i), Score: scores[i]}
		if info.Title != nil {
			item.Title = info.Title[i]
		}
		out = append(out, item)
	}
	return out, nil
}

// errNotRun reports a Result that Run did not return.
var errNotRun = errors.New("the result is empty: it must come from Run")

// userNumber finds a user by its identifier in the data.
func (r *Result) userNumber(id string) (int, error) {
	if r.user == nil {
		r.user = map[string]int{}
		for u := range r.source.Users() {
			r.user[r.source.Info().UserName(u)] = u
		}
	}
	u, known := r.user[id]
	if !known {
		return 0, fmt.Errorf("unknown user %q: %s has %d users, such as %q; users with few interactions are dropped "+
			"(setting min-rows)", id, r.Data, r.source.Users(), r.source.Info().UserName(0))
	}
	return u, nil
}

func (r *Result) itemID(i int) string {
	if ids := r.source.Info().ItemID; ids != nil {
		return ids[i]
	}
	return strconv.Itoa(i)
}

// Vectors is a table with one row per item.
type Vectors struct {
	ID     []string
	Dim    int
	Values []float32 // row by row, Dim numbers each
}

// Row returns the vector of the i-th item.
func (v *Vectors) Row(i int) []float32 { return v.Values[i*v.Dim : (i+1)*v.Dim] }

// WriteCSV writes a header and one line per item: its identifier and its numbers.
func (v *Vectors) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	line := []string{"item"}
	for k := range v.Dim {
		line = append(line, "x"+strconv.Itoa(k))
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for i, id := range v.ID {
		line = append(line[:0], id)
		for _, x := range v.Row(i) {
			line = append(line, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// ItemVectors returns the item embeddings that the coordinator holds after the last
// round. Methods without item embeddings have none: then it returns an error.
func (r *Result) ItemVectors() (*Vectors, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil, errNotRun
	}
	slot, dim, ok := r.run.ItemTable()
	if !ok {
		return nil, fmt.Errorf("%s has no shared item embeddings", r.Method)
	}
	table := r.run.Value(slot)
	items := r.source.Items()
	stride := len(table) / items // rows are padded
	v := &Vectors{Dim: dim, Values: make([]float32, 0, items*dim)}
	for i := range items {
		v.ID = append(v.ID, r.itemID(i))
		v.Values = append(v.Values, table[i*stride:i*stride+dim]...)
	}
	return v, nil
}

// Comparison is a paired test of two results on the same users.
type Comparison struct {
	Users      int
	Difference float64 // mean NDCG@10 of b minus that of a
	P          float64 // two-sided Wilcoxon signed-rank test over users
}

// Compare tests whether b ranks the held-out items of the same users better than a. Both
// must be results on the same data, protocol and seed.
func Compare(a, b *Result) (Comparison, error) {
	if a == nil || b == nil || a.run == nil || b.run == nil {
		return Comparison{}, errors.New("cannot compare: both results must come from Run")
	}
	if a.source.Info().Hash != b.source.Info().Hash || a.Protocol != b.Protocol || a.Seed != b.Seed {
		return Comparison{}, errors.New("cannot compare: both results must have the same data, protocol and seed")
	}
	x, _ := a.run.Best.PerUser(a.run.TieRule())
	y, _ := b.run.Best.PerUser(b.run.TieRule())
	if !slices.Equal(x.Users, y.Users) || len(x.Users) == 0 {
		return Comparison{}, errors.New("cannot compare: the results evaluated different users, or none")
	}
	c := Comparison{Users: len(x.Users)}
	var d []float64
	for u := range x.Users {
		d = append(d, float64(y.NDCG[u])-float64(x.NDCG[u]))
		c.Difference += d[u]
	}
	c.Difference /= float64(c.Users)
	c.P = metrics.Wilcoxon(d)
	return c, nil
}
