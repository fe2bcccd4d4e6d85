// Package result holds what was measured: the values of result.json and of the other files of a run folder, and
// the significance tests over them. It runs no experiments, and it draws and formats nothing.
//
// Metrics are fractions; a metric that was not measured is NaN.
package result

import "github.com/tacit-rec/tacit/internal/base/metrics"

// Schema is the version of the JSON envelope and of the files of a run folder. docs/schema.md says what it promises.
const Schema = 1

// Result is one run: what `tacit run --format json` prints and result.json holds.
type Result struct {
	Schema        int    `json:"schema_version,omitempty"` // 0 in files of older versions
	Method        string `json:"method"`
	Dataset       string `json:"dataset"`
	DataHash      string `json:"data_hash"`
	Protocol      string `json:"protocol"`
	Leaks         bool   `json:"leaks"`
	Central       bool   `json:"central,omitempty"` // trained in one place, without a federation
	Seed          uint64 `json:"seed"`
	Rounds        int    `json:"rounds"`
	SelectedRound int    `json:"selected_round"`
	// LastRoundCounts is set if the method is complete only in its last round, which is then the reported one.
	LastRoundCounts bool `json:"last_round_counts,omitempty"`
	DataSize
	Params       map[string]any        `json:"params"`
	Options      map[string]any        `json:"options"`
	Valid        metrics.Summary       `json:"valid"`
	Test         metrics.Summary       `json:"test"`
	NewUsers     *NewUsers             `json:"new_users,omitempty"`
	BestOnTest   *BestOnTest           `json:"chosen_on_test,omitempty"` // set only without a validation set
	References   map[string]*Reference `json:"references"`               // popularity, ease, local, memoriser
	LeakMeasured *LeakMeasured         `json:"leak_measured"`
	Preset       *string               `json:"preset"`
	Choice       *Choice               `json:"chosen_settings,omitempty"`
	Published    *Published            `json:"published"`
	Literature   []Published           `json:"literature,omitempty"` // of other models, in full ranking
	Cost
	Privacy *Privacy `json:"privacy"`
	Counts
	Origin
	// UserScores is the content of per_user_references.csv; nil if the run did not write it.
	UserScores *UserScores `json:"-"`
}

// Origin says which program measured a result, and on which model.
type Origin struct {
	Version   string     `json:"version"`
	Commit    string     `json:"commit,omitempty"`
	Evaluated *Evaluated `json:"evaluated_again,omitempty"` // set by tacit evaluate
}

// Evaluated says which stored run was evaluated again, without training.
type Evaluated struct {
	Run      string `json:"run"`
	Protocol string `json:"trained_under"`
	Round    int    `json:"round"` // whose model was evaluated
	// OtherNegatives is set if devices drew negatives by the rule of another protocol than that of the evaluation.
	OtherNegatives bool `json:"other_negatives,omitempty"`
	Tuned          bool `json:"trained_once_more,omitempty"` // devices tuned their tables before scoring
}

// TrainedUnder is the protocol that the model was trained under.
func (r *Result) TrainedUnder() string {
	if r.Evaluated != nil && r.Evaluated.OtherNegatives {
		return r.Evaluated.Protocol
	}
	return r.Protocol
}

// DataSize is the size of the data set as it was read, filtered and split.
type DataSize struct {
	Users        int `json:"users"`
	Items        int `json:"items"`
	Interactions int `json:"interactions"`
	// DataSettings are the settings of reading, filters and split that are not the defaults.
	DataSettings map[string]any `json:"data_settings,omitempty"`
}

// Cost is the time, memory and traffic of a run.
type Cost struct {
	Seconds       Seconds `json:"seconds"`
	RoundMSMedian float64 `json:"round_ms_median"`
	DevicesPerS   float64 `json:"devices_per_s"`
	SamplesPerS   float64 `json:"samples_per_s"`
	PeakRSSBytes  int64   `json:"peak_rss_bytes"`
	Bytes         Bytes   `json:"bytes"`
}

// Counts are the devices and users to which something happened that a reader of the metrics should know.
type Counts struct {
	Dropped int `json:"dropped"` // devices that dropped out of a round
	Late    int `json:"late"`    // devices that missed the deadline of a round
	// TestItemsInTrain counts users whose test item is among their train rows: the data repeats pairs.
	TestItemsInTrain int `json:"test_items_in_train"`
	FewCandidates    int `json:"users_with_few_candidates"` // users ranked against fewer than 99 items
	IdleDevices      int `json:"idle_devices"`              // devices without training data in the last round
	// EvaluatedSample is the number of users that were drawn for evaluation; 0 if all users are evaluated.
	EvaluatedSample int `json:"evaluated_sample,omitempty"`
}

// NewUsers are the metrics of users held out of training. Test has no metrics if the method cannot serve them;
// How says how the method serves them, or why it cannot.
type NewUsers struct {
	Share float64         `json:"share"`
	How   string          `json:"how"`
	Valid metrics.Summary `json:"valid"`
	Test  metrics.Summary `json:"test"`
}

// Choice is how the settings of a run without a preset were chosen: every setting of the method's grid was run
// with Seed, and the best by a metric on the validation items was taken.
type Choice struct {
	By      string  `json:"by"`
	Seed    uint64  `json:"seed"`
	Tried   []Tried `json:"tried"`
	Chosen  int     `json:"chosen"` // index in Tried
	Seconds float64 `json:"seconds"`
}

