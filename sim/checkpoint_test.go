package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
)

// few is a data set of 6 users and 20 items, for files of a few kilobytes.
func few(t testing.TB, protocol string) *data.Split {
	t.Helper()
	return split(t, world(t, "users=6,items=20,mean-rows=5").Generate(), protocol)
}

// runs are small runs whose checkpoints hold every kind of state: private vectors,
// private tables, a server rule's moments.
func runs(t testing.TB) map[string]func() *Run {
	o := defaults()
	o.Rounds, o.Batch = 4, 8
	return map[string]func() *Run{
		"vectors and Adam": func() *Run {
			o := o
			o.Server = aggregate.Rule{Kind: "adam", Rate: 0.1}
			return start(t, pfedrec(t, "dim", "2"), few(t, "deployed"), o, 1)
		},
		"private tables": func() *Run {
			m := &methods.Local{}
			configure(t, m, "dim", "2", "decay", "0.0001")
			return start(t, m, few(t, "paper"), o, 1)
		},
	}
}

func save(t testing.TB, r *Run, fingerprint string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Save(&b, fingerprint); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// halfway is a checkpoint after two of four rounds.
func halfway(t testing.TB, fresh func() *Run) []byte {
	t.Helper()
	r := fresh()
	step(t, r)
	step(t, r)
	return save(t, r, "x")
}

func TestRunResumesFromItsCheckpoint(t *testing.T) {
	for name, fresh := range runs(t) {
		whole := fresh()
		want := told(finish(t, whole))
		half := fresh()
		step(t, half)
		step(t, half)
		file := save(t, half, "x")
		again := fresh()
		if err := again.Load(bytes.NewReader(file), "x"); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(save(t, again, "x"), file) {
			t.Errorf("%s: what was loaded is saved as something else", name)
		}
		got := told(finish(t, again))
		if again.Digest() != whole.Digest() || again.Selected != whole.Selected || again.Samples != whole.Samples ||
			len(again.RoundMS) != 4 {
			t.Errorf("%s: the resumed run ends elsewhere: round %d selected, want %d", name, again.Selected,
				whole.Selected)
		}
		a, _ := json.Marshal(got)
		if b, _ := json.Marshal(want[2:]); !bytes.Equal(a, b) {
			t.Errorf("%s: rounds 3 and 4 are told as\n%s\nwant\n%s", name, a, b)
		}
	}
}

// Drop-outs, a cohort and strangers: whatever a device keeps from round to round
// must be in the file.
func TestEveryKindOfRunResumesWithTheSameBits(t *testing.T) {
	for name, c := range map[string]struct {
		m method.Method
		o func(o *Options)
	}{
		"a cohort, seldom measured": {pfedrec(t, "dim", "3"), func(o *Options) {
			o.Cohort, o.EvalEvery = round.Cohort{Kind: "count", Count: 7}, 3
		}},
		"strangers with drop-outs": {pfedrec(t, "dim", "3", "infer", "random"), func(o *Options) { o.Dropout = 0.4 }},
		"drop-outs and means by row": {pfedrec(t, "dim", "3", "decay", "0.00001"), func(o *Options) {
			o.Dropout, o.Straggle, o.Mean = 0.3, 0.3, "row"
		}},
		"rounded private tables": {fedrap(t, "dim", "6"), func(o *Options) { o.Dropout, o.Keep = 0.3, "int16" }},
	} {
		o := defaults()
		o.Rounds = 6
		c.o(&o)
		whole := start(t, c.m, small(t, "deployed"), o, 2)
		finish(t, whole)
		for at := 1; at < 6; at++ {
			half := start(t, c.m, small(t, "deployed"), o, 2)
			for range at {
				step(t, half)
			}
			again := start(t, c.m, small(t, "deployed"), o, 1)
			if err := again.Load(bytes.NewReader(save(t, half, "")), ""); err != nil {
				t.Fatal(err)
			}
			finish(t, again)
			if again.Digest() != whole.Digest() {
				t.Errorf("%s: a run resumed after round %d ends with other bits", name, at)
			}
		}
	}
}

func TestADamagedByteIsRefusedWhereverItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector, which runs with -short, has nothing to find here")
	}
	for name, fresh := range runs(t) {
		file := halfway(t, fresh)
		for at := range file {
			for _, flip := range []byte{1, 0x80} {
				if at%5 != 0 && flip == 1 { // one of the two at most places: time
					continue
				}
				file[at] ^= flip
				if err := fresh().Load(bytes.NewReader(file), "x"); err == nil {
					t.Errorf("%s: bit %#x of byte %d of %d flipped: the checkpoint is accepted", name, flip, at,
						len(file))
				} else if !strings.Contains(err.Error(), "checkpoint") {
					t.Errorf("%s: byte %d: the error %q does not say whose it is", name, at, err)
				}
				file[at] ^= flip
			}
		}
		if err := fresh().Load(bytes.NewReader(file), "x"); err != nil {
			t.Errorf("%s: undamaged: %v", name, err)
		}
	}
}

func TestATruncatedCheckpointIsRefused(t *testing.T) {
	for name, fresh := range runs(t) {
		file := halfway(t, fresh)
		for n := 0; n < len(file); n += 1 + n/50 {
			if err := fresh().Load(bytes.NewReader(file[:n]), "x"); err == nil {
				t.Errorf("%s: the first %d of %d bytes are accepted", name, n, len(file))
			}
		}
		if err := fresh().Load(bytes.NewReader(file[:len(file)-1]), "x"); err == nil {
			t.Errorf("%s: all but the last byte are accepted", name)
		}
	}
}

func TestACheckpointOfOtherSettingsIsNamedSo(t *testing.T) {
	fresh := runs(t)["vectors and Adam"]
	if err := fresh().Load(bytes.NewReader(halfway(t, fresh)), "y"); !errors.Is(err, ErrOtherRun) {
		t.Errorf("got %v, want ErrOtherRun", err)
	}
	// The same name for a run of another shape: the sizes do not fit.
	if err := runs(t)["private tables"]().Load(bytes.NewReader(halfway(t, fresh)), "x"); err == nil {
		t.Error("the checkpoint of another method is accepted")
	}
}

// full is a disk with room for n bytes.
type full struct{ n int }

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestAFullDiskIsAnError(t *testing.T) {
	r := runs(t)["vectors and Adam"]()
	step(t, r)
	size := len(save(t, r, "x"))
	for _, n := range []int{0, 10, size / 2, size - 1} {
		if err := r.Save(&full{n}, "x"); !errors.Is(err, errFull) {
			t.Errorf("a disk with room for %d of %d bytes: got %v, want its error", n, size, err)
		}
	}
	if err := r.Save(io.Discard, "x"); err != nil {
		t.Error(err)
	}
}

func FuzzCheckpoint(f *testing.F) {
	fresh := runs(f)["private tables"]
	file := halfway(f, fresh)
	f.Add(file)
	f.Add(file[:100])
	f.Add([]byte(checkpointMagic + "\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := runs(t)["private tables"]()
		if r.Load(bytes.NewReader(b), "x") == nil && !bytes.HasPrefix(b, save(t, r, "x")) {
			t.Error("a checkpoint is accepted that is not what a run would write")
		}
	})
}
