package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// arbitrary scores items by user and item alone, with ties.
type arbitrary struct{ user int }

func (h *arbitrary) For(u int, _ *data.Part) { h.user = u }

func (h *arbitrary) at(i uint32) float32 { return float32((h.user*31 + int(i)*17) % 23) }

func (h *arbitrary) Score(items []uint32, dst []float32) {
	for x, i := range items {
		dst[x] = h.at(i)
	}
}

func (h *arbitrary) ScoreAll(dst []float32) {
	for i := range dst {
		dst[i] = h.at(uint32(i))
	}
}

// All test rows of a user are ranked in one list, without train and validation items, as a plain loop ranks them.
func TestAllTestRowsAreRankedTogether(t *testing.T) {
	const users, items = 40, 130
	var train, valid, test strings.Builder
	for u := range users {
		for k := range 12 {
			file, n := &train, u%5 // users with 1 to 5 test rows, some of them train items too
			if k >= 6 {
				file = &valid
			}
			if k >= 7 {
				file = &test
			}
			if k <= 7+n {
				fmt.Fprintf(file, "u%d,i%d\n", u, (u*7+k*k*3)%items)
			}
		}
	}
	for i := range items {
		fmt.Fprintf(&train, "all,i%d\n", i)
	}
	in := func(name string, text *strings.Builder) data.Input {
		return data.Input{Name: name, Text: strings.NewReader(text.String())}
	}
	set, err := data.ReadFiles(data.Files{
		Train: in("train", &train), Valid: in("valid", &valid), Test: in("test", &test),
	}, data.Options{Columns: "user,item", Sep: "comma", Header: "no"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := data.ProtocolNamed("deployed")
	if err != nil {
		t.Fatal(err)
	}
	p.AllTest = true
	split, err := data.NewSplit(set, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	ranks, err := Evaluate(context.Background(), split, 0, 2, func() Scorer { return &arbitrary{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, got := ranks.Summaries(metrics.Against, items)
	var hr, recall, ndcg, mrr, n float64
	several := 0
	var part data.Part
	for u := range split.Users() {
		split.User(u, &part)
		_, rows := part.HeldOutRows()
		if part.Test == data.None {
			continue
		}
		n++
		isTest := map[uint32]bool{}
		for _, i := range rows {
			isTest[i] = true
		}
		if len(isTest) > 1 {
			several++
		}
		var list []uint32
		for i := range uint32(items) {
			if isTest[i] || !slices.Contains(part.Train, i) && !slices.Contains(part.Later, i) {
				list = append(list, i)
			}
		}
		by := &arbitrary{user: u}
		slices.SortFunc(list, func(a, b uint32) int {
			if by.at(a) != by.at(b) {
				return int(by.at(b) - by.at(a))
			}
			if isTest[a] != isTest[b] { // it loses every tie
				return map[bool]int{true: 1, false: -1}[isTest[a]]
			}
			return int(a) - int(b)
		})
		hits, dcg, best, first := 0.0, 0.0, 0.0, 0.0
		for at, i := range list {
			if isTest[i] && first == 0 {
				first = 1 / float64(at+1)
			}
			if isTest[i] && at < 10 {
				hits++
				dcg += 1 / math.Log2(float64(at+2))
			}
		}
		for at := range min(len(isTest), 10) {
			best += 1 / math.Log2(float64(at+2))
		}
		hr += min(hits, 1)
		recall += hits / float64(len(isTest))
		ndcg += dcg / best
		mrr += first
	}
	for name, want := range map[string]float64{
		"hr@10": hr / n, "recall@10": recall / n, "ndcg@10": ndcg / n, "mrr": mrr / n, "users": n,
	} {
		if math.Abs(got.Full[name]-want) > 1e-12 {
			t.Errorf("full %s is %g, want %g", name, got.Full[name], want)
		}
	}
	if several < 10 || got.Full["recall@10"] >= got.Full["hr@10"] || got.Sampled["users"] != n {
		t.Errorf("%d users with several test items; %v and %v", several, got.Full, got.Sampled)
	}
	perUser, full := ranks.PerUser(metrics.Against)
	if len(perUser.Users) != int(n) || len(full.Users) != int(n) {
		t.Errorf("%d and %d users, want %g", len(perUser.Users), len(full.Users), n)
	}
}
