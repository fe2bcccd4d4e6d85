package method

import (
	"errors"

	"github.com/tacit-rec/tacit/param"
)

// Method is what a published method implements. Its parameters are the exported
// fields of one struct, with tags `default` and `doc`; package param reads them.
// A Method is built once per run and used by many devices at a time: it keeps no
// state of its own.
type Method interface {
	// Slots declares the parameters for a catalogue of the given size.
	Slots(items int) []Slot
	// Visit says what one device does in one round, on that catalogue.
	Visit(items int) Visit
	// Logits scores the samples of a batch into out[:b.N].
	Logits(w *Work, b *Batch, out []float32)
}

// Learner is a Method whose gradient is known. Back adds to the gradients of w
// what dz, the gradient of the loss by the logits, makes of them. It follows
// Logits of the same batch, with the values of every slot as Logits saw them.
// Slots that w.Skips may be left out.
type Learner interface {
	Method
	Back(w *Work, b *Batch, dz []float32)
}

// Head is the shape most of this field has: logit = row . vector + bias. The
// runtime knows it, and serves it with fused kernels. The fields are slots.
type Head struct {
	Item   int // a PerItem slot
	Vector int // a plain slot of one row, as wide as an item's
	Bias   int // a plain slot of one number, or NoBias
}

// NoBias stands for a Head without a bias.
const NoBias = -1

// Headed is a Method whose Logits is exactly its Head, unless that is nil.
type Headed interface{ Head() *Head }

// Wrapper is a plug-in: a Method around another one. What it does not implement
// itself is the inner one's: see As.
type Wrapper interface{ Unwrap() Method }

// Rewrapper is a Wrapper that can be put around another inner method: around the
// bound form of a Featured one.
type Rewrapper interface {
	Wrapper
	Rewrap(inner Method) Method
}

// As finds the outermost layer of a method that implements T.
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

// Ready is a Method that must rebuild Ephemeral slots, or tune Shared ones, before
// it can recommend, with the newest Shared slots. Ready says how: on the device's
// history alone, or on the samples of the round. It has no parts. What it leaves is
// recommended with, and kept and sent nowhere.
type Ready interface {
	Method
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

// Updater is a Method with a server step of its own. Without it, the mean of
// the changes goes through the run's server rule.
type Updater interface {
	Method
	Update(g *Global)
}

// PostUpdater is a Method that changes the values once more after the server's step.
type PostUpdater interface {
	Method
	PostUpdate(g *Global)
}

// Phased is a Method that does different things in different rounds.
type Phased interface {
	Method
	// Phase returns the phase of a round, from 0, and its name. Visit and Update
	// see it as Work.Phase and Global.Phase.
	Phase(round, rounds int) (int, string)
}

// PhasedSlots is a Phased Method of which not every Shared slot travels in every phase.
// One that does not is neither downloaded nor sent: a device must leave it alone.
type PhasedSlots interface {
	Phased
	Transfers(phase, slot int) bool
}

// BudgetWeighter is a Phased Method that says how a privacy budget is shared among its
// rounds. Where noise is Gaussian and everybody is in every round, the budget is what
// the rounds' 1/z² add up to, z being a round's noise over its sensitivity: a round has
// its ration's share of that. Rounds of another method have equal shares.
type BudgetWeighter interface {
	Phased
	// BudgetWeight is above 0; only the ratio of two rounds' counts.
	BudgetWeight(round, rounds int) float64
}

// FinalRound is a Method whose last round completes what the others prepare: it is
// the one that is reported.
type FinalRound interface{ ReportsFinalRound() bool }

// Central is a Method that is trained where all rows are: a baseline, and no
// federation. All its slots are Server slots.
type Central interface {
	Method
	// Pass trains on everybody's samples once.
	Pass(p *Pool)
}

// Checker is a Method whose parameters must fit together. Limits of a single
// parameter are tags: see package param.
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

// Global is the coordinator's side of one round.
type Global struct {
	Round, Phase int
	Items        int
	Devices      int // that took part
	Users        int // in the federation, or the best known bound
	// Noise is the deviation of the noise on each number of Got that a privacy promise
	// asks for; 0 without one. It tells nothing of anybody.
	Noise float64
	// Value and Got are by slot: the current value of Shared and Server slots,
	// and the sum of what devices sent of it. Rows are padded to Stride.
	Value, Aggregate [][]float32
	Stride           []int
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
	// HeadLoss is set when the oracle is a pointwise loss on a Head and nothing
	// else: a Step may then fuse it.
	HeadLoss    *HeadLoss
	UsesRatings bool // it reads Batch.Rating
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

// HeadLoss is a loss of logits alone, on a Head.
type HeadLoss struct {
	Head
	Loss
}

// Loss is a loss that depends on the logits of a batch and on nothing else.
type Loss struct {
	// Grad replaces the logits of a batch by the gradient of its summed loss, times
	// scale.
	Grad func(s *Scratch, b *Batch, scale float32, z []float32)
	// Sum is the sum of the losses of the batch's samples.
	Sum         func(b *Batch, z []float32) float64
	UsesRatings bool // it reads Batch.Rating
}

// Step moves the point by one batch and returns the loss as Oracle does.
type Step struct {
	Do func(w *Work, b *Batch) float64
	// InPlace means: rows of PerItem slots are read through Batch.Rd before any is
	// written, and only through Batch.Wr, with Work.Moved told of it.
	InPlace     bool
	MovesRows   bool // writes PerItem rows
	UsesRatings bool // reads Batch.Rating
	Parts       []Stateful
	Oracles     []Oracle // whose gradients it follows
}

// Visit is what one device does in one round.
type Visit struct {
	Run func(w *Work)
	// InPlace means that Run makes one pass of Direct steps over the samples: a row
	// touched once is then never copied.
	InPlace bool
	// HistoryOnly means that Run works on the device's history alone: no negatives
	// are drawn. The samples are its items, each once, and a label is how often the
	// item occurs.
	HistoryOnly bool
	UsesRatings bool // Run reads Batch.Rating
	Parts       []Stateful
	Oracles     []Oracle // whose gradients its steps follow
}

// Stateful is a part that needs slots of its own, such as Adam's moments. They
// are appended to the method's slots, and Bind tells the part where.
type Stateful interface {
	State(slots []Slot) []Slot
	Bind(first int)
}

// Published is a number from a paper, as a fraction.
type Published struct {
	HR10   float64 `json:"hr@10"`
	NDCG10 float64 `json:"ndcg@10"`
	HR20   float64 `json:"hr@20,omitempty"`
	Source string  `json:"source"`
	// Protocol is the one under which a number of ours may stand beside it.
	Protocol string `json:"protocol"`
}
