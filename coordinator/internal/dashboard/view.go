package dashboard

import "time"

// Snapshot is what the overview shows. It has no data of users and no secret.
type Snapshot struct {
	Time    time.Time
	Name    string
	State   string // as the admin API names it
	Message string
	Paused  bool
	Demo    bool // a demonstration, to which nobody can sign in
	Run     Run
	Open    *OpenRound // the round or evaluation in progress; nil between rounds
	Rounds  []Round    // the oldest first
	Quality Quality
	Privacy Privacy
	Devices Devices
	Traffic Traffic
	Upload  Upload
	History []Version // the newest first
}

// Intro is a text above the overview. It is for demonstrations, to which nobody can sign in: it says what the page
// shows.
type Intro struct {
	Title string
	Lines []string
	Facts [][2]string // a number, and what it says
	Note  string
	// Link is the address of another page, with its text; empty for none.
	Link, LinkText string
}

// Run is the newest run.
type Run struct {
	Begun         bool // there is a run
	Number        int
	Method        string
	Round, Rounds int // that are done, and planned
	Version       uint64
	Items         int
	Catalogue     uint64
	NextRun       *time.Time
	RollbackTo    uint64 // a roll back that was requested and is not done; otherwise 0
	Masked        bool
	Deterministic bool
	Sampled       bool // the cohort is a secret sample: no page shows its size
}

// Upload says what devices of the newest run send and keep.
type Upload struct {
	Sent  []string // the parts of an update, in words
	Kept  []string // parts of the model that stay on the device; histories always do
	Bytes int64    // received from each device in the last round, on average; 0 if unknown or secret
}

// OpenRound is a round in progress.
type OpenRound struct {
	Number     int // from 1
	Evaluation bool
	Began      time.Time
	Stages
}

// Stages is how many devices reached each stage of a round.
type Stages struct {
	CheckedIn, Selected, Reported int
	Late, Refused                 int64 // reports, and requests of any kind
}

// Dropped is the number of selected devices that have not reported.
func (s Stages) Dropped() int { return max(0, s.Selected-s.Reported) }

// Round is a round that has ended.
type Round struct {
	Run, Number    int
	Version        uint64
	Ended          time.Time
	Seconds        float64
	Sampled        bool
	Received, Sent int64 // bytes
	Discarded      bool
	Rejected       string
	Epsilon        float64
	Stages
}

// Quality is what evaluations by devices say.
type Quality struct {
	Evaluations []Evaluation // of the newest run with evaluations, the oldest first
	Missed      string       // why the last one is missing
}

// Evaluation is one evaluation by devices. Every number has noise.
type Evaluation struct {
	Run, Round             int
	HR10, NDCG10           float64
	Popular                bool // popularity was evaluated too
	PopHR10, PopNDCG10     float64
	Devices, NoiseFraction float64
}

// Privacy is the privacy budget.
type Privacy struct {
	On              bool // the run has a privacy guarantee
	Policy          string
	Guarantee       string
	Epsilon, Budget *float64
	Delta           *float64
	TooLow          bool // more was spent than Epsilon
	Period          int
	Run, Runs       int // in the period
	Lines           int // of the ledger
	LedgerOK        bool
}

// Devices is the population.
type Devices struct {
	Planned, Enrolled, Active, Overdue, Left, Revoked int
	Excluded                                          int
	List                                              []Excluded // the first of them
	Programs                                          []Program
	Lost                                              int // acknowledged reports in no sum
}

// Excluded is a device that was proven to break the protocol.
type Excluded struct {
	ID     uint32
	Reason string
}

// Program is a program of devices.
type Program struct {
	Name    string
	Devices int
}

// Traffic is counted since the start of the process.
type Traffic struct {
	Received, Sent   int64 // bytes of updates and models
	CheckIns, Rounds int64
	Late, Discarded  int64
	AttemptsEnded    int64
	Refusals         []Refusal // by code, the most frequent first
}

// Refusal is a number of refused requests.
type Refusal struct {
	Code  string
	Count int64
}

// Version is a model version on disk.
type Version struct {
	Number     uint64
	Run        int
	Round      int
	Created    time.Time
	RolledBack bool
	Newest     bool
}

// Device is a device in the list of devices.
type Device struct {
	ID             uint32
	State, Reason  string
	Enrolled       time.Time
	LastSeen       *time.Time
	Software, Note string
	Epsilon        *float64
}

// Item is an item of the catalogue.
type Item struct {
	ID, Title string
	Retired   bool
}

// Items is a page of the catalogue.
type Items struct {
	Version        uint64
	Count, Waiting int
	List           []Item
	Next           int // position of the next page; 0 if this is the last one
}

// Entry is a line of the audit log.
type Entry struct {
	Time                                  time.Time
	Call, Args, Operator, Remote, Outcome string
}

// Vectors are rows of the newest model for some items, for the map.
type Vectors struct {
	Version uint64
	Table   string // name of the slot
	Titles  []string
	Dim     int
	Rows    []float32 // len(Titles) rows of Dim numbers
	Items   int       // of the whole catalogue
	Popular bool      // they are the most popular ones; otherwise a sample
}
