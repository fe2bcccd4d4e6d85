// Package evaluation keeps the results of federated evaluation: how well the model ranks an item
// that each device holds out, as masked sums over devices with noise. It never sees what a single
// device holds out or how well it is served. Its one convention: a result is on disk before
// anybody sees it, and an evaluation that was interrupted is not repeated.
package evaluation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy"
)

// Result is what the devices say of a model. Every number is a noisy sum over devices, divided.
type Result struct {
	Run       int     `json:"run"` // its number in the federation
	Round     int     `json:"round"`
	Version   uint64  `json:"version"`
	Devices   float64 `json:"devices"` // that hold out an item; noisy
	HR10      float64 `json:"hr@10"`
	NDCG10    float64 `json:"ndcg@10"`
	Popular   bool    `json:"popularity"` // popularity is known and was evaluated too
	PopHR10   float64 `json:"popularity_hr@10,omitempty"`
	PopNDCG10 float64 `json:"popularity_ndcg@10,omitempty"`
	Noise     float64 `json:"noise"`       // standard deviation of each sum, in devices
	Share     float64 `json:"noise_share"` // standard deviation of each metric: Noise / Devices
}

// Skipped is why an evaluation, or popularity in it, is missing. Training continues.
type Skipped string

func (s Skipped) Error() string { return string(s) }

// DefaultNoise is in devices, for runs without a privacy guarantee.
const DefaultNoise = 2

const maxResults = 1000

// Bound is the bound on one device's numbers, which none of them exceeds, and the integer that
// stands for a whole device: as large as a masked sum of all devices allows.
func Bound(devices int) (b privacy.Bound, whole int64) {
	whole = min(1<<20, max(1, (1<<31-1)/int64(devices)))
	clip := math.Sqrt(metrics.EvaluationLength) * 1.001
	return privacy.Bound{Clip: clip, Levels: clip * float64(whole)}, whole
}

// minPopular devices must have an item for its popularity to be published, as method.MinPopular.
const minPopular = 3

// Popular lists the items by how many devices have them, without those that few have: they could
// identify a device.
func Popular(counts []int32) (items []uint32) {
	for i, n := range counts {
		if n >= minPopular {
			items = append(items, uint32(i))
		}
	}
	slices.SortStableFunc(items, func(a, b uint32) int { return cmp.Compare(counts[b], counts[a]) })
	return items
}

// NewResult divides noisy sums by the number of devices.
func NewResult(sums []float64, devices, noise float64, popular bool) *Result {
	share := func(x float64) float64 { return math.Round(x/math.Max(devices, 1)*1e4) / 1e4 }
	r := &Result{
		Devices: math.Round(devices), HR10: share(sums[1]), NDCG10: share(sums[2]), Noise: noise, Share: share(noise),
		Popular: popular,
	}
	if popular {
		r.PopHR10, r.PopNDCG10 = share(sums[4]), share(sums[5])
	}
	return r
}

// Log is the results of all runs. Its methods may be called from many goroutines.
type Log struct {
	store *store.Store

	mu      sync.Mutex
	results []Result
	begun   int    // round of an evaluation that has begun and not ended; 0 for none
	run     int    // the newest
	counted int    // the last run in which devices were asked which items they have
	missed  string // why the last evaluation is missing
}

// Keys of the store.
const (
	resultsKey = "evaluations"
	begunKey   = "evaluating"
	countedKey = "counted"
)

// Open loads the results.
func Open(st *store.Store) (*Log, error) {
	l := &Log{store: st}
	for key, to := range map[string]any{resultsKey: &l.results, begunKey: &l.begun, countedKey: &l.counted} {
		if err := st.GetJSON(key, to); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// BeginRun begins the evaluations of a run. The results of earlier runs stay.
func (l *Log) BeginRun(number int) error {
	if err := l.store.PutJSON(begunKey, 0); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run, l.begun, l.missed = number, 0, ""
	return nil
}

func (l *Log) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// SetRun sets the number of the run that continues.
func (l *Log) SetRun(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = number
}

// Begin notes that the evaluation after a round is due, before its model is published.
func (l *Log) Begin(round int) error { return l.store.PutJSON(begunKey, round) }

// End notes that the evaluation has ended.
func (l *Log) End() error { return l.store.PutJSON(begunKey, 0) }

// NoteInterrupted notes that a kill interrupted an evaluation, if it did. round is the number of
// rounds of the newest model.
func (l *Log) NoteInterrupted(round int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.results)
	if l.begun == 0 || round < l.begun || n > 0 && l.results[n-1].Run == l.run && l.results[n-1].Round == l.begun {
		return
	}
	l.missed = fmt.Sprintf("the coordinator was stopped during the evaluation after round %d", l.begun)
}

// Add writes a result.
func (l *Log) Add(r Result) error {
	r.Run = l.number()
	all := append(l.Results(), r)
	all = all[max(0, len(all)-maxResults):]
	if err := l.store.PutJSON(resultsKey, all); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results = all
	return nil
}

// Results are the newest results, the oldest first.
func (l *Log) Results() []Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.results)
}

// Counted reports whether devices have been asked which items they have. They are asked once in a
// run.
func (l *Log) Counted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counted == l.run
}

// SetCounted notes that devices have been asked, before they reveal anything.
func (l *Log) SetCounted() error {
	run := l.number()
	if l.Counted() {
		return nil
	}
	if err := l.store.PutJSON(countedKey, run); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted = run
	return nil
}

// SetMissed sets why the last evaluation is missing; empty if it is not.
func (l *Log) SetMissed(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed = why
}

// Missed is why the last evaluation, or popularity in it, is missing; empty if it is not.
func (l *Log) Missed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missed
}
