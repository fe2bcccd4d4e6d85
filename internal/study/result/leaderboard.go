package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// Leaderboard is the content of leaderboard.json: all methods, table by table.
type Leaderboard struct {
	About  string              `json:"about"` // how it was made
	Seeds  int                 `json:"seeds"` // the largest number of seeds of a row
	Tables []*LeaderboardTable `json:"tables"`
}

// LeaderboardTable is the methods on one data set under one protocol.
type LeaderboardTable struct {
	Dataset     string            `json:"dataset"`
	Protocol    string            `json:"protocol"`
	ReadOptions string            `json:"read,omitempty"` // options for reading the data; empty for none
	Users       int               `json:"users"`
	Items       int               `json:"items"`
	Rows        int               `json:"interactions"`
	Reason      string            `json:"reason,omitempty"` // why the table is empty
	Entries     []*LeaderboardRow `json:"entries"`          // best full NDCG@10 first, references last
	Missing     []string          `json:"missing"`          // what was not run, and why
}

// LeaderboardRow is one method. Its metrics are sampled HR@10 and NDCG@10, full HR@10 and NDCG@10.
type LeaderboardRow struct {
	Method    string     `json:"method"`
	Reference bool       `json:"reference,omitempty"`
	Central   bool       `json:"central,omitempty"` // trained in one place, without a federation
	Epsilon   float64    `json:"epsilon,omitempty"` // 0 without a privacy guarantee
	Seeds     []uint64   `json:"seeds"`
	Mean      [4]float64 `json:"mean"`
	SD        [4]float64 `json:"sd"`
	// P is the p of a paired Wilcoxon test over users against the best of the column, on the seeds that both have,
	// with Holm's correction for all rows and columns of the table. It is 1 for the best itself.
	P        [4]float64     `json:"p"`
	Best     [4]bool        `json:"best"`
	FewRows  [4]float64     `json:"few_rows"` // on the quarter of the users with the fewest train rows
	NewUsers *NewUserScores `json:"new_users,omitempty"`
	Up       float64        `json:"bytes_up"` // of a device, in the whole of training
	Down     float64        `json:"bytes_down"`
	Seconds  float64        `json:"core_seconds"` // of training
	Rounds   int            `json:"rounds"`
	Settings string         `json:"settings"`
	Commits  []string       `json:"commits"`
}

// NewUserScores are the metrics on users held out of training, from separate runs.
type NewUserScores struct {
	Share float64    `json:"share"`
	Seeds int        `json:"seeds"`
	Mean  [4]float64 `json:"mean"`
	SD    [4]float64 `json:"sd"`
	How   string     `json:"how"` // how the method serves them, or why it cannot
}

// LeaderboardFile is the name of the file in a leaderboard's folder.
const LeaderboardFile = "leaderboard.json"

// loadLeaderboard returns nil for a folder without a leaderboard.
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
		return nil, fmt.Errorf("%s: %w; write it again with `tacit docs leaderboard --found`", f.Name(), err)
	}
	for _, s := range out.Tables {
		if s == nil || slices.Contains(s.Entries, nil) {
			return nil,
				fmt.Errorf("%s: a table or a row is null; write it again with `tacit docs leaderboard --found`",
					f.Name())
		}
	}
	return &out, nil
}

// Measured reports whether new users were evaluated.
func (n *NewUserScores) Measured() bool { return n != nil && n.Seeds > 0 }
