// Package result holds what was measured: the values of result.json and of the other files of a run folder, and
// the significance tests over them. It runs no experiments, and it draws and formats nothing.
//
// Metrics are fractions; a metric that was not measured is NaN.
package result

import "github.com/tacit-rec/tacit/internal/base/metrics"

// Schema is the version of the envelope.
const Schema = 1

// Result is one run: what `tacit run --format json` prints and result.json holds.
type Result struct {
	Method        string `json:"method"`
	Dataset       string `json:"dataset"`
	DataHash      string `json:"data_hash"`
	Protocol      string `json:"protocol"`
	Leaks         bool   `json:"leaks"`
	Central       bool   `json:"central,omitempty"` // no federation: every history was in one place
	Seed          uint64 `json:"seed"`
	Rounds        int    `json:"rounds"`
	SelectedRound int    `json:"selected_round"`
	// the method is complete in its last round, which is the one reported
	Settled      bool            `json:"last_round_counts,omitempty"`
	Users        int             `json:"users"`
	Items        int             `json:"items"`
	Interactions int             `json:"interactions"`
	Params       map[string]any  `json:"params"`
	Options      map[string]any  `json:"options"`
	Valid        metrics.Summary `json:"valid"`
	Test         metrics.Summary `json:"test"`
	// those that took no part in training, where some were held out
	NewUsers      *NewUsers             `json:"new_users,omitempty"`
	OnTest        *Chosen               `json:"chosen_on_test,omitempty"` // only where there is no validation set
	References    map[string]*Reference `json:"references"`               // popularity, ease, local, memoriser
	LeakMeasured  *LeakMeasured         `json:"leak_measured"`
	Preset        *string               `json:"preset"`
	Choice        *Choice               `json:"chosen_settings,omitempty"` // of the method's own grid, on validation
	Published     *Published            `json:"published"`
	Seconds       Seconds               `json:"seconds"`
	RoundMSMedian float64               `json:"round_ms_median"`
	DevicesPerS   float64               `json:"devices_per_s"`
	SamplesPerS   float64               `json:"samples_per_s"`
	PeakRSSBytes  int64                 `json:"peak_rss_bytes"`
	Bytes         Bytes                 `json:"bytes"`
	Privacy       *Privacy              `json:"privacy"`
	Dropped       int                   `json:"dropped"`
	Late          int                   `json:"late"`
	// users whose test item is among their train rows: the data repeats pairs
	Repeats int `json:"test_items_in_train"`
	Few     int `json:"users_with_few_candidates"` // users ranked against fewer than 99 items
	// devices with nothing to train on in the last round
	Idle    int    `json:"idle_devices"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Beside is what stands in per_user_references.csv; nil where there is none.
	Beside *Beside `json:"-"`
}

// NewUsers are users that took no part in training. Test is without metrics where
// the method cannot serve them; How says how it does, or why not.
type NewUsers struct {
	Share float64         `json:"share"`
	How   string          `json:"how"`
	Valid metrics.Summary `json:"valid"`
	Test  metrics.Summary `json:"test"`
}

// Choice is how the settings of a run without a preset were chosen: each setting of the
// method's grid was run with Seed, and the best by a metric on validation items was taken.
type Choice struct {
	By      string  `json:"by"`
	Seed    uint64  `json:"seed"`
	Tried   []Tried `json:"tried"`
	Chosen  int     `json:"chosen"` // the place in Tried, from 0
	Seconds float64 `json:"seconds"`
}

// Tried is one setting, with its metrics on validation items.
type Tried struct {
	Settings string  `json:"settings"`
	HR       float64 `json:"valid_hr@10"`
	NDCG     float64 `json:"valid_ndcg@10"`
	Seconds  float64 `json:"seconds"`
}

// Reference is a scorer that every report carries beside the method. Valid and
// Test are nil where there is none, and Reason says why.
type Reference struct {
	Valid   *metrics.Summary `json:"valid"`
	Test    *metrics.Summary `json:"test"`
	New     *metrics.Summary `json:"new_users,omitempty"` // test metrics of users that took no part in training
	Reason  string           `json:"reason,omitempty"`
	About   string           `json:"about,omitempty"`
	Seconds float64          `json:"seconds"`
	Versus  *Versus          `json:"versus,omitempty"` // how the method stands to it
}

// LeakMeasured is what a leak amounts to: the test HR@10 of the count-only
// memoriser, beside that of popularity.
type LeakMeasured struct {
	Memoriser  float64 `json:"memoriser"`
	Popularity float64 `json:"popularity"`
}

// Published is the number of a paper, as fractions.
type Published struct {
	HR10   float64 `json:"hr@10"`
	NDCG10 float64 `json:"ndcg@10"`
	HR20   float64 `json:"hr@20,omitempty"`
	Source string  `json:"source"`
	// Protocol is the one under which a number of ours may stand beside it; empty is
	// "paper".
	Protocol string `json:"protocol,omitempty"`
}

// Chosen is the round that is best on test, which a paper without a validation set
// reports. Such a number has seen the answers.
type Chosen struct {
	Round int             `json:"round"`
	Test  metrics.Summary `json:"test"`
}

// Seconds is where the time went. References are no part of it.
type Seconds struct {
	Train float64 `json:"train"`
	Eval  float64 `json:"eval"`
	Total float64 `json:"total"`
}

// Bytes is what travels, per device and round.
type Bytes struct {
	Up   float64 `json:"up_per_device"`
	Down float64 `json:"down_per_device"`
}

// Privacy is what a run's privacy stack cost; nil for a run without one.
type Privacy struct {
	Epsilon    any     `json:"epsilon"` // a number, or "inf"
	Delta      float64 `json:"delta"`
	Adjacency  string  `json:"adjacency"`
	Sampler    string  `json:"sampler"`
	Q          float64 `json:"q"`
	Rounds     int     `json:"rounds"`
	Noise      float64 `json:"noise"`
	Uneven     bool    `json:"uneven,omitempty"` // rounds differ in noise: Noise is that of one with the mean share
	Mechanism  string  `json:"mechanism"`
	Accountant string  `json:"accountant"`
	Conversion string  `json:"conversion"`
	Against    string  `json:"against"`
	// Holds says in words whom it holds against, and Caveats what it does not cover.
	Holds   string   `json:"holds,omitempty"`
	Caveats []string `json:"caveats,omitempty"`
	Budget  float64  `json:"budget,omitempty"` // the epsilon that was allowed; 0 where the noise was given
	Clip    float64  `json:"clip,omitempty"`   // the bound on an update at the end
	// Adaptive says that the bound has moved, Metrics is the noise multiplier of the
	// metrics that were released, so often; the reported round was then chosen by them.
	Adaptive       bool    `json:"adaptive,omitempty"`
	Metrics        float64 `json:"metrics_noise,omitempty"`
	MetricReleases int     `json:"metrics_released,omitempty"`
	Broke          int     `json:"budget_spent_before_round,omitempty"`
	Kept           int     `json:"rounds_with_too_few_devices,omitempty"`
	// How often a device took part: against the coordinator each time costs.
	MostVisits int     `json:"participations_most,omitempty"`
	MeanVisits float64 `json:"participations_mean,omitempty"`
}

// Many is a run repeated with several seeds. Mean and SD have the names of the
// metrics of a run.
type Many struct {
	Runs []*Result `json:"runs"`
	Mean Moments   `json:"mean"`
	SD   Moments   `json:"sd"`
	// Versus is by reference, as in Reference, over the means of each user; nil
	// without references.
	Versus map[string]*Versus `json:"versus,omitempty"`
}

// Moments holds one number over the seeds for each metric.
type Moments struct {
	Valid metrics.Summary `json:"valid"`
	Test  metrics.Summary `json:"test"`
}

// Point is one line of metrics.jsonl.
type Point struct {
	Round   int              `json:"round"`
	Valid   *metrics.Summary `json:"valid,omitempty"`
	Test    *metrics.Summary `json:"test,omitempty"`
	Loss    *float64         `json:"train_loss,omitempty"`
	TrainMS float64          `json:"train_ms"`
	EvalMS  float64          `json:"eval_ms"`
	BytesUp int              `json:"bytes_up"`
	Spectra []Spectrum       `json:"spectra,omitempty"` // of the item table, in some rounds
	Epsilon *float64         `json:"epsilon,omitempty"` // spent so far, in evaluated rounds
	Clip    float64          `json:"clip,omitempty"`    // the bound on an update
}

// User is one line of per_user.csv.
type User struct {
	ID                  string
	Rows                int // train rows
	ValidRank, TestRank int // among sampled candidates, from 1; 0 when not evaluated
	ValidFull, TestFull int // among the catalogue
}

// Run is everything that a run folder tells.
type Run struct {
	Dir    string
	Result *Result
	Points []Point
	Users  []User
	// Figures is nil for a run that made none.
	Figures *Figures
	// Search is what `tacit tune -o` leaves; Result is then nil.
	Search *Search
	// Board is what `tacit docs leaderboard` leaves; Result is then nil.
	Board *Leaderboard
	// Seeds are the runs of a folder that was made with --seeds; the fields above
	// are then those of the first of them. It is nil for a folder with one run.
	Seeds []*Run
}
