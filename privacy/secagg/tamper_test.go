package secagg

import (
	"crypto/ecdh"
	"errors"
	"math"
	"slices"
	"testing"
)

// Every third byte of every message from or to device 1 is changed, one round for
// each. The round must end with an error, or give the exact sum over those whom it
// names as survivors: a changed message is never added up silently.
func TestAChangedMessageNeverChangesTheSum(t *testing.T) {
	if testing.Short() {
		t.Skip("plays hundreds of rounds: run without -short")
	}
	p, err := Plan(4, 3, 1000, Risk{Dropped: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	p.Threshold, p.MinDevices = 2, 2 // so that rounds go on without device 1
	r := Round{Params: p, Number: 3}
	seed, ended, exact := uint64(1), 0, 0
	// With one worker, messages come in the same order each time: an advert of each
	// device, then what each gets and sends, step by step. These are of device 1.
	for _, message := range []int{1, 6, 7, 14, 15, 22, 23} {
		for at := 0; ; at += 3 {
			count, length := -1, 0
			s := Session{
				Round: r, Rand: newStream([keySize]byte{9}),
				Vector: func(id uint32, dst []int32) error { fill(seed, r.Max, id, dst); return nil },
				wire: func(b []byte) []byte {
					if count++; count == message {
						if length = len(b); at < length {
							b[at] ^= 1 << (at % 8)
						}
					}
					return b
				},
			}
			got, err := s.Run()
			if err != nil {
				ended++
			} else if exact++; !slices.Equal(got.Sum, plain(&r, seed, got.Survivors)) {
				t.Errorf("byte %d of %d in message %d was changed, and the sum is wrong", at, length, message)
			}
			if at >= length {
				break
			}
		}
	}
	t.Logf("%d rounds ended with an error, %d gave the exact sum", ended, exact)
	if ended < 30 || exact < 100 {
		t.Errorf("%d rounds ended and %d were exact: the test changes too little to tell", ended, exact)
	}
}

// All that a server gets, and all that a device gets, is refused in the next
// round, even when its context is made to fit.
func TestMessagesOfAnotherRoundAreRefused(t *testing.T) {
	old := newStage(t, testRound(t, 4, 3, 0))
	next := testRound(t, 4, 3, 0)
	next.Number++
	now := newStage(t, next)
	refused(t, "advert", must(t, func() (*Server, error) { return NewServer(next) }).Advert(old.clients[0].Advert()),
		"another round")
	_, err := now.clients[0].ShareKeys(old.roster(0))
	refused(t, "roster", err, "another round")
	mail := must(t, func() (*ShareBundle, error) { return old.clients[0].ShareKeys(old.roster(0)) })
	refused(t, "deal", now.server.ShareKeys(mail), "another round")
	old = newStage(t, testRound(t, 4, 3, 0)).deal()
	now.deal()
	inbox, v := old.inbox(0), make([]int32, 3)
	_, err = now.clients[0].Upload(inbox, v)
	refused(t, "inbox", err, "another round")
	inbox.Context = now.server.context
	_, err = now.clients[0].Upload(inbox, v)
	refused(t, "inbox with a new context", err, "too few")
	up := must(t, func() (*Upload, error) { return old.clients[0].Upload(old.inbox(0), v) })
	refused(t, "upload", now.server.Upload(up), "another round")
	up.Context = now.server.context
	refused(t, "upload with a new context", now.server.Upload(up), "masked with other keys")
	up.View = now.server.view(0)
	now.must(now.server.Upload(up)) // nobody can tell yet
	for id := uint32(1); id < 4; id++ {
		now.must(now.server.Upload(must(t, func() (*Upload, error) {
			return now.clients[id].Upload(now.inbox(id),
				v)
		})))
	}
	must(t, func() (*Upload, error) { return now.clients[0].Upload(now.inbox(0), v) })
	now.must(now.server.Next())
	for _, c := range now.clients {
		now.must(now.server.Reveal(must(t, func() (*Reveal, error) { return c.Reveal(now.lists(), nil) })))
	}
	_, err = now.server.Sum(1)
	refused(t, "sum with an old upload", err, "differ from those that its tag covers")
	if !errors.Is(err, ErrNoSum) {
		t.Errorf("%v is not ErrNoSum", err)
	}
}

func TestKeysThatWouldHarmOthersAreRefused(t *testing.T) {
	r := testRound(t, 4, 3, 0)
	s := must(t, func() (*Server, error) { return NewServer(r) })
	a := must(t, func() (*Client, error) { return NewClient(r, 0, nil) }).Advert()
	b := must(t, func() (*Client, error) { return NewClient(r, 1, nil) }).Advert()
	low := *a
	low.Mask = [keySize]byte{1}
	refused(t, "a key of low order", s.Advert(&low), "low order")
	if err := s.Advert(a); err != nil {
		t.Fatal(err)
	}
	b.Box = a.Box
	refused(t, "a copied key", s.Advert(b), "the key of another device")
	refused(t, "a second advert", s.Advert(a), "second message")
	a.From = 9
	refused(t, "an id that was not invited", s.Advert(a), "never in the round")
	st := newStage(t, r)
	m := st.roster(0)
	m.Peers[0].Mask = st.clients[0].Advert().Mask
	_, err := st.clients[0].ShareKeys(m)
	refused(t, "one's own key from a peer", err, "the key of another device")
	m = st.roster(0)
	m.Peers[0], m.Peers[1] = m.Peers[1], m.Peers[0]
	_, err = st.clients[0].ShareKeys(m)
	refused(t, "keys out of order", err, "in the graph")
}

// chiSquare is that of the bytes against equal chances, with 255 degrees of
// freedom. It is above 372 with a chance of about 2e-6.
func chiSquare(b []byte) float64 {
	counts := [256]float64{}
	for _, x := range b {
		counts[x]++
	}
	chi, want := 0.0, float64(len(b))/256
	for _, n := range counts {
		chi += (n - want) * (n - want) / want
	}
	return chi
}

func TestAnUploadLooksLikeRandomBytes(t *testing.T) {
	r := testRound(t, 3, 1682*32, 0)
	r.Bits = 26
	s := newStage(t, r).deal()
	for id, v := range []int32{0, 1, int32(r.Max)} {
		vector := slices.Repeat([]int32{v}, r.Length)
		m := must(t, func() (*Upload, error) { return s.clients[id].Upload(s.inbox(uint32(id)), vector) })
		if chi := chiSquare(m.Data); chi > 372 {
			t.Errorf("the upload of %d everywhere has chi-square %.0f, want at most 372", v, chi)
		}
	}
	if chi := chiSquare(make([]byte, 1<<16)); chi < 372 {
		t.Errorf("zeros have chi-square %.0f: the test sees nothing", chi)
	}
}

// A device is slow, its mask key is opened as that of one that dropped, and then
// its upload comes: its own mask still hides it.
func TestALateUploadStaysHidden(t *testing.T) {
	r := testRound(t, 4, 1<<16, 0)
	s := newStage(t, r).deal()
	vector := slices.Repeat([]int32{5}, r.Length)
	late := must(t, func() (*Upload, error) { return s.clients[3].Upload(s.inbox(3), vector) })
	sum := make([]uint32, r.Length)
	if !addPacked(late.Data, r.Bits, sum) {
		t.Fatal("the upload cannot be read")
	}
	key, err := ecdh.X25519().NewPrivateKey(s.clients[3].mask.Bytes())
	s.must(err)
	var m masker
	for v := range uint32(3) {
		secret, err := agree(key, s.clients[v].Advert().Mask)
		s.must(err)
		m.add(pairKey(secret, s.server.context, 3, v), v > 3, sum)
	}
	low := make([]byte, len(sum))
	for i, v := range sum {
		low[i] = byte(v)
	}
	if chi := chiSquare(low); chi > 372 {
		t.Errorf("without pair masks, chi-square is %.0f, want at most 372", chi)
	}
	m.add(derive(s.clients[3].seed[:], s.server.context, forSelf, 3, 3), true, sum)
	for i, v := range sum {
		if v&(1<<r.Bits-1) != 5 {
			t.Fatalf("number %d is %d without any mask, want 5: the test takes off the wrong ones", i, v)
		}
	}
}

// Numbers of two masks are compared too: with equal chances, the difference of
// counts of set bits is within 5 deviations but for a chance of 6e-7.
func TestMasksOfTwoContextsHaveNothingInCommon(t *testing.T) {
	const n = 1 << 16
	a, b := make([]uint32, n), make([]uint32, n)
	var m masker
	m.add(derive(make([]byte, 32), [keySize]byte{1}, forPair, 0, 1), false, a)
	m.add(derive(make([]byte, 32), [keySize]byte{2}, forPair, 0, 1), false, b)
	same := 0
	for i := range a {
		for bit := range 32 {
			if (a[i]^b[i])>>bit&1 == 0 {
				same++
			}
		}
	}
	if d := math.Abs(float64(same)-32*n/2) / math.Sqrt(32*n/4); d > 5 {
		t.Errorf("%d of %d bits are the same, %.1f deviations from half", same, 32*n, d)
	}
}

func TestWorkersDoNotChangeTheSum(t *testing.T) {
	r := testRound(t, 24, 100, 6)
	var first *Result
	for _, workers := range []int{1, 2, 7} {
		got, err := play1(r, 5, leavers(5, 0.1, 2), workers)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if !slices.Equal(got.Sum, first.Sum) || got.Up != first.Up || got.Down != first.Down {
			t.Errorf("%d workers give another result", workers)
		}
	}
}

// A letter that is lost on its way would leave one side of a mask in the sum.
func TestDetectsALostShare(t *testing.T) {
	s := newStage(t, testRound(t, 7, 3, 0)).deal()
	inbox := s.inbox(0)
	inbox.Shares = inbox.Shares[1:]
	up := must(t, func() (*Upload, error) { return s.clients[0].Upload(inbox, make([]int32, 3)) })
	refused(t, "an upload without the mask of a neighbour", s.server.Upload(up), "would not cancel")
}
