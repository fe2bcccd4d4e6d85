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
	commits       [][]shareCommit    // by id of whose shares they are: of each holder
	inbox         [][]EncryptedShare // by id of who gets them
	rejected      [][]uint32         // by id of whose shares they are: the holders that rejected them
	sum           []uint32           // modulo 2^32
	arrived       Set
	uploads       []receipt // by id
	lists         Lists
	digest        [keySize]byte // of lists
	voted         Set
	confirmations [][]EncryptedShare // confirmations, by id of who gets them
	revealed      Set                // who has revealed
	shares        [][]point          // by id of whose they are; they are what their owner committed to
	violations    []*Violation
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

// Violations lists the breaches that Next and Sum found. Other methods return theirs as an error.
func (s *Server) Violations() []*Violation { return s.violations }

// take checks what all messages share.
func (s *Server) take(step serverStep, context [keySize]byte, from uint32, before, already Set) error {
	switch {
	case s.step != step:
		return fmt.Errorf("secagg: the server expects %s but received %s", s.step, step)
	case context != s.context:
		return violation(from, "sent a message of another round, model or configuration")
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
	if s.keys[m.Box] || s.keys[m.Mask] { // not a violation: it does not show which of the two copied it
		return fmt.Errorf("secagg: device %d sent the key of another device", m.From)
	}
	if m.Box == m.Mask {
		return violation(m.From, "sent one key twice")
	}
	probe, err := ecdh.X25519().NewPrivateKey(zeros[:keySize])
	for _, key := range [][keySize]byte{m.Box, m.Mask} {
		if err == nil {
			_, err = agree(probe, key)
		}
	}
	if err != nil {
		return violation(m.From, "sent an invalid key: %v", err)
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
		return violation(m.Self, "sent %d shares in step %d, expected %d in step %d", len(m.Shares), m.Step, len(peers),
			stepDeal)
	}
	for i, l := range m.Shares {
		if l.Peer != peers[i] || len(l.Data) != shareBox {
			return violation(m.Self, "sent %d bytes to device %d, expected %d bytes to device %d", len(l.Data), l.Peer,
				shareBox, peers[i])
		}
	}
	commits := make([]shareCommit, 0, len(m.Shares)+1)
	for _, l := range m.Shares {
		if len(commits) == s.position(m.Self, m.Self) {
			commits = append(commits, m.Own)
		}
		commits = append(commits, shareCommit(l.Data[sealedSize:]))
		s.inbox[l.Peer] = append(s.inbox[l.Peer], EncryptedShare{m.Self, l.Data})
	}
	if len(commits) == len(m.Shares) {
		commits = append(commits, m.Own)
	}
	s.commits[m.Self] = commits
	s.dealt.add(m.Self)
	return nil
}

// position is the index of a holder among those of a device's shares; -1 if it has none.
func (s *Server) position(owner, holder uint32) int {
	at, found := slices.BinarySearch(s.holders[owner], holder)
	if !found {
		return -1
	}
	return at
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
		return violation(m.From, "masked with other keys or neighbours than the server has sent; the masks would not "+
			"cancel")
	}
	for i, id := range m.Rejected {
		if i > 0 && id <= m.Rejected[i-1] || id == m.From || !s.dealt.Has(id) || s.position(id, m.From) < 0 {
			return violation(m.From, "rejects shares of device %d, which sent it none", id)
		}
	}
	if !addPacked(m.Data, s.round.Bits, s.sum) {
		return violation(m.From, "uploaded %d bytes, expected exactly %d numbers of %d bits", len(m.Data),
			s.round.Length, s.round.Bits)
	}
	for _, id := range m.Rejected {
		s.rejected[id] = append(s.rejected[id], m.From)
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
			return violation(m.Self, "confirms lists to device %d in step %d, expected each survivor once, in step %d",
				l.Peer, m.Step, stepConfirm)
		}
	}
	for _, l := range m.Shares {
		s.confirmations[l.Peer] = append(s.confirmations[l.Peer], EncryptedShare{m.Self, l.Data})
	}
	s.voted.add(m.Self)
	return nil
}

// Next closes a step and opens the next one. It ends the round if too few devices remain, or if a
// device's secrets are lost: a round that cannot succeed ends before anything is revealed.
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
		s.dealt, s.inbox, s.commits = newSet(n), make([][]EncryptedShare, n), make([][]shareCommit, n)
	case deals:
		s.sum = make([]uint32, s.round.Length)
		s.arrived, s.uploads, s.rejected = newSet(n), make([]receipt, n), make([][]uint32, n)
	case uploads:
		if err := s.checkRecoverable(); err != nil {
			return err
		}
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
