package method

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
// what dz, the gradient of the loss by the logits, makes of them. The values of
// every slot are those that Logits saw.
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

// Headed is a Method whose Logits is exactly its Head.
type Headed interface{ Head() Head }

// Ready is a Method that must rebuild Ephemeral slots before it can recommend,
// from the device's history and the newest Shared slots.
type Ready interface {
	Method
	Ready(w *Work)
}

// Updater is a Method with a server step of its own. Without it, the mean of
// the changes goes through the run's server rule.
type Updater interface {
	Method
	Update(g *Global)
}

// Phased is a Method that does different things in different rounds.
type Phased interface {
	Method
	// Phase returns the phase of a round, from 0, and its name. Visit and Update
	// see it as Work.Phase and Global.Phase.
	Phase(round, rounds int) (int, string)
}

// Checker is a Method whose parameters must fit together.
type Checker interface{ Check() error }

// Global is the coordinator's side of one round.
type Global struct {
	Round, Phase int
	Items        int
	Devices      int // that took part
	Users        int // in the federation, or the best known bound
	// Value and Got are by slot: the current value of Shared and Server slots,
	// and the sum of what devices sent of it. Rows are padded to Stride.
	Value, Got [][]float32
	Stride     []int
}

// Oracle is loss and gradient of one batch at the current point: it adds to the
// gradients and returns the sum of the losses of the batch's samples (or 0 where
// Work.WantLoss is false and the loss is not free).
type Oracle struct {
	Grad func(w *Work, b *Batch) float64
	// Plain is set when the oracle is a pointwise loss on a Head and nothing
	// else: a Step may then fuse it.
	Plain *Plain
	Parts []Stateful
}

// Plain is a pointwise loss on a Head.
type Plain struct {
	Head
	// Grad replaces logits by the gradient of the loss, times scale.
	Grad func(y []float32, scale float32, dst []float32)
	Loss func(z, y []float32) float64
}

// Step moves the point by one batch and returns the loss as Oracle does.
type Step struct {
	Do func(w *Work, b *Batch) float64
	// Direct means: rows of PerItem slots are read through Batch.Rd before any is
	// written, and only through Batch.Wr, with Work.Moved told of it.
	Direct bool
	Moves  bool // writes PerItem rows
	Parts  []Stateful
}

// Visit is what one device does in one round.
type Visit struct {
	Run func(w *Work)
	// Direct means that Run makes one pass of Direct steps over the samples: a row
	// touched once is then never copied.
	Direct bool
	// History means that Run works on the device's history alone: no negatives
	// are drawn, and the batch is the history.
	History bool
	Parts   []Stateful
}

// Stateful is a part that needs slots of its own, such as Adam's moments. They
// are appended to the method's slots, and Bind tells the part where.
type Stateful interface {
	State(slots []Slot) []Slot
	Bind(first int)
}

// Entry is a line of the registry.
type Entry struct {
	Name    string
	Title   string
	Paper   string
	Caution string // what a user must know before believing a number
	New     func() Method
	Presets []Preset
}

// Preset is a method's settings on a data set, with what was published for it.
type Preset struct {
	Data      string
	Settings  map[string]string // run options and method parameters, by key
	Published *Published
}

// Published is a number from a paper, as a fraction.
type Published struct {
	HR10   float64 `json:"hr@10"`
	NDCG10 float64 `json:"ndcg@10"`
	Source string  `json:"source"`
}
