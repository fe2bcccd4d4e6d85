package fleet_test

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/pb"
)

// A second run over the network with more items continues from the first one: devices recommend before and after,
// with both methods that learn features of items.
func TestRunsOfFeaturesWithNewItems(t *testing.T) {
	for _, name := range []string{"bank", "tacit"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := world(t)
			s := settings(split, name, "rank", "8", "width", "8", "softmax", "16", "train", "1")
			s.Rounds = 6
			if name == "tacit" {
				s.Params["dim"], s.Params["solves"] = "8", "1"
			}
			r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
			f, ctx := r.fleet(split)
			r.train(ctx, f, 1)
			old, before := r.newest(), r.features()
			var more []*pb.Item
			for i := range 5 {
				more = append(more, &pb.Item{Id: fmt.Sprint("new", i)})
			}
			if _, err := r.admin.BeginNext(ctx, nil, more, nil); err != nil {
				t.Fatal(err)
			}
			r.train(ctx, f, 2)
			var list *device.Recommendations
			for _, d := range f.Devices() { // train waits for the first device that has the newest version
				l, err := d.Recommend(split.Items() + len(more))
				if err != nil {
					t.Fatal(err)
				}
				if list == nil || l.ModelVersion > list.ModelVersion {
					list = l
				}
			}
			if now := r.newest(); list.ModelVersion <= old.Version || list.ModelVersion != now.Version {
				t.Errorf("devices recommend with version %d, want %d", list.ModelVersion, now.Version)
			}
			after, same, n := r.features(), 0.0, 0
			if len(after) != len(before)+len(more) {
				t.Fatalf("%d items have features, want %d and %d", len(after), len(before), len(more))
			}
			for id, x := range before {
				if length(x) > 0 {
					same, n = same+cosine(x, after[id]), n+1
				}
			}
			if n < split.Items()/2 || same < 0.9*float64(n) {
				t.Errorf("the mean cosine of the old and new features of %d items is %.2f: want 0.9 or more, as they "+
					"turn towards the old ones", n, same/float64(n))
			}
			for _, i := range more {
				if length(after[i.Id]) != 0 {
					t.Errorf("item %s, which no device has, has the features %v", i.Id, after[i.Id])
				}
			}
			if len(list.Items) <= split.Items()/2 {
				t.Errorf("the device recommends %d of %d items", len(list.Items), split.Items()+len(more))
			}
		})
	}
}

// features returns the features of the newest model by item.
func (r *federation) features() map[string][]float64 {
	r.t.Helper()
	var b bytes.Buffer
	if _, err := r.admin.Export(r.t.Context(), 0, "csv", &b); err != nil {
		r.t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		r.t.Fatal(err)
	}
	file, err := z.Open("features.csv")
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string][]float64{}
	for _, row := range rows[1:] {
		x := make([]float64, len(row)-1)
		for i, text := range row[1:] {
			if x[i], err = strconv.ParseFloat(text, 64); err != nil {
				r.t.Fatal(err)
			}
		}
		out[row[0]] = x
	}
	return out
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func length(x []float64) float64    { return math.Sqrt(dot(x, x)) }
func cosine(a, b []float64) float64 { return dot(a, b) / (length(a) * length(b)) }
