package data

import (
	"slices"
)

// Description summarises a data set.
type Description struct {
	Name        string   `json:"name"`
	Users       int      `json:"users"`
	Items       int      `json:"items"`
	EmptyItems  int      `json:"empty_items"` // items without a row
	Rows        int      `json:"rows"`
	Pairs       int      `json:"distinct_pairs"` // of user and item
	Duplicates  int      `json:"duplicates"`     // rows after the first of their pair
	Sparsity    float64  `json:"sparsity"`       // 1 - pairs/(users*items)
	PerUser     PerUser  `json:"rows_per_user"`
	TailShare   float64  `json:"tail_share"` // share of the rows of the least popular 80% of items
	TimeKind    string   `json:"time_kind"`
	First       int64    `json:"first_time,omitzero"` // only for real times
	Last        int64    `json:"last_time,omitzero"`
	Attrs       []string `json:"attrs,omitempty"`
	Columns     string   `json:"columns,omitempty"` // see Info
	Split       string   `json:"split,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	FilteredOut string   `json:"left,omitempty"`
	Hash        string   `json:"hash"`
}

// PerUser holds quantiles of the number of rows per user: P5 is the smallest number that at least 5% of the users do
// not exceed.
type PerUser struct {
	Min  int     `json:"min"`
	P5   int     `json:"p5"`
	P25  int     `json:"p25"`
	P50  int     `json:"p50"`
	P75  int     `json:"p75"`
	P95  int     `json:"p95"`
	Max  int     `json:"max"`
	Mean float64 `json:"mean"`
}

// Describe summarises src in one pass. It keeps one user's rows and a counter per item in memory.
func Describe(src Source) Description {
	in := src.Info()
	c := Description{
		Name: in.Name, Users: src.Users(), Items: src.Items(), TimeKind: in.TimeKind.String(),
		Columns: in.Columns, Notes: in.Notes, Split: in.Split, FilteredOut: in.FilteredOut, Hash: in.Hash,
	}
	for _, a := range in.Attrs {
		c.Attrs = append(c.Attrs, a.Name)
	}
	perItem := make([]int, c.Items)
	sizes := map[int]int{} // number of users by number of rows
	started := false
	var h History
	var own []uint32
	for u := range c.Users {
		src.History(u, &h)
		c.Rows += len(h.Items)
		sizes[len(h.Items)]++
		for _, i := range h.Items {
			perItem[i]++
		}
		own = append(own[:0], h.Items...)
		slices.Sort(own)
		c.Pairs += len(slices.Compact(own))
		if n := len(h.Times); n > 0 && in.TimeKind == RealTime {
			if !started {
				c.First, c.Last, started = h.Times[0], h.Times[n-1], true
			}
			c.First, c.Last = min(c.First, h.Times[0]), max(c.Last, h.Times[n-1])
		}
	}
	c.Duplicates = c.Rows - c.Pairs
	c.PerUser = quantiles(sizes, c.Users)
	c.ratios(perItem)
	if c.Hash == "" {
		c.Hash = hashOf(src)
	}
	return c
}

func (c *Description) ratios(perItem []int) {
	slices.Sort(perItem)
	tail := 0
	for k, n := range perItem {
		if n == 0 {
			c.EmptyItems++
		}
		if k < len(perItem)*4/5 {
			tail += n
		}
	}
	if c.Rows > 0 {
		c.TailShare = float64(tail) / float64(c.Rows)
		c.PerUser.Mean = float64(c.Rows) / float64(c.Users)
	}
	if c.Users > 0 && c.Items > 0 {
		c.Sparsity = 1 - float64(c.Pairs)/(float64(c.Users)*float64(c.Items))
	}
}

func quantiles(sizes map[int]int, users int) (q PerUser) {
	if users == 0 {
		return q
	}
	var keys []int
	for k := range sizes {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	at := func(percent int) int {
		seen := 0
		for _, k := range keys {
			if seen += sizes[k]; seen*100 >= percent*users {
				return k
			}
		}
		return keys[len(keys)-1]
	}
	return PerUser{Min: keys[0], P5: at(5), P25: at(25), P50: at(50), P75: at(75), P95: at(95), Max: keys[len(keys)-1]}
}
