package method

// Scope says where a parameter lives. It is a property of the parameter, so a
// method cannot leak by mistake: an update is built from Shared slots only.
type Scope uint8

const (
	Shared    Scope = iota // downloaded, changed on the device, sent back
	Private                // stays on the device and persists
	Ephemeral              // rebuilt on the device in each visit, kept nowhere
	Server                 // never on a device
)

func (s Scope) String() string { return [...]string{"shared", "private", "ephemeral", "server"}[s] }

// Upload says what a device sends back of a Shared slot.
type Upload uint8

const (
	Delta     Upload = iota // the change against what was downloaded
	Sum                     // a statistic that starts at zero on the device; it is not downloaded
	Broadcast               // nothing: the coordinator broadcasts it
	Gradient                // gradients at what was downloaded; the coordinator's step is the method's Update
)

func (u Upload) String() string { return [...]string{"change", "sum", "nothing", "gradient"}[u] }

// Serving says which copy of a Shared slot a device recommends with.
type Serving uint8

const (
	ServeGlobal Serving = iota // the coordinator's newest
	ServeLocal                 // the device's own copy as its last visit left it
	ServeOther                 // another device's tuned copy: an experiment, not a product
)

// MaxSlots bounds the slots of a method, its parts' included.
const MaxSlots = 64

// Slot is one parameter of a method.
type Slot struct {
	Name    string
	Scope   Scope
	Upload  Upload  // for Shared
	Serve   Serving // for Shared with Up == Delta
	PerItem bool    // one row for each item of the catalogue; Rows is ignored
	// of a plain Sum of one row: a visit lists the few numbers that it adds, with View.Put, and there is no Val
	Sparse  bool
	PerUser bool // one row for each user; Rows is ignored. Only a Central method has such
	Rows    int
	Dim     int
	Init    Init
	// Range is the largest magnitude of a number that one device sends of it, as far as the
	// method knows; 0 where it does not. In narrow sums it is the end of the scale: what is
	// beyond it is cut.
	Range         float64
	HighPrecision bool   // in narrow sums a number of it is two digits: small matrices that are solved
	Doc           string // what it is, for the doc page
}

// Copied reports whether a visit works on its own copy of the rows it touches.
func (s *Slot) Copied() bool {
	return s.Scope != Server && (s.Upload == Delta || s.Upload == Gradient)
}

// Init says how a slot starts. All devices start from the same draw.
type Init struct {
	Kind InitKind
	A    float64
}

// InitKind is a family of starting values.
type InitKind uint8

const (
	Zeros    InitKind = iota
	Constant          // A
	Normal            // mean 0, standard deviation A
	Uniform           // in [-A, A)
)
