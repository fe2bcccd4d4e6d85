package secagg

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"slices"
)

// Server is the server's part of a round. It accepts the messages of a step in any order;
// Next closes the step. A refused message does not change its state, and its sender counts
// as dropped out unless it sends a valid one. Uploads are added to the sum on arrival and
// not stored. It is not safe for concurrent use.
type Server struct {
	round   Round
	context [keySize]byte
	step    serverStep

	adverts       []*Advert // by id
	present       Set
	keys          map[[keySize]byte]bool // all that were advertised
	graph         *graph
	holders       [][]uint32 // by id, ascending
	dealt         Set
	inbox         [][]EncryptedShare // by id of who gets them
	sum           []uint32           // modulo 2^32
	arrived       Set
	uploads       []receipt // by id
	lists         Lists
	digest        [keySize]byte // of lists
	voted         Set
	confirmations [][]EncryptedShare // confirmations, by id of who gets them
	revealed      Set                // who has revealed
	shares        [][]point          // by id of whose they are
}

// receipt is what the server keeps of an upload.
type receipt struct{ digest, tag [keySize]byte }

type serverStep int

const (
	adverts serverStep = iota
	deals
	uploads
	confirms
	reveals
	done
)

func (s serverStep) String() string {
	return [...]string{"adverts", "key shares", "uploads", "confirmations", "reveals", "nothing"}[s]
}

// NewServer starts a round.
func NewServer(r Round) (*Server, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	n := r.Devices
	return &Server{
		round: r, context: r.Context(), adverts: make([]*Advert, n), present: newSet(n),
		keys: map[[keySize]byte]bool{},
	}, nil
}

// take checks what all messages share.
func (s *Server) take(step serverStep, context [keySize]byte, from uint32, before, already Set) error {
	switch {
	case s.step != step:
		return fmt.Errorf("secagg: the server expects %s but received %s", s.step, step)
	case context != s.context:
		return errContext("message")
	case uint64(from) >= uint64(s.round.Devices) || before != nil && !before.Has(from):
		return fmt.Errorf("secagg: %s of device %d, which dropped out or was never in the round", step, from)
	case already.Has(from):
		return fmt.Errorf("secagg: device %d sent a second message in step %s", from, step)
	}
	return nil
}

// Advert accepts a message of step 0. It refuses keys that neighbours would refuse (keys of
// low order, and copies), so that one device cannot make others drop out.
func (s *Server) Advert(m *Advert) error {
	if err := s.take(adverts, m.Context, m.From, nil, s.present); err != nil {
		return err
	}
	if s.keys[m.Box] || s.keys[m.Mask] || m.Box == m.Mask {
		return fmt.Errorf("secagg: device %d sent the key of another device", m.From)
	}
	probe, err := ecdh.X25519().NewPrivateKey(zeros[:keySize])
	for _, key := range [][keySize]byte{m.Box, m.Mask} {
		if err == nil {
			_, err = agree(probe, key)
		}
	}
	if err != nil {
		return fmt.Errorf("secagg: a key of device %d: %w", m.From, err)
	}
	s.keys[m.Box], s.keys[m.Mask] = true, true
	keep := *m
	s.adverts[m.From] = &keep
	s.present.add(m.From)
	return nil
}

// ShareKeys accepts a bundle of step 1.
func (s *Server) ShareKeys(m *ShareBundle) error {
	if err := s.take(deals, m.Context, m.Self, s.present, s.dealt); err != nil {
		return err
	}
	peers := s.graph.neighbours(m.Self)
	if m.Step != stepDeal || len(m.Shares) != len(peers) {
		return fmt.Errorf("secagg: device %d sent %d shares in step %d, expected %d in step %d", m.Self, len(m.Shares),
			m.Step, len(peers), stepDeal)
	}
	for i, l := range m.Shares {
		if l.Peer != peers[i] || len(l.Data) != shareBox {
			return fmt.Errorf("secagg: device %d sent %d bytes to device %d, expected %d bytes to device %d", m.Self,
				len(l.Data), l.Peer, shareBox, peers[i])
		}
	}
	for _, l := range m.Shares {
		s.inbox[l.Peer] = append(s.inbox[l.Peer], EncryptedShare{m.Self, l.Data})
	}
	s.dealt.add(m.Self)
	return nil
}

// view is the hash of the mask keys that a device was sent.
func (s *Server) view(id uint32) [keySize]byte {
	peers := []Peer{{ID: id, Mask: s.adverts[id].Mask}}
	for _, v := range s.graph.neighbours(id) {
		if s.dealt.Has(v) {
			peers = append(peers, Peer{ID: v, Mask: s.adverts[v].Mask})
		}
	}
	return viewOf(s.context, peers)
}

// Upload accepts a message of step 2 and adds it to the sum.
func (s *Server) Upload(m *Upload) error {
	if err := s.take(uploads, m.Context, m.From, s.dealt, s.arrived); err != nil {
		return err
	}
	if m.View != s.view(m.From) {
		return fmt.Errorf("secagg: device %d masked with other keys or neighbours than the server has sent; the "+
			"masks would not cancel", m.From)
	}
	if !addPacked(m.Data, s.round.Bits, s.sum) {
		return fmt.Errorf("secagg: device %d uploaded %d bytes, expected exactly %d numbers of %d bits",
			m.From, len(m.Data), s.round.Length, s.round.Bits)
	}
	s.uploads[m.From] = receipt{m.digest(), m.Tag}
	s.arrived.add(m.From)
	return nil
}

