package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// refsVersion is increased when the definition of a reference row changes.
const refsVersion = 3

// referenceRow is a reference row with its metrics per user.
type referenceRow struct {
	result.Reference
	Sampled metrics.PerUser `json:"each_sampled"`
	Full    metrics.PerUser `json:"each_full"`
}

// references measures the reference rows, or reads them from the user's cache folder. They depend on
// data, protocol, seed and sampling, and not on the method.
func references(ctx context.Context, c reference.Config, onEvent func(ReferenceProgress)) (map[string]*referenceRow,
	error,
) {
	out := map[string]*referenceRow{}
	for _, name := range reference.Names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		path := refPath(name, c)
		if r := readRef(path); r != nil {
			out[name] = r
			continue
		}
		onEvent(ReferenceProgress{Name: name})
		var mu sync.Mutex
		last := time.Now()
		c.OnProgress = func(p reference.Progress) {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(last) > time.Second {
				last = time.Now()
				onEvent(ReferenceProgress{name, p.Done, p.Users})
			}
		}
		row, err := reference.Compute(ctx, name, c)
		if err != nil {
			return nil, err
		}
		r := &referenceRow{result.Reference{
			Valid: row.Valid, Test: row.Test, New: row.New, Reason: row.Reason,
			About: row.About, Seconds: row.Seconds,
		}, row.Sampled, row.Full}
		out[name] = r
		if path != "" {
			b, err := json.Marshal(r)
			if err == nil && os.MkdirAll(filepath.Dir(path), 0o755) == nil {
				// A run does not fail because the cache cannot be written.
				_ = writeFile(path, b)
			}
		}
	}
	return out, nil
}

func refPath(name string, c reference.Config) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	// First what every row depends on, then what only this row depends on.
	key := fmt.Sprintf("%d %s %s %s %+v %d %d %d", refsVersion, SelfTestDigest, name, c.Split.Info().Hash,
		c.Split.Protocol, c.Split.Seed, c.Ties, c.EvalUsers)
	switch name {
	case "local":
		key += fmt.Sprintf(" %d %d", c.Negatives, c.Seed)
	case "memoriser":
		key += fmt.Sprintf(" %d %d %d", c.Negatives, c.Seed, c.Rounds)
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, "tacit", "references", name+"-"+hex.EncodeToString(sum[:12])+".json")
}

func readRef(path string) *referenceRow {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 256<<20 {
		return nil
	}
	var r referenceRow
	if json.Unmarshal(b, &r) != nil || r.Test == nil && r.Reason == "" || !paired(r.Sampled) || !paired(r.Full) {
		return nil
	}
	return &r
}

func paired(e metrics.PerUser) bool { return len(e.HR) == len(e.Users) && len(e.NDCG) == len(e.Users) }