// Tried is one setting with its metrics on the validation items.
type Tried struct {
	Settings string  `json:"settings"`
	HR       float64 `json:"valid_hr@10"`
	NDCG     float64 `json:"valid_ndcg@10"`
	Seconds  float64 `json:"seconds"`
}

// Reference is a baseline that every report shows next to the method. Valid and Test are nil if it was not
// computed; Reason says why.
type Reference struct {
	Valid   *metrics.Summary `json:"valid"`
	Test    *metrics.Summary `json:"test"`
	New     *metrics.Summary `json:"new_users,omitempty"` // test metrics of users held out of training
	Reason  string           `json:"reason,omitempty"`
	About   string           `json:"about,omitempty"`
	Seconds float64          `json:"seconds"`
	Versus  *Versus          `json:"versus,omitempty"` // the method compared with this reference
}

// LeakMeasured is the size of a leak: the test HR@10 of the memoriser, which only counts draws, next to that of
// popularity.
type LeakMeasured struct {
	Memoriser  float64 `json:"memoriser"`
	Popularity float64 `json:"popularity"`
}

// Published holds the metrics that a paper reports, as fractions; 0 if the paper does not give one.
type Published struct {
	HR10   float64 `json:"hr@10"`
	NDCG10 float64 `json:"ndcg@10"`
	HR20   float64 `json:"hr@20,omitempty"`
	Source string  `json:"source"`
	// Protocol is the protocol under which our metrics are comparable; empty means "paper".
	Protocol string `json:"protocol,omitempty"`
	// Model is the model of an entry of Result.Literature.
	Model string `json:"model,omitempty"`
}

// BestOnTest is the round with the best test metrics, which papers without a validation set report. It was chosen
// with knowledge of the test items.
type BestOnTest struct {
	Round int             `json:"round"`
	Test  metrics.Summary `json:"test"`
}

// Seconds is the time that a run took. The computation of references is not included.
type Seconds struct {
	Train float64 `json:"train"`
	Eval  float64 `json:"eval"`
	Total float64 `json:"total"`
}

// Bytes is the traffic per device and round.
type Bytes struct {
	Up   float64 `json:"up_per_device"`
	Down float64 `json:"down_per_device"`
}

// Privacy is the privacy guarantee of a run and what it cost; nil for a run without one.
type Privacy struct {
	Epsilon    any     `json:"epsilon"` // a number, or "inf"
	Delta      float64 `json:"delta"`
	Adjacency  string  `json:"adjacency"`
	Sampler    string  `json:"sampler"`
	Q          float64 `json:"q"`
	Rounds     int     `json:"rounds"`
	Noise      float64 `json:"noise"`
	Uneven     bool    `json:"uneven,omitempty"` // rounds differ in noise; Noise is that of an average round
	Mechanism  string  `json:"mechanism"`
	Accountant string  `json:"accountant"`
	Conversion string  `json:"conversion"`
	Against    string  `json:"against"`
	// HoldsAgainst says in words against whom the guarantee holds, Caveats what it does not cover.
	HoldsAgainst string   `json:"holds,omitempty"`
	Caveats      []string `json:"caveats,omitempty"`
	Budget       float64  `json:"budget,omitempty"` // the epsilon allowed; 0 if the user set the noise
	Clip         float64  `json:"clip,omitempty"`   // the clipping bound at the end
	Adaptive     bool     `json:"adaptive,omitempty"`
	// MetricsNoise is the noise multiplier of the released metrics. If it is set, they chose the reported round.
	MetricsNoise    float64 `json:"metrics_noise,omitempty"`
	MetricsReleased int     `json:"metrics_released,omitempty"`
	SpentBefore     int     `json:"budget_spent_before_round,omitempty"`
	Discarded       int     `json:"rounds_with_too_few_devices,omitempty"`
	// How often a device took part. Against the coordinator every participation costs.
	MostParticipations int     `json:"participations_most,omitempty"`
	MeanParticipations float64 `json:"participations_mean,omitempty"`
}

// Repeated is a run repeated with several seeds. Mean and SD have the metrics that all runs have.
type Repeated struct {
	Schema int       `json:"schema_version,omitempty"`
	Runs   []*Result `json:"runs"`
	Mean   Moments   `json:"mean"`
	SD     Moments   `json:"sd"`
	// Versus compares with each reference, by each user's mean over the seeds; nil without references.
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
	Clip    float64          `json:"clip,omitempty"`    // the clipping bound
}

// User is one line of per_user.csv.
type User struct {
	ID                  string
	Rows                int // train rows
	ValidRank, TestRank int // among sampled candidates, from 1; 0 if not evaluated
	ValidFull, TestFull int // among the catalogue
}

// Run is the content of a run folder.
type Run struct {
	Dir    string
	Result *Result
	Points []Point
	Users  []User
	// Figures is nil if the run made none.
	Figures *Figures
	// Search is set for a folder of `tacit tune -o`; Result is then nil.
	Search *Search
	// Leaderboard is set for a folder of `tacit docs leaderboard`; Result is then nil.
	Leaderboard *Leaderboard
	// Seeds are the runs of a folder made with --seeds; the fields above are then those of the first. It is nil
	// for a folder with one run.
	Seeds []*Run
}