// Confirm accepts a bundle in which a device confirms the lists; only with Params.Active.
func (s *Server) Confirm(m *ShareBundle) error {
	if err := s.take(confirms, m.Context, m.Self, s.arrived, s.voted); err != nil {
		return err
	}
	for i, l := range m.Shares {
		if m.Step != stepConfirm || len(l.Data) != confirmBox || !s.arrived.Has(l.Peer) || l.Peer == m.Self || i > 0 &&
			l.Peer <= m.Shares[i-1].Peer {
			return fmt.Errorf("secagg: device %d confirms lists to device %d in step %d, expected each survivor once, "+
				"in step %d", m.Self, l.Peer, m.Step, stepConfirm)
		}
	}
	for _, l := range m.Shares {
		s.confirmations[l.Peer] = append(s.confirmations[l.Peer], EncryptedShare{m.Self, l.Data})
	}
	s.voted.add(m.Self)
	return nil
}

// Reveal accepts a message of step 3. Sum checks the shares when it combines them.
func (s *Server) Reveal(m *Reveal) error {
	if err := s.take(reveals, m.Context, m.From, s.arrived, s.revealed); err != nil {
		return err
	}
	if m.Lists != s.digest {
		return fmt.Errorf("secagg: device %d responds to other lists", m.From)
	}
	places := make([]byte, len(m.Shares))
	for i, sh := range m.Shares {
		if i > 0 && sh.Of <= m.Shares[i-1].Of || !s.dealt.Has(sh.Of) {
			return fmt.Errorf("secagg: device %d reveals a share of device %d twice, out of order, or of one that "+
				"dealt none", m.From, sh.Of)
		}
		at, found := slices.BinarySearch(s.holders[sh.Of], m.From)
		if !found {
			return fmt.Errorf("secagg: device %d reveals a share of device %d, which is not its neighbour", m.From,
				sh.Of)
		}
		places[i] = byte(at + 1)
	}
	for i, sh := range m.Shares {
		s.shares[sh.Of] = append(s.shares[sh.Of], point{places[i], sh.Data})
	}
	s.revealed.add(m.From)
	return nil
}

// Next closes a step and opens the next one. It ends the round if too few devices remain.
func (s *Server) Next() error {
	n, count := s.round.Devices, 0
	switch s.step {
	case adverts:
		count = s.present.Count()
	case deals:
		count = s.dealt.Count()
	case uploads, confirms: // a device that does not confirm has still uploaded
		count = s.arrived.Count()
	default:
		return errors.New("secagg: Next called after the last step; call Sum")
	}
	if count < s.round.MinDevices {
		return fmt.Errorf("%w: %d devices after the step %s, at least %d required", ErrTooFew, count, s.step,
			s.round.MinDevices)
	}
	switch s.step {
	case adverts:
		s.graph = newGraph(&s.round, s.present)
		s.keys, s.holders = nil, make([][]uint32, n)
		for _, id := range s.graph.ring {
			s.holders[id] = s.graph.holders(id)
		}
		s.dealt, s.inbox = newSet(n), make([][]EncryptedShare, n)
	case deals:
		s.sum = make([]uint32, s.round.Length)
		s.arrived, s.uploads = newSet(n), make([]receipt, n)
	case uploads:
		s.lists = Lists{s.context, s.arrived, newSet(n)}
		for i := range s.lists.Dropped {
			s.lists.Dropped[i] = s.dealt[i] &^ s.arrived[i]
		}
		s.digest, s.inbox = s.lists.digest(), nil
		s.voted, s.confirmations = newSet(n), make([][]EncryptedShare, n)
		s.revealed, s.shares = newSet(n), make([][]point, n)
		if !s.round.Active {
			s.step = confirms
		}
	}
	s.step++
	return nil
}

// Roster returns a device's message after step 0.
func (s *Server) Roster(id uint32) (*Roster, error) {
	if s.step != deals || !s.present.Has(id) {
		return nil, fmt.Errorf("secagg: no roster for device %d while the server expects %s", id, s.step)
	}
	m := &Roster{Context: s.context, To: id, Present: s.present}
	for _, v := range s.graph.neighbours(id) {
		m.Peers = append(m.Peers, Peer{v, s.adverts[v].Box, s.adverts[v].Mask})
	}
	return m, nil
}

// Inbox returns a device's shares after step 1.
func (s *Server) Inbox(id uint32) (*ShareBundle, error) {
	if s.step != uploads || !s.dealt.Has(id) {
		return nil, fmt.Errorf("secagg: no shares for device %d while the server expects %s", id, s.step)
	}
	return s.mail(stepDeal, id, s.inbox[id]), nil
}

// Lists returns the message to every survivor after step 2.
func (s *Server) Lists() (*Lists, error) {
	if s.step != confirms && s.step != reveals {
		return nil, fmt.Errorf("secagg: no lists while the server expects %s", s.step)
	}
	m := s.lists
	return &m, nil
}

// Echo returns the confirmations for a survivor; only with Params.Active.
func (s *Server) Echo(id uint32) (*ShareBundle, error) {
	if !s.round.Active || s.step != reveals || !s.arrived.Has(id) {
		return nil, fmt.Errorf("secagg: no confirmations for device %d while the server expects %s", id, s.step)
	}
	return s.mail(stepConfirm, id, s.confirmations[id]), nil
}

func (s *Server) mail(step uint8, id uint32, letters []EncryptedShare) *ShareBundle {
	slices.SortFunc(letters, func(a, b EncryptedShare) int { return int(a.Peer) - int(b.Peer) })
	return &ShareBundle{Context: s.context, Step: step, Self: id, Shares: letters}
}
