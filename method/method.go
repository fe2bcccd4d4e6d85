package method

import (
	"errors"

	"github.com/tacit-rec/tacit/param"
)

// Method is the interface of every method. Its parameters are the exported fields of
// one struct, with tags that package param reads. A Method is built once per run and
// used by many goroutines: it keeps no state.
type Method interface {
	// Slots declares the parameters for a catalogue of the given size.
	Slots(items int) []Slot
	// Visit returns the local training of one device in one round.
	Visit(items int) Visit
	// Logits scores the samples of a batch into out[:b.N].
	Logits(w *Work, b *Batch, out []float32)
}

// Learner is a Method with a gradient.
type Learner interface {
	Method
	// Back adds to the gradients in w, for dz, the gradient of the loss with respect to
	// the logits. It follows Logits of the same batch; no slot has changed in between.
	// Back may leave out slots for which w.SkipsGrad is true.
	Back(w *Work, b *Batch, dz []float32)
}

// Head is a bilinear score: logit = row . vector + bias. The runtime computes it with
// fused kernels. The fields are slots.
type Head struct {
	Item   int // a PerItem slot
	Vector int // a plain slot of one row, with the width of an item's row
	Bias   int // a plain slot of one number, or NoBias
}

// NoBias is the Bias of a Head without one.
const NoBias = -1

// Headed is a Method whose Logits computes its Head. A nil Head means that it does not.
type Headed interface{ Head() *Head }

// Linear is a Method whose Logits, after Ready, is the sum of several Heads in their order:
// the first one's logit plus the second one's, and so on. Each reads a PerItem slot that is
// Broadcast. The runtime then scores many devices at a time, without calling Logits. A table
// of one column with the constant vector 1 is a bias of each item. Nil means that Logits is
// something else.
type Linear interface {
	Method
	Heads() []Head
}

// Wrapper is a plug-in: a Method around another one. As finds in the inner method what
// the Wrapper does not implement.
type Wrapper interface{ Unwrap() Method }

// Rewrapper is a Wrapper that can wrap another inner method: the bound form of a
// Featured one.
type Rewrapper interface {
	Wrapper
	Rewrap(inner Method) Method
}

// As returns the outermost layer of a method that implements T.
func As[T any](m Method) (t T, ok bool) {
	for {
		if t, ok = m.(T); ok {
			return t, true
		}
		w, wraps := m.(Wrapper)
		if !wraps {
			return t, false
		}
		m = w.Unwrap()
	}
}

// Ready is a Method that computes something before it can recommend: it rebuilds
// Ephemeral slots, or tunes a copy of the newest Shared ones.
type Ready interface {
	Method
	// Ready returns that computation, on the device's history or on drawn samples. It
	// must not have Stateful parts. The result is used for scoring and then discarded.
	Ready(items int) Visit
}

// Featured is a Method that reads features of users, items or interactions.
type Featured interface {
	Method
	// Bind returns the method for the given columns, or an error that names the
	// missing ones. It leaves the receiver as it is: a runtime calls Bind once, before
	// Slots, and uses what it returned. While a device works, the columns are in
	// Work.Features; the device's row in those of users is Work.Device, and the row of
	// a sample's interaction is in Batch.Row.
	Bind(f *Features) (Method, error)
}

// Bind returns m for the given columns. It returns m itself if m is not Featured. The
// layers around a Featured method must be Rewrappers.
func Bind(m Method, f *Features) (Method, error) {
	if b, ok := m.(Featured); ok {
		return b.Bind(f)
	}
	w, wraps := m.(Wrapper)
	if !wraps {
		return m, nil
	}
	if _, reads := As[Featured](w.Unwrap()); !reads {
		return m, nil
	}
	r, ok := m.(Rewrapper)
	if !ok {
		return nil, errors.New("this plug-in does not support methods that read features")
	}
	inner, err := Bind(w.Unwrap(), f)
	if err != nil {
		return nil, err
	}
	return r.Rewrap(inner), nil
}

// Updater is a Method with its own server step. For other methods the run's server rule
// applies the mean of the deltas.
type Updater interface {
	Method
	// Update applies the aggregate of a round to the values.
	Update(g *Global)
}

// PostUpdater is a Method that changes the values after the server step.
type PostUpdater interface {
	Method
	PostUpdate(g *Global)
}

// PopularityRanker is a Method whose values tell which items many devices have. Devices without a history
// get the most popular items.
type PopularityRanker interface {
	Method
	// Popular lists items, the most popular first, or nil if it is not known yet. It reads only
	// Global.Value, so that a privacy guarantee covers it, and leaves out items that fewer than
	// MinPopular devices have.
	Popular(g *Global) []uint32
}

// MinPopular is the number of devices that must have an item before its popularity is published: a
// smaller number could identify a device.
const MinPopular = 3

// Phased is a Method that does different things in different rounds.
type Phased interface {
	Method
	// Phase returns the number of a round's phase, from 0, and its name. Rounds count
	// from 0. Work.Phase and Global.Phase hold the number.
	Phase(round, rounds int) (int, string)
}

// PhasedSlots is a Phased Method that does not transfer every Shared slot in every
// phase.
type PhasedSlots interface {
	Phased
	// Transfers reports whether a slot is downloaded and uploaded in a phase. Local
	// training must not use other Shared slots.
	Transfers(phase, slot int) bool
}

