package sim

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/engine/local"
	"github.com/tacit-rec/tacit/method"
)

// A checkpoint is "TACITCP1", the length and text of a JSON header, the state in little endian,
// and the SHA-256 of all that. Sizes come from the run that reads it, not from the file, so a
// hostile file cannot allocate memory.
const checkpointMagic = "TACITCP1"

type header struct {
	Fingerprint string `json:"fingerprint"`
	Totals      Totals `json:"told"`
}

// Save writes a checkpoint of the run. fingerprint identifies the run's settings.
func (r *Run) Save(w io.Writer, fingerprint string) error {
	sum := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	if r.engine.Ledger != nil {
		r.LedgerEvents = r.engine.Ledger.Events()
	}
	head, err := json.Marshal(header{fingerprint, r.Totals})
	if err != nil {
		return err
	}
	buf.WriteString(checkpointMagic)
	binary.Write(buf, binary.LittleEndian, uint32(len(head)))
	buf.Write(head)
	s := &stream{w: buf}
	r.state(s)
	if err := errors.Join(s.err, buf.Flush()); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// ErrOtherRun says that a checkpoint belongs to a run with other settings.
var ErrOtherRun = errors.New("the checkpoint belongs to a run with other settings")

// Load reads a checkpoint into a run with the same settings. After an error the run must not
// be used.
func (r *Run) Load(src io.Reader, fingerprint string) error {
	sum := sha256.New()
	in := &hashed{bufio.NewReaderSize(src, 1<<16), sum}
	start := make([]byte, len(checkpointMagic)+4)
	if _, err := io.ReadFull(in, start); err != nil || string(start[:len(checkpointMagic)]) != checkpointMagic {
		return errors.New("checkpoint: unknown format or version")
	}
	n := binary.LittleEndian.Uint32(start[len(checkpointMagic):])
	if n > 64<<20 {
		return errors.New("checkpoint: the header is too long")
	}
	text, err := io.ReadAll(io.LimitReader(in, int64(n)))
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("checkpoint: header: %w", err)
	}
	if h.Fingerprint != fingerprint {
		return ErrOtherRun
	}
	s := &stream{r: in}
	r.state(s)
	if s.err != nil {
		return fmt.Errorf("checkpoint: %w", s.err)
	}
	want := sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in.r, got); err != nil || string(got) != string(want) {
		return errors.New("checkpoint: corrupt: the checksum does not match")
	}
	if _, err := in.r.ReadByte(); err != io.EOF {
		return errors.New("checkpoint: corrupt: data after the end")
	}
	r.Totals = h.Totals
	return r.restoreLedger()
}

type hashed struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.sum.Write(p[:n])
	return n, err
}

// Digest is a hash of the model, the devices' states and the ranks. It does not depend on
// times.
func (r *Run) Digest() string {
	sum := sha256.New()
	buf := bufio.NewWriter(sum)
	r.state(&stream{w: buf})
	buf.Flush()
	return hex.EncodeToString(sum.Sum(nil))
}

// state reads or writes everything that the next round depends on.
func (r *Run) state(s *stream) {
	e, f := r.engine, r.fleet
	s.int(&e.Next)
	s.int(&r.Selected)
	s.float(&r.BestHR)
	for i := range f.plan.Slots {
		if sc := f.plan.Slots[i].Scope; sc == method.Shared || sc == method.Server {
			s.floats(e.Value[i])
		}
		st := &e.State[i]
		s.int(&st.Steps)
		if st.Steps > 0 {
			if st.M == nil {
				st.M, st.V = make([]float32, len(e.Value[i])), make([]float32, len(e.Value[i]))
			}
			s.floats(st.M)
			s.floats(st.V)
		}
	}
	if e.Stack != nil {
		s.float(&e.Stack.Clip)
	}
	for u := range f.state {
		s.device(f.plan, &f.state[u])
	}
	for _, p := range []*Ranks{r.eval.now, r.Best} {
		for _, places := range [][]metrics.Rank{p.Valid, p.Test, p.ValidFull, p.TestFull} {
			s.places(places)
		}
		s.words(p.Top)
	}
}

// stream writes to w if it is set, and otherwise reads from r.
type stream struct {
	w     io.Writer
	r     io.Reader
	err   error
	buf   [4096]byte
	state []byte
}

// device reads or writes the private state of one device.
func (s *stream) device(p *local.Plan, st *local.State) {
	switch {
	case s.err != nil:
	case s.w != nil:
		s.state = p.AppendState(s.state[:0], st)
		_, s.err = s.w.Write(s.state)
	default:
		s.err = p.ReadState(s.r, st)
	}
}

// move writes n words of 4 bytes from get, or reads them into set.
func (s *stream) move(n int, get func(i int) uint32, set func(i int, v uint32)) {
	for lo := 0; lo < n && s.err == nil; lo += len(s.buf) / 4 {
		b := s.buf[:4*min(len(s.buf)/4, n-lo)]
		if s.w != nil {
			for i := 0; i < len(b); i += 4 {
				binary.LittleEndian.PutUint32(b[i:], get(lo+i/4))
			}
			_, s.err = s.w.Write(b)
			continue
		}
		if _, s.err = io.ReadFull(s.r, b); s.err == nil {
			for i := 0; i < len(b); i += 4 {
				set(lo+i/4, binary.LittleEndian.Uint32(b[i:]))
			}
		}
	}
}

func (s *stream) floats(xs []float32) {
	s.move(len(xs), func(i int) uint32 { return math.Float32bits(xs[i]) },
		func(i int, v uint32) { xs[i] = math.Float32frombits(v) })
}

func (s *stream) words(xs []uint32) {
	s.move(len(xs), func(i int) uint32 { return xs[i] }, func(i int, v uint32) { xs[i] = v })
}

func (s *stream) places(xs []metrics.Rank) {
	s.move(len(xs), func(i int) uint32 { return uint32(xs[i].Above) }, func(i int, v uint32) { xs[i].Above = int32(v) })
	s.move(len(xs), func(i int) uint32 { return uint32(xs[i].Ties) }, func(i int, v uint32) { xs[i].Ties = int32(v) })
}

func (s *stream) long(x *uint64) {
	s.move(2, func(i int) uint32 { return uint32(*x >> (32 * i)) }, func(i int, v uint32) {
		if i == 0 {
			*x = 0
		}
		*x |= uint64(v) << (32 * i)
	})
}

func (s *stream) int(x *int) {
	v := uint64(*x)
	s.long(&v)
	*x = int(v)
}

func (s *stream) float(x *float64) {
	v := math.Float64bits(*x)
	s.long(&v)
	*x = math.Float64frombits(v)
}
