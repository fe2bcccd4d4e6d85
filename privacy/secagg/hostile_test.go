package secagg

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// stage is a round in the hands of a test, up to some step.
type stage struct {
	t       testing.TB
	round   Round
	server  *Server
	clients []*Client
}

func newStage(t testing.TB, r Round) *stage {
	t.Helper()
	s := &stage{t: t, round: r}
	var err error
	s.server, err = NewServer(r)
	s.must(err)
	for id := range uint32(r.Devices) {
		c, err := NewClient(r, id, newStream([keySize]byte{byte(id), byte(r.Number), 5}))
		s.must(err)
		s.clients = append(s.clients, c)
		s.must(s.server.Advert(c.Advert()))
	}
	s.must(s.server.Next())
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func must[T any](t testing.TB, f func() (T, error)) T {
	t.Helper()
	v, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (s *stage) roster(id uint32) *Roster {
	return must(s.t, func() (*Roster, error) { return s.server.Roster(id) })
}

func (s *stage) inbox(id uint32) *ShareBundle {
	return must(s.t, func() (*ShareBundle, error) { return s.server.Inbox(id) })
}

func (s *stage) deal() *stage {
	s.t.Helper()
	for id, c := range s.clients {
		m, err := c.ShareKeys(s.roster(uint32(id)))
		s.must(err)
		s.must(s.server.ShareKeys(m))
	}
	s.must(s.server.Next())
	return s
}

// upload has all devices but some do step 2.
func (s *stage) upload(but ...uint32) *stage {
	s.t.Helper()
	for id, c := range s.clients {
		v := make([]int32, s.round.Length)
		fill(1, s.round.Max, uint32(id), v)
		m, err := c.Upload(s.inbox(uint32(id)), v)
		s.must(err)
		if !slices.Contains(but, uint32(id)) {
			s.must(s.server.Upload(m))
		}
	}
	s.must(s.server.Next())
	return s
}

func (s *stage) lists() *Lists {
	m := must(s.t, s.server.Lists)
	return &Lists{m.Context, slices.Clone(m.Survivors), slices.Clone(m.Dropped)}
}

// refused fails unless an error says what a test expects.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want an error with %q", what, err, want)
	}
}

func TestListsThatCouldExposeAPeerAreRefused(t *testing.T) {
	r := testRound(t, 7, 5, 0)
	s := newStage(t, r).deal().upload(6)
	for what, c := range map[string]struct {
		change func(*Lists)
		want   string
	}{
		"both lists name a peer":     {func(m *Lists) { m.Dropped.add(2) }, "overlap"},
		"an id that was not invited": {func(m *Lists) { m.Survivors[0] |= 0x80 }, "not invited"},
		"a list of other length":     {func(m *Lists) { m.Dropped = append(m.Dropped, 0) }, "not invited"},
		"this device dropped": {
			func(m *Lists) { m.Survivors[0] &^= 1; m.Dropped.add(0) },
			"uploaded but is not listed",
		},
		"a peer on neither list": {func(m *Lists) { m.Survivors[0] &^= 4 }, "is not listed"},
		"too few survivors": {
			func(m *Lists) { m.Survivors[0], m.Dropped[0] = 0b0000111, 0b1111000 },
			"too few",
		},
		"lists of another round":     {func(m *Lists) { m.Context[0]++ }, "another round"},
		"all on both, as a last try": {func(m *Lists) { copy(m.Dropped, m.Survivors) }, "overlap"},
	} {
		m := s.lists()
		c.change(m)
		_, err := s.clients[0].Reveal(m, nil)
		refused(t, what, err, c.want)
	}
	out, err := s.clients[0].Reveal(s.lists(), nil)
	s.must(err)
	for _, sh := range out.Shares {
		p := s.clients[0].peer(sh.Of)
		if p != nil && (sh.Of == 6) != (sh.Data == [keySize]byte(p.share[keySize:])) {
			t.Errorf("of device %d the wrong secret's share was given", sh.Of)
		}
	}
}

func TestASecondListIsRefused(t *testing.T) {
	s := newStage(t, testRound(t, 7, 5, 0)).deal().upload()
	first, err := s.clients[0].Reveal(s.lists(), nil)
	s.must(err)
	other := s.lists()
	other.Survivors[0] &^= 4
	other.Dropped.add(2)
	_, err = s.clients[0].Reveal(other, nil)
	refused(t, "lists with a peer moved", err, "responds to one only")
	again, err := s.clients[0].Reveal(s.lists(), nil)
	s.must(err)
	if !slices.Equal(first.Shares, again.Shares) {
		t.Error("the same lists get another answer")
	}
}

func TestRefusesListsWithAbsentDevices(t *testing.T) {
	r := testRound(t, 40, 5, 6)
	s := &stage{t: t, round: r}
	s.server = must(t, func() (*Server, error) { return NewServer(r) })
	for id := range uint32(39) { // device 39 does not advertise
		c := must(t, func() (*Client, error) { return NewClient(r, id, nil) })
		s.clients = append(s.clients, c)
		s.must(s.server.Advert(c.Advert()))
	}
	s.must(s.server.Next())
	s.deal().upload()
	m := s.lists()
	m.Survivors.add(39)
	_, err := s.clients[0].Reveal(m, nil)
	refused(t, "a survivor that was not on the roster", err, "not on the roster")
}