// BudgetWeighter is a Phased Method that divides a privacy budget among its rounds. With
// Gaussian noise and full participation, the budget is the sum of 1/z² over the rounds,
// where z is a round's noise multiplier; a round gets a share of that sum in proportion
// to its weight. Rounds of other methods have equal weights.
type BudgetWeighter interface {
	Phased
	// BudgetWeight returns the weight of a round, which must be above 0.
	BudgetWeight(round, rounds int) float64
}

// FinalRound is a Method whose last round completes the model. Results are those of the
// last round, not of the round that validation selects.
type FinalRound interface{ ReportsFinalRound() bool }

// Central is a Method that is trained centrally, on pooled data: a baseline. All its
// slots are Server slots.
type Central interface {
	Method
	// Pass trains once on the samples of all users.
	Pass(p *Pool)
}

// Checker is a Method that restricts combinations of its parameters. The limits of a
// single parameter are tags: see package param.
type Checker interface{ Check() error }

// Check reports the first parameter outside its limits, and then what the Check
// method of any layer reports.
func Check(m Method) error {
	if err := param.Check(m); err != nil {
		return err
	}
	for {
		if c, ok := m.(Checker); ok {
			if err := c.Check(); err != nil {
				return err
			}
		}
		w, wraps := m.(Wrapper)
		if !wraps {
			return nil
		}
		m = w.Unwrap()
	}
}

// Global is the coordinator's side of one round. Slices are indexed by slot; rows are
// padded to Stride.
type Global struct {
	Round, Rounds int // Round counts from 0
	Phase         int
	Items         int
	Devices       int         // participants of the round
	Users         int         // devices of the federation, or the best known bound
	Noise         float64     // standard deviation of the privacy noise on each number of Aggregate; 0 without
	Value         [][]float32 // current values of Shared and Server slots
	Aggregate     [][]float32 // sums of the updates
	Stride        []int
}

// Oracle computes loss and gradient of one batch at the current point.
type Oracle struct {
	// Grad adds the gradient of the mean loss over the batch, and returns the sum of its
	// samples' losses. If Work.WantLoss is false, it may return 0 instead.
	Grad func(w *Work, b *Batch) float64
	// Terms are the parts that the loss is the sum of: the loss of the data, and
	// regularisers. The conformance suite checks the gradient of each by finite
	// differences.
	Terms []Term
	// Elsewhere means that Grad is the gradient of the terms at another point, as that
	// of sharpness-aware minimisation is.
	Elsewhere bool
	// HeadLoss is set if the oracle is a loss of the logits of a Head and has no other
	// terms. A Step may then fuse it.
	HeadLoss    *HeadLoss
	UsesRatings bool // Grad reads Batch.Rating
	Parts       []Stateful
}

// Term is one part of a loss.
type Term struct {
	Name string
	// Grad adds the term's gradient and returns its value, as that of an Oracle does.
	Grad func(w *Work, b *Batch) float64
	// Weight is the term's coefficient; nil means 1. A term with another weight than 0
	// must change something.
	Weight func(w *Work) float32
	// Slots are those that the term has a gradient for; nil means all. It takes the
	// values of others for constants.
	Slots []int
	// Scale is what the gradient is multiplied by, beside that of the value that Grad
	// returns; nil means 1. It weighs devices against each other.
	Scale func(w *Work) float32
}

// HeadLoss is a loss of the logits of a Head.
type HeadLoss struct {
	Head
	Loss
}

// Loss is a loss of the logits of a batch.
type Loss struct {
	// Grad replaces the logits by scale times the gradient of the summed loss.
	Grad func(s *Scratch, b *Batch, scale float32, z []float32)
	// Sum returns the sum of the losses of the batch's samples.
	Sum         func(b *Batch, z []float32) float64
	UsesRatings bool // it reads Batch.Rating
}

// Step moves the point by one batch.
type Step struct {
	// Do takes the step and returns the loss as Oracle.Grad does.
	Do func(w *Work, b *Batch) float64
	// InPlace means that Do reads rows of PerItem slots through Batch.Rd before it writes
	// any, writes them through Batch.Wr only, and calls Work.RecordMove.
	InPlace     bool
	MovesRows   bool // Do writes rows of PerItem slots
	UsesRatings bool // Do reads Batch.Rating
	Parts       []Stateful
	Oracles     []Oracle // whose gradients it follows
}

// Visit is the local training of one device in one round.
type Visit struct {
	Run func(w *Work)
	// InPlace means that Run makes one pass of InPlace steps over the samples. The runtime
	// then does not copy rows that are touched once.
	InPlace bool
	// HistoryOnly means that no negatives are drawn: the samples are the items of the
	// device's history, each once, and a label is how often the item occurs.
	HistoryOnly bool
	UsesRatings bool // Run reads Batch.Rating
	Parts       []Stateful
	Oracles     []Oracle // whose gradients its steps follow
}

// Stateful is a part with slots, such as Adam's moments. It belongs to one Visit.
type Stateful interface {
	// State returns the part's slots, given those of the method.
	State(slots []Slot) []Slot
	// Bind sets the index of the first of them. It is called once, before the first Run.
	Bind(first int)
}

// Published is a result from a paper, as a fraction.
type Published struct {
	HR10     float64 `json:"hr@10"`
	NDCG10   float64 `json:"ndcg@10"`
	HR20     float64 `json:"hr@20,omitempty"`
	Source   string  `json:"source"`
	Protocol string  `json:"protocol"` // the protocol under which our results are comparable
	// Model is the published model, if it is not the method that Published was asked about. The metrics are then
	// those of full ranking.
	Model string `json:"model,omitempty"`
}
