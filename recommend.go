package tacit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/sim"
	"github.com/tacit-rec/tacit/vec"
)

// Item is one recommended item.
type Item struct {
	ID      string  `json:"id"`
	Title   string  `json:"title,omitempty"` // empty if the data has no titles
	Score   float32 `json:"score"`
	HeldOut string  `json:"held_out,omitempty"` // "validation" or "test" if it is a held-out item of the user
}

// Interaction is one entry of a history.
type Interaction struct {
	Item   string  // the identifier in the data
	Rating float32 // of data with ratings; 0 counts as their mean. Only the squared loss reads ratings.
}

// Recommend returns the n best items for a user of the data, best first, as the user's
// own device would after the last round. Items that the device trained on are left out.
// Held-out items may appear, and are marked: the model has not seen them.
func (r *Result) Recommend(user string, n int) ([]Item, error) { return r.recommend(user, n, false) }

// RecommendNext returns the n best items for a user of the data, after all of its
// interactions, held-out ones included. None of them is recommended.
func (r *Result) RecommendNext(user string, n int) ([]Item, error) { return r.recommend(user, n, true) }

func (r *Result) recommend(user string, n int, whole bool) ([]Item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil, errNotRun
	}
	u, err := r.userNumber(user)
	if err != nil {
		return nil, err
	}
	return r.best(u, n, whole)
}

// best recommends to a user by number.
func (r *Result) best(u, n int, whole bool) ([]Item, error) {
	if n < 1 {
		return nil, fmt.Errorf("n = %d: must be 1 or more", n)
	}
	scores := make([]float32, r.source.Items())
	history, err := r.run.ScoreUser(u, whole, scores)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", r.source.Info().UserName(u), err)
	}
	out := r.top(scores, history, n)
	if whole {
		return out, nil
	}
	valid, test := r.run.HeldOutItems(u)
	mark := map[string]string{}
	for _, i := range valid {
		mark[r.itemID(int(i))] = "validation"
	}
	for _, i := range test {
		mark[r.itemID(int(i))] = "test"
	}
	for k := range out {
		out[k].HeldOut = mark[out[k].ID]
	}
	return out, nil
}

// RecommendTo returns the n best items for a user who took no part in training and has
// the given history, oldest first. The history is used for scoring and then discarded.
// Items that the data does not have are ignored; at least one must be known.
func (r *Result) RecommendTo(history []Interaction, n int) ([]Item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return nil, errNotRun
	}
	if n < 1 {
		return nil, fmt.Errorf("n = %d: must be 1 or more", n)
	}
	var items []uint32
	var ratings []float32
	for _, x := range history {
		i, known := r.itemNumber(x.Item)
		if !known {
			continue
		}
		if x.Rating == 0 {
			x.Rating = r.meanRating()
		}
		items, ratings = append(items, uint32(i)), append(ratings, x.Rating)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("none of the %d items of the history is in %s, which has items such as %q",
			len(history), r.Data, r.itemID(0))
	}
	scores := make([]float32, r.source.Items())
	if err := r.run.ScoreHistory(items, ratings, scores); err != nil {
		return nil, fmt.Errorf("%s cannot recommend for this history: %w", r.Method, err)
	}
	return r.top(scores, items, n), nil
}

// meanRating returns the mean rating of the data; 1 if it has no ratings.
func (r *Result) meanRating() float32 {
	if r.mean == 0 {
		r.mean = meanRating(r.source)
	}
	return r.mean
}

func meanRating(src data.Source) float32 {
	var h data.History
	sum, n := 0.0, 0
	for u := range src.Users() {
		if src.History(u, &h); h.Values == nil {
			return 1
		}
		for _, x := range h.Values {
			sum += float64(x)
		}
		n += len(h.Values)
	}
	return float32(sum / float64(max(n, 1)))
}

// RecommendAll calls each with the n best items of every user, as Recommend returns them,
// until each returns an error. Users whom the method cannot serve are left out. each must
// not call methods of r.
func (r *Result) RecommendAll(n int, each func(user string, items []Item) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return errNotRun
	}
	for u := range r.source.Users() {
		items, err := r.best(u, n, false)
		if errors.Is(err, sim.ErrNewUsers) {
			continue
		}
		if err == nil {
			err = each(r.source.Info().UserName(u), items)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// top lists the n best items that are not in the history; of equal scores the first item counts.
func (r *Result) top(scores []float32, history []uint32, n int) []Item {
	for _, i := range history {
		scores[i] = float32(math.Inf(-1))
	}
	info := r.source.Info()
	var out []Item
	for _, i := range largest(scores, min(n, len(scores))) {
		item := Item{ID: r.itemID(int(i)), Score: scores[i]}
		if info.Title != nil {
			item.Title = info.Title[i]
		}
		out = append(out, item)
	}
	return out
}

// largest returns the indices of the n largest scores, largest first, without those of -Inf.
func largest(scores []float32, n int) []uint32 {
	const few = 1000 // TopK inserts into a sorted list
	if n <= few {
		order := make([]uint32, n)
		return order[:vec.TopK(scores, order)]
	}
	var order []uint32
	for i, x := range scores {
		if x >= -math.MaxFloat32 {
			order = append(order, uint32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(scores[b], scores[a]) })
	return order[:min(n, len(order))]
}

// errNotRun reports a Result that Run did not return.
var errNotRun = errors.New("the result is empty: it must come from Run or Open")

// userNumber finds a user by its identifier in the data.
func (r *Result) userNumber(id string) (int, error) {
	ids := r.source.Info().UserID
	if r.user == nil && ids != nil {
		r.user = indexOf(ids)
	}
	u, known := r.user[id]
	if ids == nil {
		u, known = numberOf(id, r.source.Users())
	}
	if !known {
		return 0, fmt.Errorf("unknown user %q: %s has %d users, such as %q; users with few interactions are dropped "+
			"(setting min-rows)", id, r.Data, r.source.Users(), r.source.Info().UserName(0))
	}
	return u, nil
}

// itemNumber finds an item by its identifier in the data.
func (r *Result) itemNumber(id string) (int, bool) {
	ids := r.source.Info().ItemID
	if ids == nil {
		return numberOf(id, r.source.Items())
	}
	if r.item == nil {
		r.item = indexOf(ids)
	}
	i, known := r.item[id]
	return i, known
}

func indexOf(ids []string) map[string]int {
	out := make(map[string]int, len(ids))
	for i, id := range ids {
		out[id] = i
	}
	return out
}

// numberOf parses the identifier of a user or an item that has only a number.
func numberOf(id string, count int) (int, bool) {
	n, err := strconv.Atoi(id)
	return n, err == nil && n >= 0 && n < count && strconv.Itoa(n) == id
}

// Title returns the title of an item, empty if the data has no titles, and whether the data has the item.
func (r *Result) Title(item string) (title string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		return "", false
	}
	i, known := r.itemNumber(item)
	if titles := r.source.Info().Title; known && titles != nil {
		title = titles[i]
	}
	return title, known
}

// itemID is the identifier of an item.
func (r *Result) itemID(i int) string {
	if ids := r.source.Info().ItemID; ids != nil {
		return ids[i]
	}
	return strconv.Itoa(i)
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
