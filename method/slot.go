package method

// Scope says where a parameter lives. An update is built from Shared slots only, so a
// method cannot leak other parameters by mistake.
type Scope uint8

const (
	Shared    Scope = iota // downloaded, changed on the device, sent back
	Private                // stays on the device and persists
	Ephemeral              // rebuilt on the device in each round, not kept
	Server                 // never on a device
)

func (s Scope) String() string { return [...]string{"shared", "private", "ephemeral", "server"}[s] }

// Upload says what a device sends of a Shared slot.
type Upload uint8

const (
	Delta     Upload = iota // the change of what was downloaded
	Sum                     // a statistic that starts at zero on the device; it is not downloaded
	Broadcast               // nothing: the slot is only downloaded; training must not write to it
	Gradient                // gradients at the downloaded values, for the method's Update
)

func (u Upload) String() string { return [...]string{"change", "sum", "nothing", "gradient"}[u] }

// Serving says which copy of a Shared slot a device recommends with.
type Serving uint8

const (
	ServeGlobal Serving = iota // the coordinator's newest
	ServeLocal                 // the device's copy after its last local training
	ServeOther                 // the copy of another device, for an experiment
)

// MaxSlots limits the slots of a method, with those of its parts.
const MaxSlots = 64

// Slot is one parameter of a method.
type Slot struct {
	Name    string
	Scope   Scope
	Upload  Upload  // of a Shared slot
	Serve   Serving // of a Shared slot that uploads its Delta
	PerItem bool    // one row per item of the catalogue; Rows is ignored
	// Sparse is for a plain Sum of one row: local training lists the few numbers that it
	// adds, with View.Add. There is no View.Val.
	Sparse  bool
	PerUser bool // one row per user; Rows is ignored. For Central methods only
	Rows    int
	Dim     int
	Init    Init
	// Range is the largest magnitude of a number that one device sends, or 0 if it is
	// unknown. It sets the scale of narrow integer sums: numbers beyond it are clipped.
	Range float64
	// Limit is the largest plausible magnitude of a value of a Shared or Server slot, or 0 for a
	// generic limit. A round that would exceed it is discarded.
	Limit float64
	// Levels is the precision that the sum of a slot with a Range needs: a device sends its numbers
	// as integers up to at least Levels in magnitude, rounded up or down at random so that they are
	// right on average. A masked number then takes only as many bits as Levels times the devices
	// of its sum. Federations of fewer than 1,024 devices have more levels in proportion. 0 means as
	// precise as the run's bits allow.
	Levels        int
	HighPrecision bool   // use two integers per number in narrow sums, for matrices that are inverted
	Doc           string // for the method's page
}

// Copied reports whether local training works on a copy of the rows that it touches.
func (s *Slot) Copied() bool {
	return s.Scope != Server && (s.Upload == Delta || s.Upload == Gradient)
}

// Init says how a slot is initialised. All devices start from the same draw.
type Init struct {
	Kind InitKind
	A    float64
}

// InitKind is a distribution of initial values.
type InitKind uint8

const (
	Zeros    InitKind = iota
	Constant          // A
	Normal            // mean 0, standard deviation A
	Uniform           // in [-A, A)
)
