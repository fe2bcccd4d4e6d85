package tacit_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit"
	"github.com/tacit-rec/tacit/internal/study/experiment"
)

// folder runs an experiment as `tacit run -o` does, and returns its folder.
func folder(t *testing.T, words ...string) string {
	t.Helper()
	words = append([]string{"world=" + tiny, "preset=none"}, words...)
	spec, err := experiment.Resolve(experiment.Pairs("test", words...))
	if err != nil {
		t.Fatal(err)
	}
	src, err := experiment.OpenData(&spec.Settings, "")
	if err != nil {
		t.Fatal(err)
	}
	spec.FitTo(src)
	dir := filepath.Join(t.TempDir(), "run")
	job := &experiment.Job{Spec: spec, Source: src, Jobs: 2, Out: dir, NoReferences: true}
	if spec.Seeds > 1 {
		_, err = job.RunSeeds(context.Background())
	} else {
		_, err = job.Run(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

const tiny = "users=40,items=60,mean-rows=12"

// quickly are settings with which a method trains on the tiny world in a moment.
func quickly(method string) tacit.Settings {
	s := tacit.Settings{"preset": "none"}
	switch method {
	case "tacit", "bank", "sasrec", "gru4rec", "tacit-private", "oneshot", "norm-grad", "als", "ease-sketch":
	default:
		s["rounds"] = "2"
	}
	return s
}

// A run that is opened from its folder recommends what it recommended before, for every method. A method
// whose vectors are a product scores with them.
func TestEveryMethodRecommendsFromItsFolder(t *testing.T) {
	d, err := tacit.Load("world", tacit.Settings{"world": tiny})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tacit.Methods() {
		if slices.Contains([]string{"nn-self", "dp-privrec", "sasrec"}, name) {
			continue // slow, and like fofl-self, privrec and bank here
		}
		t.Run(name, func(t *testing.T) {
			settings := quickly(name)
			var words []string
			for key, value := range settings {
				words = append(words, key+"="+value)
			}
			r, err := tacit.Open(folder(t, append(words, "method="+name)...), "")
			if err != nil {
				t.Fatal(err)
			}
			want := r
			if slices.Contains([]string{"tacit", "pfedrec", "fedrap", "metamf", "ials", "mf"}, name) {
				want = run(t, d, tacit.Config{Method: name, Settings: settings})
			}
			if fmt.Sprint(r.Sampled, r.Full) != fmt.Sprint(want.Sampled, want.Full) {
				t.Errorf("metrics %v, expected %v", r.Sampled, want.Sampled)
			}
			a, err := r.Recommend("3", 60)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := want.Recommend("3", 60); err != nil || !slices.Equal(a, b) {
				t.Errorf("the folder recommends\n%v, the run\n%v, %v", a, b, err)
			}
			held := 0
			for _, item := range a {
				if item.HeldOut != "" {
					held++
				}
			}
			if next, err := r.RecommendNext("3", 60); err != nil || held == 0 || len(next) != len(a)-held {
				t.Errorf("%d items after the whole history, %d after the training rows of which %d are held out: %v",
					len(next), len(a), held, err)
			}
			new, err := r.RecommendTo([]tacit.Interaction{{Item: "4"}, {Item: "7"}, {Item: "unknown"}}, 5)
			perUser := slices.Contains([]string{"mf", "ncf", "metamf"}, name)
			if perUser != (err != nil) || !perUser && len(new) != 5 {
				t.Errorf("a new history: %v, %v", new, err)
			}
			checkProduct(t, r, a)
		})
	}
}

// checkProduct checks that user vectors times item vectors are the scores of user 3.
func checkProduct(t *testing.T, r *tacit.Result, list []tacit.Item) {
	t.Helper()
	users, err := r.UserVectors()
	if err != nil {
		t.Log(err)
		return
	}
	items, err := r.ItemVectors()
	if err != nil || !items.Product || users.Dim != items.Dim {
		t.Fatalf("item vectors: %v", err)
	}
	if r.Method == "pfedrec" || r.Method == "fedpergnn" { // devices tune their tables
		return
	}
	u := slices.Index(users.ID, "3")
	for _, item := range list {
		sum := 0.0
		for k, x := range items.Row(slices.Index(items.ID, item.ID)) {
			sum += float64(x) * float64(users.Row(u)[k])
		}
		if users.Bias != nil {
			sum += float64(users.Bias[u])
		}
		if diff := math.Abs(sum - float64(item.Score)); diff > 1e-4*(1+math.Abs(sum)) {
			t.Fatalf("item %s scores %g, the vectors' product is %g", item.ID, item.Score, sum)
		}
	}
}

// A user who is described by the rows that the device read gets the same list as the user itself, with a
// method that computes the user's vector from the history.
func TestANewUserWithTheSameHistoryGetsTheSameList(t *testing.T) {
	text := "user,item,time\n"
	for u := range 20 {
		for k := range 6 {
			text += fmt.Sprintf("u%d,i%d,%d\n", u, (u*k+k*k)%25, k)
		}
	}
	d, err := tacit.Read(strings.NewReader(text), "clicks", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, d, tacit.Config{Method: "ials", Settings: tacit.Settings{"rounds": "3"}})
	var all []tacit.Interaction
	for k := range 6 { // the whole history of user 7
		all = append(all, tacit.Interaction{Item: fmt.Sprintf("i%d", (7*k+k*k)%25)})
	}
	want, err := r.RecommendNext("u7", 10)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.RecommendTo(all, 10)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the history gets\n%v, the user\n%v, %v", got, want, err)
	}
	if _, err := r.RecommendTo([]tacit.Interaction{{Item: "i99"}}, 3); err == nil ||
		!strings.Contains(err.Error(), "none of the 1 items") {
		t.Errorf("an unknown history: %v", err)
	}
	n := 0
	if err := r.RecommendAll(3, func(_ string, items []tacit.Item) error {
		n += len(items)
		return nil
	}); err != nil || n != 3*20 {
		t.Errorf("%d items in all lists, %v", n, err)
	}
}

func TestOpenNamesWhatIsMissing(t *testing.T) {
	dir := folder(t, "method=fedmf", "rounds=1", "seeds=2", "seed=5")
	r, err := tacit.Open(dir, "")
	if err != nil || r.Seed != 5 {
		t.Fatalf("seed %d of two seeds, %v", r.Seed, err)
	}
	state := filepath.Join(dir, "seed-5", "checkpoint", "state")
	b, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(state, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tacit.Open(dir, ""); err == nil || !strings.Contains(err.Error(), "checkpoint") {
		t.Errorf("a corrupt model: %v", err)
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if _, err := tacit.Open(dir, ""); err == nil || !strings.Contains(err.Error(), "--keep-model always") {
		t.Errorf("no model: %v", err)
	}
	if _, err := tacit.Open(t.TempDir(), ""); err == nil {
		t.Error("an empty folder was opened")
	}
}

func TestVectorsAreWrittenForNumPy(t *testing.T) {
	v := &tacit.Vectors{ID: []string{"a", "b"}, Dim: 2, Values: []float32{1, 2, 3, 4}, Bias: []float32{5, 6}}
	var out strings.Builder
	if err := v.WriteNPY(&out); err != nil {
		t.Fatal(err)
	}
	b := []byte(out.String())
	n := int(binary.LittleEndian.Uint16(b[8:]))
	if string(b[:8]) != "\x93NUMPY\x01\x00" || (10+n)%64 != 0 || b[9+n] != '\n' ||
		!strings.Contains(string(b[10:10+n]), "'shape': (2, 3)") {
		t.Fatalf("header %q", b[:min(len(b), 10+n)])
	}
	var got []float32
	for at := 10 + n; at < len(b); at += 4 {
		got = append(got, math.Float32frombits(binary.LittleEndian.Uint32(b[at:])))
	}
	if !slices.Equal(got, []float32{1, 2, 5, 3, 4, 6}) {
		t.Errorf("numbers %v", got)
	}
}

// Each item that is held out of training is marked, not only those that are ranked.
func TestAllHeldOutItemsAreMarked(t *testing.T) {
	text := "user,item,time\n"
	for u := range 4 {
		for k := range 10 { // validation is rows 5 and 6, test is 7 to 9
			text += fmt.Sprintf("u%d,i%d,2001-01-%02d\n", u, (3*u+k)%20, k+1)
		}
	}
	path := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := tacit.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, d, tacit.Config{Method: "ials", Protocol: "temporal", Settings: tacit.Settings{
		"preset": "none", "rounds": "1", "time-cut": "2001-01-06,2001-01-08",
	}})
	items, err := r.Recommend("u1", 100)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, i := range items {
		if i.HeldOut != "" {
			got[i.ID] = i.HeldOut
		}
	}
	want := map[string]string{"i8": "validation", "i9": "validation", "i10": "test", "i11": "test", "i12": "test"}
	if !maps.Equal(got, want) {
		t.Errorf("held-out items are %v, want %v", got, want)
	}
}

// A list of items lacks the features of interactions that a method reads.
func TestAHistoryWithoutFeaturesIsRefused(t *testing.T) {
	text := "user,item,time,city,genres\n"
	for u := range 20 {
		for k := range 5 {
			i := (3*u + 2*k) % 30
			text += fmt.Sprintf("u%d,i%d,%d,c%d,g%d|h%d\n", u, i, k, (u+k)%3, i%5, i%3)
		}
	}
	d, err := tacit.Read(strings.NewReader(text), "visits", tacit.Settings{
		"columns": "user=user,item=item,time=time,context=city,genres=genres",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, d, tacit.Config{Method: "privrec", Settings: tacit.Settings{"rounds": "1"}})
	if _, err := r.RecommendTo([]tacit.Interaction{{Item: "i2"}}, 3); err == nil ||
		!strings.Contains(err.Error(), "features of users and interactions (city)") {
		t.Errorf("a list of items was scored: %v", err)
	}
	if list, err := r.Recommend("u3", 3); err != nil || len(list) != 3 {
		t.Errorf("a user of the data: %v, %v", list, err)
	}
}

// A history without ratings counts as one with the mean rating of the data, not as one of the worst ratings.
func TestAHistoryWithoutRatingsHasTheirMean(t *testing.T) {
	var text strings.Builder
	sum, n := 0, 0
	for u := range 30 {
		for k := range 8 {
			rating := 1 + (u*k+k)%5
			fmt.Fprintf(&text, "u%d,i%d,%d,%d\n", u, (u+k*k)%25, rating, 1000000000+k)
			sum, n = sum+rating, n+1
		}
	}
	d, err := tacit.Read(strings.NewReader(text.String()), "rated", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, d, tacit.Config{Method: "fedrecon", Settings: tacit.Settings{
		"preset": "none", "rounds": "3", "loss": "squared", "dim": "4", "recon-lr": "0.01",
		"eta": "10",
	}})
	lists := map[float32]string{}
	mean := float32(float64(sum) / float64(n))
	for _, rating := range []float32{0, mean, 1} {
		items, err := r.RecommendTo([]tacit.Interaction{{Item: "i1", Rating: rating}, {Item: "i4", Rating: rating}}, 5)
		if err != nil {
			t.Fatal(err)
		}
		lists[rating] = fmt.Sprint(items)
	}
	if lists[0] != lists[mean] || lists[0] == lists[1] {
		t.Errorf("without ratings %s\nwith their mean, %g: %s\nwith the worst: %s", lists[0], mean, lists[mean],
			lists[1])
	}
}
