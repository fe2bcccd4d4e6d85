package secagg

import (
	"bytes"
	"encoding"
	"reflect"
	"testing"
)

type wired interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// blanks has one of each message.
func blanks() []wired {
	return []wired{&Advert{}, &Roster{}, &ShareBundle{}, &Upload{}, &Lists{}, &Reveal{}}
}

// samples plays a small round and returns the messages of device 0, in the order
// in which they are sent.
func samples(t testing.TB) []wired {
	p, err := Plan(3, 4, 100, Risk{Active: true})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, Round{Params: p})
	out := []wired{s.clients[0].Advert(), s.roster(0)}
	probe := must(t, func() (*Client, error) { return NewClient(s.round, 0, newStream([keySize]byte{0, 0, 5})) })
	out = append(out, must(t, func() (*ShareBundle, error) { return probe.ShareKeys(s.roster(0)) }))
	s.deal()
	out = append(out, s.inbox(0), must(t, func() (*Upload, error) {
		return probe.Upload(s.inbox(0),
			make([]int32, 4))
	}))
	s.upload()
	out = append(out, s.lists())
	for i, c := range s.clients {
		m := must(t, func() (*ShareBundle, error) { return c.Confirm(s.lists()) })
		s.must(s.server.Confirm(m))
		if i == 0 {
			out = append(out, m)
		}
	}
	s.must(s.server.Next())
	echo := must(t, func() (*ShareBundle, error) { return s.server.Echo(0) })
	return append(out, echo, must(t, func() (*Reveal, error) { return s.clients[0].Reveal(s.lists(), echo) }))
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	for _, m := range samples(t) {
		b, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		back := reflect.New(reflect.TypeOf(m).Elem()).Interface().(wired)
		if err := back.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%T comes back as %+v, %v, want %+v", m, back, err, m)
		}
		for cut := range len(b) {
			if err := back.UnmarshalBinary(b[:cut]); err == nil {
				t.Errorf("%T is read from %d of its %d bytes", m, cut, len(b))
			}
		}
		if err := back.UnmarshalBinary(append(b, 0)); err == nil {
			t.Errorf("%T is read with a byte after its end", m)
		}
		if !reflect.DeepEqual(back, m) {
			t.Errorf("%T was changed by what it refused", m)
		}
	}
}

// A message that names millions of things in a few bytes must not get memory.
func TestCountsAreCheckedBeforeMemoryIsTaken(t *testing.T) {
	head := append([]byte{'S', 'A', version, kindRoster}, make([]byte, keySize+4)...)
	b := append(head, 0, 0, 0, 0, 255, 255, 255, 255)
	if n := testing.AllocsPerRun(10, func() { _ = new(Roster).UnmarshalBinary(b) }); n > 3 {
		t.Errorf("a roster of 4 billion peers in %d bytes makes %.0f allocations", len(b), n)
	}
}

func FuzzMessages(f *testing.F) {
	for _, m := range samples(f) {
		b, err := m.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		read := 0
		for _, m := range blanks() {
			if m.UnmarshalBinary(b) != nil {
				continue
			}
			read++
			if back, err := m.MarshalBinary(); err != nil || !bytes.Equal(back, b) {
				t.Errorf("%T has two forms: %x is written as %x, %v", m, b, back, err)
			}
		}
		if read > 1 {
			t.Errorf("%x is read as %d kinds of message", b, read)
		}
	})
}

// FuzzSteps gives a message to a server and a device that wait at some step: they
// take or refuse it, and go on.
func FuzzSteps(f *testing.F) {
	for i, m := range samples(f) {
		b, err := m.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	p, err := Plan(3, 4, 100, Risk{Active: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, at uint8, b []byte) {
		s := newStage(t, Round{Params: p})
		if at%4 > 0 {
			s.deal()
		}
		if at%4 > 1 {
			s.upload()
		}
		if at%4 > 2 {
			s.must(s.server.Next())
		}
		for _, m := range blanks() {
			if m.UnmarshalBinary(b) == nil {
				offer(s.server, s.clients[0], m)
			}
		}
	})
}

// offer gives a message to whoever may be meant; errors are as good as none.
func offer(s *Server, c *Client, m wired) {
	switch m := m.(type) {
	case *Advert:
		_ = s.Advert(m)
	case *Roster:
		_, _ = c.ShareKeys(m)
	case *ShareBundle:
		_ = s.ShareKeys(m)
		_ = s.Confirm(m)
		_, _ = c.Upload(m, make([]int32, 4))
		if lists, err := s.Lists(); err == nil {
			_, _ = c.Reveal(lists, m)
		}
	case *Upload:
		_ = s.Upload(m)
	case *Lists:
		_, _ = c.Confirm(m)
		_, _ = c.Reveal(m, nil)
	case *Reveal:
		_ = s.Reveal(m)
		_, _ = s.Sum(1)
	}
}

func TestPackedNumbersComeBackModuloTheirBits(t *testing.T) {
	if testing.Short() {
		t.Skip("much arithmetic: run without -short")
	}
	for bits := 1; bits <= 32; bits++ {
		for _, n := range []int{1, 2, 3, 7, 8, 31, 100} {
			src, dst := make([]uint32, n), make([]uint32, n)
			var m masker
			m.add([keySize]byte{byte(bits)}, false, src)
			b := make([]byte, packedSize(n, bits))
			pack(src, bits, b)
			if !addPacked(b, bits, dst) {
				t.Fatalf("%d numbers of %d bits are refused", n, bits)
			}
			for i := range src {
				if want := uint32(uint64(src[i]) & (1<<bits - 1)); dst[i] != want {
					t.Fatalf("number %d of %d with %d bits is %d, want %d", i, n, bits, dst[i], want)
				}
			}
			if spare := 8*len(b) - n*bits; spare > 0 {
				b[len(b)-1] |= 0x80
				if addPacked(b, bits, dst) {
					t.Errorf("%d numbers of %d bits: a spare bit is set and taken", n, bits)
				}
			}
			if addPacked(append(b, 0), bits, dst) {
				t.Errorf("%d numbers of %d bits and a byte too many are taken", n, bits)
			}
		}
	}
}
