// Package resulttest builds results that look like measured ones, for tests. It runs nothing.
package resulttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// Summary makes a summary of sampled and, unless NaN, full metrics.
func Summary(hr, ndcg, fullHR, fullNDCG float64) *metrics.Summary {
	s := &metrics.Summary{Sampled: map[string]float64{"hr@10": hr, "ndcg@10": ndcg, "mrr": ndcg * 0.8, "users": 943}}
	if !math.IsNaN(fullHR) {
		s.Full = map[string]float64{"hr@10": fullHR, "ndcg@10": fullNDCG}
	}
	return s
}

// Run is a run that looks like one of pfedrec on ml-100k, without having run.
func Run(method, protocol string, seed uint64, rounds, users int) *result.Run {
	rng := rand.New(rand.NewPCG(seed, 7))
	leaks := protocol == "paper"
	full, fullNDCG := math.NaN(), math.NaN()
	if protocol == "deployed" {
		full, fullNDCG = 0.0912, 0.0451
	}
	wobble := 0.004 * (rng.Float64() - 0.5)
	hr, ndcg := 0.7147+wobble, 0.4346+wobble/2
	if !leaks {
		hr, ndcg = 0.5630+wobble, 0.3261+wobble/2
	}
	if method == "fedrap" {
		hr, ndcg = hr+0.2, ndcg+0.22
	}
	preset := method + "/ml-100k"
	r := &result.Result{
		Method: method, Dataset: "ml-100k", DataHash: "sha256:06416e597f82b7342361e41163890c81", Protocol: protocol,
		Leaks: leaks,
		Seed:  seed, Rounds: rounds, SelectedRound: rounds * 53 / 100, DataSize: result.DataSize{
			Users: users,
			Items: 1682, Interactions: 100000,
		},
		Params: map[string]any{"dim": 32.0, "lr": 0.1, "item-lr": "auto", "infer": "tuned"},
		Options: map[string]any{
			"rounds": float64(rounds), "batch": 256.0, "negatives": 4.0, "cohort": "all",
			"server": "sgd:1",
		},
		Valid: *Summary(hr+0.01, ndcg+0.01, full, fullNDCG), Test: *Summary(hr, ndcg, full, fullNDCG),
		References: map[string]*result.Reference{
			"popularity": {
				Test:  Summary(0.4051+wobble, 0.2210+wobble, full*0.6, fullNDCG*0.6),
				About: "the number of train rows of an item",
			},
			"ease": {
				Test:  Summary(0.6723, 0.4118, full*1.6, fullNDCG*1.6),
				About: "closed form, with everyone's rows in one place",
			},
			"local": {
				Test:  Summary(0.5100+wobble, 0.2884+wobble, full*0.5, fullNDCG*0.5),
				About: "no coordinator",
			},
			"memoriser": {
				Test: Summary(0.9989, 0.9120, math.NaN(), math.NaN()),
				About: "counts how often an item was drawn as a " +
					"negative",
			},
		},
		LeakMeasured: &result.LeakMeasured{Memoriser: 0.9989, Popularity: 0.4051}, Preset: &preset,
		Published: &result.Published{HR10: 0.7162, NDCG10: 0.4344, Source: "Zhang et al., IJCAI 2023, Table 2"},
		Cost: result.Cost{
			Seconds: result.Seconds{Train: 0.41, Eval: 0.78, Total: 1.31}, RoundMSMedian: 4.04, DevicesPerS: 233_400,
			SamplesPerS: 122_000_000, PeakRSSBytes: 96_400_000, Bytes: result.Bytes{Up: 105_600, Down: 215_296},
		},
		Origin: result.Origin{Version: "v0.1.0", Commit: "0123456789abcdef"},
	}
	if !leaks {
		r.References["memoriser"].Test = Summary(0.1034, 0.0461, math.NaN(), math.NaN())
	}
	return &result.Run{Dir: "runs/" + method, Result: r, Points: madePoints(r, rng), Users: Users(users, hr, rng)}
}

func madePoints(r *result.Result, rng *rand.Rand) []result.Point {
	var out []result.Point
	for t := 1; t <= r.Rounds; t++ {
		x := 1 - math.Exp(-6*float64(t)/float64(r.Rounds))
		over := 0.03 * math.Max(0, float64(t-r.SelectedRound)/float64(r.Rounds))
		y := func(end, start float64) float64 {
			return start + (end-start)*x - over + 0.006*(rng.Float64()-0.5)
		}
		hr, ndcg := result.MetricOf(r.Test.Sampled, "hr@10"), result.MetricOf(r.Test.Sampled, "ndcg@10")
		loss := 0.28 + 0.42*(1-x)
		out = append(out, result.Point{
			Round: t, Valid: Summary(y(hr+0.012, 0.1), y(ndcg+0.012, 0.045), math.NaN(), math.NaN()),
			Test: Summary(y(hr, 0.1), y(ndcg, 0.045), math.NaN(), math.NaN()),
			Loss: &loss, TrainMS: 4, EvalMS: 8, BytesUp: 99_000_000,
		})
	}
	return out
}

func Users(n int, hr float64, rng *rand.Rand) []result.User {
	var out []result.User
	for i := range n {
		rows := 18 + int(rng.ExpFloat64()*80)
		u := result.User{ID: fmt.Sprint(i + 1), Rows: rows}
		u.TestRank = 1 + int(10*math.Pow(rng.Float64(), 1.4))
		if rng.Float64() > hr+0.1-float64(rows)/900 {
			u.TestRank = min(100, 11+int(rng.ExpFloat64()*18))
		}
		u.ValidRank = max(1, u.TestRank-1)
		out = append(out, u)
	}
	return out
}

func Rand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func Seeds(method, protocol string, n int) []*result.Run {
	var out []*result.Run
	for s := range n {
		out = append(out, Run(method, protocol, uint64(s+1), 100, 10))
	}
	return out
}

// Save writes a run folder as `tacit run -o` does.
func Save(t testing.TB, dir string, v any, points []result.Point, users []result.User) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var lines, table bytes.Buffer
	for _, p := range points {
		if err := json.NewEncoder(&lines).Encode(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := result.WriteUsers(&table, users); err != nil {
		t.Fatal(err)
	}
	WriteFile(t, dir, "result.json", b)
	WriteFile(t, dir, "metrics.jsonl", lines.Bytes())
	WriteFile(t, dir, "per_user.csv", table.Bytes())
}

func WriteFile(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
		t.Fatal(err)
	}
}
