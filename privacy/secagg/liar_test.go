package secagg

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"testing"
)

// named are the devices that a server's errors and violations name.
func named(s *Server, errs ...error) (ids []uint32) {
	for _, err := range errs {
		var v *Violation
		if errors.As(err, &v) {
			ids = append(ids, v.Device)
		}
	}
	for _, v := range s.Violations() {
		if !slices.Contains(ids, v.Device) {
			ids = append(ids, v.Device)
		}
	}
	slices.Sort(ids)
	return ids
}

// finish finishes a round after its uploads: reveal may change what a device reveals.
func (s *stage) finish(reveal func(id uint32, m *Reveal)) ([]int32, []uint32, error) {
	s.t.Helper()
	var errs []error
	for id, c := range s.clients {
		if !s.server.arrived.Has(uint32(id)) {
			continue
		}
		m, err := c.Reveal(s.lists(), nil)
		s.must(err)
		if reveal != nil {
			reveal(uint32(id), m)
		}
		errs = append(errs, s.server.Reveal(m))
	}
	sum, err := s.server.Sum(2)
	return sum, named(s.server, append(errs, err)...), err
}

// Any set of devices reveals wrong shares, one of them or all: exactly these devices are named, and the
// round has its sum if a threshold of devices is left.
func TestWrongSharesNameTheirSenders(t *testing.T) {
	r := testRound(t, 7, 5, 0) // threshold 4
	for liars := range 1 << r.Devices {
		s := newStage(t, r).deal().upload(6)
		got, names, err := s.finish(func(id uint32, m *Reveal) {
			if liars>>id&1 == 0 {
				return
			}
			for i := range m.Shares {
				if liars%3 == 0 || i == liars%len(m.Shares) { // all shares, or a single one
					m.Shares[i].Data[int(id)%keySize] ^= 1
				}
			}
		})
		present := liars & (1<<6 - 1)
		var want []uint32
		for id := range uint32(6) {
			if present>>id&1 != 0 {
				want = append(want, id)
			}
		}
		if !slices.Equal(names, want) {
			t.Fatalf("liars %v: devices %v are named (%v)", want, names, err)
		}
		if 6-bits.OnesCount(uint(present)) < r.Threshold {
			if !errors.Is(err, ErrTooFew) {
				t.Fatalf("liars %v: %v, expected too few devices", want, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, plain(&r, 1, s.server.lists.Survivors)) {
			t.Fatalf("liars %v: the sum is %v, %v", want, got, err)
		}
	}
}

// Two wrong shares do not end a round with twelve good ones, wherever they are.
func TestTwoWrongSharesOfFourteen(t *testing.T) {
	r := testRound(t, 14, 3, 0)
	for a := range uint32(14) {
		for b := range a {
			if b%5 > 0 && b+1 < a { // others add time and nothing else
				continue
			}
			s := newStage(t, r).deal().upload()
			got, names, err := s.finish(func(id uint32, m *Reveal) {
				if id == a || id == b {
					m.Shares[0].Data[0] ^= 1
				}
			})
			if err != nil || !slices.Equal(names, []uint32{b, a}) ||
				!slices.Equal(got, plain(&r, 1, s.server.lists.Survivors)) {
				t.Fatalf("devices %d and %d lie: %v named, sum %v, %v", b, a, names, got, err)
			}
		}
	}
}

// A device that flips a bit of its upload is named, and nobody else.
func TestAFlippedBitNamesItsSender(t *testing.T) {
	s := newStage(t, testRound(t, 7, 5, 0)).deal()
	for id, c := range s.clients {
		m, err := c.Upload(s.inbox(uint32(id)), make([]int32, s.round.Length))
		s.must(err)
		if id == 3 {
			m.Data[0] ^= 1
		}
		s.must(s.server.Upload(m))
	}
	s.must(s.server.Next())
	_, names, err := s.finish(nil)
	if !errors.Is(err, ErrNoSum) || !slices.Equal(names, []uint32{3}) {
		t.Errorf("devices %v are named: %v", names, err)
	}
}

// A device deals wrong shares: garbage, or shares of another secret to which it commits. It is named
// once its secrets are lost because of it, before anybody reveals anything if its neighbours can see
// it.
func TestWrongDealsNameTheirSender(t *testing.T) {
	r := testRound(t, 9, 5, 0) // threshold 5: five rejections lose a secret
	for to := range 9 {
		for _, vanishes := range []bool{false, true} {
			s := newStage(t, r)
			for id, c := range s.clients {
				m, err := c.ShareKeys(s.roster(uint32(id)))
				s.must(err)
				if id == 0 {
					for i := range m.Shares[:min(to, 8)] {
						m.Shares[i].Data[0] ^= 1
					}
				}
				s.must(s.server.ShareKeys(m))
			}
			s.must(s.server.Next())
			what := fmt.Sprintf("garbage to %d of 8, vanishes %v", to, vanishes)
			for id, c := range s.clients {
				m, err := c.Upload(s.inbox(uint32(id)), make([]int32, r.Length))
				s.must(err)
				if (id > 0 && id <= to) != slices.Equal(m.Rejected, []uint32{0}) {
					t.Fatalf("%s: device %d rejects %v", what, id, m.Rejected)
				}
				if id > 0 || !vanishes {
					s.must(s.server.Upload(m))
				}
			}
			err := s.server.Next()
			left := 9 - to
			if vanishes {
				left--
			}
			switch names := named(s.server, err); {
			case to >= 5 && (!errors.Is(err, ErrNoSum) || !slices.Equal(names, []uint32{0})):
				t.Errorf("%s: %v are named, %v", what, names, err)
			case to < 5 && len(names) > 0:
				t.Errorf("%s: %v are named although their word is not enough", what, names)
			case to < 5 && left >= r.Threshold:
				if _, names, err := s.finish(nil); err != nil || len(names) > 0 {
					t.Errorf("%s: %v named, %v", what, names, err)
				}
			case to < 5 && !errors.Is(err, ErrTooFew):
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// A device commits to shares that do not give its secret. Nobody can see that before they are
// combined.
func TestCommittedSharesOfAnotherSecretNameTheirSender(t *testing.T) {
	r := testRound(t, 7, 5, 0)
	for _, vanishes := range []bool{false, true} {
		s := newStage(t, r)
		for id, c := range s.clients {
			was := c.seed
			key := c.mask
			if id == 4 { // it deals shares of secrets that are not those of its advert
				other, err := NewClient(r, 4, nil)
				s.must(err)
				c.seed, c.mask = other.seed, other.mask
			}
			m, err := c.ShareKeys(s.roster(uint32(id)))
			s.must(err)
			c.seed, c.mask = was, key
			s.must(s.server.ShareKeys(m))
		}
		s.must(s.server.Next())
		if vanishes {
			s.upload(4)
		} else {
			s.upload()
		}
		_, names, err := s.finish(nil)
		if !errors.Is(err, ErrNoSum) || !slices.Equal(names, []uint32{4}) {
			t.Errorf("vanishes %v: %v are named, %v", vanishes, names, err)
		}
	}
}

// One device, or as many as may collude, cannot have an honest device named by rejecting its shares, even
// if that device drops out.
func TestRejectionsAloneNameNobody(t *testing.T) {
	r := testRound(t, 9, 5, 0)
	for liars := range 5 {
		s := newStage(t, r).deal()
		for id, c := range s.clients {
			m, err := c.Upload(s.inbox(uint32(id)), make([]int32, r.Length))
			s.must(err)
			if id == 8 { // the honest device drops out
				continue
			}
			if id < liars {
				m.Rejected = []uint32{8}
				m.Tag = uploadTag(c.seed, c.context, c.id, m.digest())
			}
			s.must(s.server.Upload(m))
		}
		if err := s.server.Next(); len(named(s.server, err)) > 0 {
			t.Errorf("%d liars: %v", liars, err)
		}
	}
}

// Every message that only a liar sends is a violation of its sender; dropping out, sending a message
// twice or late, and a copy of a key are not.
func TestViolationsNameTheSenderOfAMessage(t *testing.T) {
	s := newStage(t, testRound(t, 7, 5, 0))
	deal := func() *ShareBundle {
		m, err := must(t, func() (*Client, error) { return NewClient(s.round, 0, nil) }).ShareKeys(s.roster(0))
		s.must(err)
		return m
	}
	check := func(what string, err error, liar bool) {
		t.Helper()
		if err == nil || (len(named(s.server, err)) > 0) != liar {
			t.Errorf("%s: %v", what, err)
		}
	}
	short := deal()
	short.Shares = short.Shares[1:]
	check("a share is missing", s.server.ShareKeys(short), true)
	context := deal()
	context.Context[0]++
	check("another round", s.server.ShareKeys(context), true)
	check("an advert after its step", s.server.Advert(s.clients[0].Advert()), false)
	s.deal()
	check("shares after their step", s.server.ShareKeys(short), false)
	up, err := s.clients[0].Upload(s.inbox(0), make([]int32, s.round.Length))
	s.must(err)
	for what, change := range map[string]func(*Upload){
		"other mask keys":      func(m *Upload) { m.View[0] ^= 1 },
		"too short":            func(m *Upload) { m.Data = m.Data[1:] },
		"rejects itself":       func(m *Upload) { m.Rejected = []uint32{0} },
		"rejects twice":        func(m *Upload) { m.Rejected = []uint32{3, 3} },
		"rejects a stranger":   func(m *Upload) { m.Rejected = []uint32{70} },
		"another round's mail": func(m *Upload) { m.Context[0] ^= 1 },
	} {
		m := *up
		change(&m)
		check(what, s.server.Upload(&m), true)
	}
	s.must(s.server.Upload(up))
	check("a second upload", s.server.Upload(up), false)
	fresh := must(t, func() (*Server, error) { return NewServer(s.round) })
	s.must(fresh.Advert(s.clients[1].Advert()))
	copied := *s.clients[1].Advert()
	copied.From = 2
	check("a copied key", fresh.Advert(&copied), false)
}

// A device must reveal all shares that it has, and no others.
func TestAnIncompleteRevealNamesItsSender(t *testing.T) {
	for what, change := range map[string]func(*Reveal){
		"a share is missing":        func(m *Reveal) { m.Shares = m.Shares[1:] },
		"the last one is missing":   func(m *Reveal) { m.Shares = m.Shares[:len(m.Shares)-1] },
		"a share of nobody":         func(m *Reveal) { m.Shares = append(m.Shares, Share{Of: 77}) },
		"the order is another":      func(m *Reveal) { m.Shares[0], m.Shares[1] = m.Shares[1], m.Shares[0] },
		"answers to other lists":    func(m *Reveal) { m.Lists[0] ^= 1 },
		"a share is another's":      func(m *Reveal) { m.Shares[0].Data = m.Shares[1].Data },
		"the other secret's shares": func(m *Reveal) { clear(m.Shares[2].Data[:]) },
	} {
		s := newStage(t, testRound(t, 7, 5, 0)).deal().upload(6)
		_, names, err := s.finish(func(id uint32, m *Reveal) {
			if id == 2 {
				change(m)
			}
		})
		if err != nil || !slices.Equal(names, []uint32{2}) {
			t.Errorf("%s: devices %v are named, %v", what, names, err)
		}
	}
}