// A client that does a step twice could be made to use a key or mask twice.
func TestEachStepIsDoneOnceAndInOrder(t *testing.T) {
	r := testRound(t, 5, 5, 0)
	s := newStage(t, r)
	c, v := s.clients[0], make([]int32, r.Length)
	roster := s.roster(0)
	_, err := c.Upload(&ShareBundle{}, v)
	refused(t, "upload before deal", err, "after it shared its keys")
	_, err = c.Reveal(&Lists{}, nil)
	refused(t, "reveal before upload", err, "before it uploaded")
	refused(t, "deal at the end of adverts", s.server.Advert(c.Advert()), "expects key shares")
	s.deal()
	_, err = c.ShareKeys(roster)
	refused(t, "second deal", err, "already")
	inbox := s.inbox(0)
	s.upload()
	_, err = c.Upload(inbox, v)
	refused(t, "second upload", err, "must upload once")
	_, err = s.server.Sum(1)
	refused(t, "a sum without shares", err, "too few")
	refused(t, "no step after the last", s.server.Next(), "call Sum")
}

func TestAVectorThatCouldWrapTheSumIsRefused(t *testing.T) {
	r := testRound(t, 5, 3, 0)
	s := newStage(t, r).deal()
	c, inbox := s.clients[0], s.inbox(0)
	for _, v := range [][]int32{{0, 0, int32(r.Max) + 1}, {int32(-r.Max) - 1, 0, 0}, {-1 << 31, 0, 0}} {
		_, err := c.Upload(inbox, v)
		refused(t, "too large", err, "could wrap")
	}
	_, err := c.Upload(inbox, []int32{1, 2})
	refused(t, "too short", err, "expected 3")
	_, err = c.Upload(inbox, []int32{int32(r.Max), int32(-r.Max), 0})
	s.must(err)
}

func TestTooFewSharesRevealNothing(t *testing.T) {
	r := testRound(t, 7, 5, 0)
	s := newStage(t, r).deal().upload(6)
	for _, c := range s.clients[:r.Threshold-1] {
		m, err := c.Reveal(s.lists(), nil)
		s.must(err)
		s.must(s.server.Reveal(m))
	}
	if _, err := s.server.Sum(1); !errors.Is(err, ErrTooFew) {
		t.Fatalf("%d of %d shares: got %v, want ErrTooFew", r.Threshold-1, r.Threshold, err)
	}
	m, err := s.clients[r.Threshold-1].Reveal(s.lists(), nil)
	s.must(err)
	s.must(s.server.Reveal(m))
	got, err := s.server.Sum(1)
	s.must(err)
	if want := plain(&r, 1, s.server.lists.Survivors); !slices.Equal(got, want) {
		t.Errorf("the sum is %v, want %v", got, want)
	}
}

func TestAnActiveServerCannotShowTwoLists(t *testing.T) {
	p, err := Plan(9, 5, 100, Risk{Dropped: 0.2, Active: true})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, Round{Params: p}).deal().upload()
	lie := s.lists() // device 1 dropped, says the server to the later half
	lie.Survivors[0] &^= 2
	lie.Dropped.add(1)
	for id, c := range s.clients {
		m := s.lists()
		if id >= 5 {
			m = lie
		}
		mail, err := c.Confirm(m)
		s.must(err)
		for i := 0; i < len(mail.Shares); i++ {
			if mail.Shares[i].Peer == 1 && id >= 5 {
				t.Error("a device confirms to a peer that it thinks has dropped")
			}
		}
		s.must(s.server.Confirm(mail))
	}
	s.must(s.server.Next())
	for id, c := range s.clients {
		echo := must(t, func() (*ShareBundle, error) { return s.server.Echo(uint32(id)) })
		m := s.lists()
		if id >= 5 {
			m = lie
			echo.Shares = slices.DeleteFunc(echo.Shares, func(l EncryptedShare) bool { return l.Peer == 1 })
		}
		if _, err := c.Reveal(m, echo); !errors.Is(err, ErrTooFew) {
			t.Errorf("device %d of a cohort that was shown two lists: got %v, want a refusal", id, err)
		}
		if id == 0 {
			_, err := c.Reveal(m, nil)
			refused(t, "no confirmations", err, "waits for a mail")
		}
	}
}

func TestActiveRoundsAreExactToo(t *testing.T) {
	p, err := Plan(9, 20, 1000, Risk{Dropped: 0.3, Active: true})
	if err != nil {
		t.Fatal(err)
	}
	for step := range 4 {
		ended := 0
		for seed := range uint64(3) {
			if checkSession(t, Round{Params: p}, seed, 0.2, step) {
				ended++
			}
		}
		if ended == 3 {
			t.Errorf("no round of 3 with 20 %% leaving at step %d came to its end", step)
		}
	}
}
