package coordinator

import (
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tacit-rec/tacit/internal/openmetrics"
)

// durations are what a coordinator measures while it runs.
type durations struct {
	rounds *openmetrics.Histogram
	calls  map[string]*openmetrics.Histogram // by call; the keys never change
}

// calls are the calls that are measured apart. All others are one.
var calls = []string{"Hello", "Enrol", "CheckIn", "Fetch", "Report", "Mask", "Leave", "admin", "other"}

func newDurations() durations {
	d := durations{
		rounds: openmetrics.NewHistogram(0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 4*3600, 24*3600),
		calls:  map[string]*openmetrics.Histogram{},
	}
	for _, call := range calls {
		d.calls[call] = openmetrics.NewHistogram(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
	}
	return d
}

// ObserveCall measures a call of a device or an operator, by the last word of its path.
func (c *Coordinator) ObserveCall(call string, took time.Duration) {
	h := c.admin.durations.calls[call]
	if h == nil {
		h = c.admin.durations.calls["other"]
	}
	h.Observe(took.Seconds())
}

// allStates are the states that the metrics always show. Another one is shown while it lasts.
var allStates = []State{
	Starting, WaitingForRun, WaitingForDevices, NoDevices, WaitingForCheckIns, Training, Evaluating, Paused,
	BudgetSpent, Stopped, Finished, BetweenRuns, Outdated, DiskFull, ReadOnly, SlowDisk, TooManyFiles, LowMemory,
	DiskError,
}

// WriteMetrics writes what a monitor needs, as OpenMetrics or in the text format of Prometheus. No label has a value
// that comes from a device or a user.
func (c *Coordinator) WriteMetrics(out io.Writer, openMetrics bool) error {
	w := openmetrics.NewWriter(out, openMetrics)
	c.writeRunMetrics(w)
	c.writeCountMetrics(w)
	c.writePrivacyMetrics(w)
	writeProcessMetrics(w, c.opt.Dir)
	return w.Close()
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

func (c *Coordinator) writeRunMetrics(w *openmetrics.Writer) {
	gauge := func(name, help string, value float64) { w.One("tacit_"+name, openmetrics.Gauge, "", help, value) }
	s := c.Status()
	w.Family("tacit_state", openmetrics.Gauge, "", "State of the coordinator: 1 for the current one.")
	for _, state := range allStates {
		w.Sample(truth(state == s.State), openmetrics.Label{Name: "state", Value: string(state)})
	}
	if !slices.Contains(allStates, s.State) {
		w.Sample(1, openmetrics.Label{Name: "state", Value: string(s.State)})
	}
	gauge("paused", "1 if an operator paused training.", truth(s.Paused))
	gauge("run_number", "Number of the newest run, from 1; 0 before the first.", float64(s.RunNumber))
	gauge("round", "Rounds of the run that are done.", float64(s.Round))
	gauge("rounds_planned", "Rounds of the run.", float64(s.Rounds))
	gauge("model_version", "Newest model version.", float64(s.Version))
	gauge("items", "Items of the catalogue.", float64(s.Items))
	gauge("devices_planned", "Devices that the run was planned for.", float64(s.Devices))
	gauge("devices_enrolled", "Devices that are enrolled: not left, revoked or excluded.", float64(s.Enrolled))
	gauge("devices_active", "Devices that take part in rounds.", float64(s.Active))
	gauge("devices_excluded", "Devices that were excluded because they lied.", float64(len(s.Excluded)))
	if !c.begun() || !c.sampled() {
		gauge("round_reports", "Reports of the round in progress.", float64(s.Counted))
		gauge("round_reports_expected", "Reports that the round in progress can get.", float64(s.Expected))
	}
	gauge("audit_ok", "1 if the audit log was intact at the start.", truth(c.admin.damage == ""))
	gauge("lost_reports", "Acknowledged reports in no sum: a damaged folder, or an older copy.", float64(s.Lost))
	if n := len(s.Evaluations); n > 0 {
		last := s.Evaluations[n-1]
		gauge("evaluation_hit_ratio", "HR@10 of the last evaluation by devices.", last.HR10)
		if last.Popular {
			gauge("evaluation_popularity_hit_ratio", "HR@10 of popularity in the last evaluation.", last.PopHR10)
		}
	}
	w.Family("tacit_round_duration_seconds", openmetrics.Hist, "seconds", "Duration of rounds.")
	w.Histogram(c.admin.durations.rounds)
}

func (c *Coordinator) writeCountMetrics(w *openmetrics.Writer) {
	counts := c.progress.all()
	keys := slices.Sorted(maps.Keys(counts))
	w.Family("tacit_events", openmetrics.Counter, "", "What happened since the start, by kind.")
	for _, key := range keys {
		if !strings.HasPrefix(key, refusedPrefix) {
			w.Sample(float64(counts[key]), openmetrics.Label{Name: "event", Value: key})
		}
	}
	w.Family("tacit_requests_refused", openmetrics.Counter, "", "Requests that were refused, by error code.")
	for _, key := range keys {
		if code, ok := strings.CutPrefix(key, refusedPrefix); ok {
			w.Sample(float64(counts[key]), openmetrics.Label{Name: "code", Value: code})
		}
	}
	w.Family("tacit_request_duration_seconds", openmetrics.Hist, "seconds", "Duration of calls, by call.")
	for _, call := range calls {
		w.Histogram(c.admin.durations.calls[call], openmetrics.Label{Name: "call", Value: call})
	}
	s := c.st.Stats()
	counter := func(name, unit, help string, n uint64) { w.One(name, openmetrics.Counter, unit, help, float64(n)) }
	counter("tacit_store_records", "", "Records written to the store.", s.Records)
	counter("tacit_store_syncs", "", "Writes of the store that were synced to disk.", s.Syncs)
	counter("tacit_store_written_bytes", "bytes", "Bytes written to the store.", s.Bytes)
}

func (c *Coordinator) writePrivacyMetrics(w *openmetrics.Writer) {
	b := c.Budget()
	gauge := func(name, help string, value float64) { w.One("tacit_"+name, openmetrics.Gauge, "", help, value) }
	gauge("ledger_ok", "1 if the privacy ledger covers the model.", truth(b.LedgerOK))
	if b.Epsilon == nil {
		return
	}
	gauge("privacy_epsilon_spent", "Epsilon spent in the budget period.", *b.Epsilon)
	gauge("privacy_delta", "Delta of the privacy guarantee.", *b.Delta)
	if b.BudgetEpsilon != nil {
		gauge("privacy_epsilon_budget", "Epsilon of the policy.", *b.BudgetEpsilon)
	}
	gauge("privacy_budget_period", "Budget period, from 1; a reset begins another.", float64(b.BudgetPeriod))
	gauge("privacy_ledger_lines", "Lines of the privacy ledger.", float64(b.LedgerLines))
}
