package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// Leaderboard is all methods beside each other, table by table: what leaderboard.json
// holds.
type Leaderboard struct {
	About  string              `json:"about"` // how it was made
	Seeds  int                 `json:"seeds"` // at most, for each row
	Tables []*LeaderboardTable `json:"tables"`
}

// LeaderboardTable is one data set under one protocol.
type LeaderboardTable struct {
	Dataset     string            `json:"dataset"`
	Protocol    string            `json:"protocol"`
	ReadOptions string            `json:"read,omitempty"` // how the data was read, where that is not as it is
	Users       int               `json:"users"`
	Items       int               `json:"items"`
	Rows        int               `json:"interactions"`
	Reason      string            `json:"reason,omitempty"` // why nothing can be measured
	Entries     []*LeaderboardRow `json:"entries"`          // the best by full NDCG@10 first, references last
	Missing     []string          `json:"missing"`          // what was not run, and why
}

// LeaderboardRow is a row. Its metrics are sampled HR@10 and NDCG@10, full HR@10 and NDCG@10.
type LeaderboardRow struct {
	Method    string     `json:"method"`
	Reference bool       `json:"reference,omitempty"`
	Central   bool       `json:"central,omitempty"` // no federation: every history was in one place
	Epsilon   float64    `json:"epsilon,omitempty"` // that it was trained with; 0 without a promise
	Seeds     []uint64   `json:"seeds"`
	Mean      [4]float64 `json:"mean"`
	SD        [4]float64 `json:"sd"`
	// P is how surely it differs from the best of the column: the p of a paired Wilcoxon
	// test over users, on the seeds that both have, adjusted by Holm for all rows and columns
	// of the table. It is 1 for the best itself.
	P        [4]float64     `json:"p"`
	Best     [4]bool        `json:"best"`
	FewRows  [4]float64     `json:"few_rows"` // of the quarter of the users with the fewest train rows
	NewUsers *NewUserScores `json:"new_users,omitempty"`
	Up       float64        `json:"bytes_up"` // of a device, in the whole of training
	Down     float64        `json:"bytes_down"`
	Seconds  float64        `json:"core_seconds"` // of training
	Rounds   int            `json:"rounds"`
	Settings string         `json:"settings"`
	Commits  []string       `json:"commits"`
}

// NewUserScores are the metrics on users that took no part in training, in runs of their own.
type NewUserScores struct {
	Share float64    `json:"share"`
	Seeds int        `json:"seeds"`
	Mean  [4]float64 `json:"mean"`
	SD    [4]float64 `json:"sd"`
	How   string     `json:"how"` // they are served, or why not
}

// LeaderboardFile is the name of a leaderboard in its folder of cells.
const LeaderboardFile = "leaderboard.json"

// loadLeaderboard returns nil for a folder that holds no leaderboard.
func loadLeaderboard(dir string) (*Leaderboard, error) {
	f, err := open(dir, LeaderboardFile, maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxResult))
	if err != nil {
		return nil, err
	}
	var out Leaderboard
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("report: %s: %w; write it anew with `tacit docs leaderboard --found`", f.Name(), err)
	}
	for _, s := range out.Tables {
		if s == nil || slices.Contains(s.Entries, nil) {
			return nil, fmt.Errorf("report: %s: a table or a row is null; write it anew with `tacit docs "+
				"leaderboard --found`", f.Name())
		}
	}
	return &out, nil
}

// Measured reports whether they have metrics.
func (n *NewUserScores) Measured() bool { return n != nil && n.Seeds > 0 }
