package secagg

import (
	"crypto/rand"
	"encoding"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Session runs a whole round in this process, for simulation. All messages pass through
// their binary form. At most one vector per worker is in memory.
type Session struct {
	Round  Round
	Vector func(id uint32, dst []int32) error // fills in a device's vector; called by several workers at once
	// the first step, 0 to 3, that a device does not complete; 4 if it stays. Nil means all stay
	Leave   func(id uint32) int
	Workers int       // 0 means 1
	Rand    io.Reader // source of all keys; nil means crypto/rand

	// For tests and benchmarks: server wraps the server's work; wire may change a message,
	// and a device whose message is refused then counts as dropped out.
	server func(func())
	wire   func([]byte) []byte
}

// Result is the outcome of a session.
type Result struct {
	Sum       []int32
	Survivors Set   // whose vectors are in the sum
	Up, Down  int64 // bytes of all messages from and to devices
}

// sessionState is a session under way.
type sessionState struct {
	*Session
	context [keySize]byte
	seed    [keySize]byte
	clients []*Client // nil if dropped out
	hub     *Server
	mu      sync.Mutex // guards hub and why
	why     error      // why the first device dropped out without being told to
	up      atomic.Int64
	down    atomic.Int64
}

// Run runs the round. It returns the exact sum over the survivors, or an error that wraps
// ErrTooFew if too many devices dropped out.
func (s *Session) Run() (*Result, error) {
	hub, err := NewServer(s.Round)
	if err != nil {
		return nil, err
	}
	p := &sessionState{Session: s, context: s.Round.Context(), clients: make([]*Client, s.Round.Devices), hub: hub}
	random := s.Rand
	if random == nil {
		random = rand.Reader
	}
	if _, err := io.ReadFull(random, p.seed[:]); err != nil {
		return nil, fmt.Errorf("secagg: random bytes for a session: %w", err)
	}
	for step, do := range []func(uint32) error{p.advert, p.deal, p.upload, p.confirm, p.reveal} {
		if step == 3 && !s.Round.Active {
			continue
		}
		if err := p.each(min(step, 3), do); err != nil {
			return nil, err
		}
		if step < 4 {
			p.serve(func() { err = hub.Next() })
		}
		if err != nil {
			return nil, errors.Join(err, p.why)
		}
	}
	out := &Result{Survivors: hub.arrived, Up: p.up.Load(), Down: p.down.Load()}
	p.serve(func() { out.Sum, err = hub.Sum(max(1, s.Workers)) })
	if err != nil {
		return nil, errors.Join(err, p.why)
	}
	return out, nil
}

// each has every remaining device do a step. A device that finds too few others drops out;
// any other error ends the session, starting with that of the lowest ID.
func (p *sessionState) each(step int, do func(uint32) error) error {
	n := p.Round.Devices
	errs := make([]error, n)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range max(1, p.Workers) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				id := uint32(i)
				if p.Leave != nil && p.Leave(id) <= step {
					p.clients[i] = nil
				} else if step == 0 || p.clients[i] != nil {
					errs[i] = do(id)
				}
			}
		})
	}
	wait.Wait()
	for i, err := range errs {
		if errors.Is(err, ErrTooFew) || err != nil && p.wire != nil {
			p.clients[i] = nil
			if p.why == nil {
				p.why = err
			}
		} else if err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
	}
	return nil
}

func (p *sessionState) serve(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server(f)
		return
	}
	f()
}

// message is anything that is sent.
type message[T any] interface {
	*T
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// carry passes a message through its binary form and counts the bytes.
func carry[T any, M message[T]](p *sessionState, m M, bytes *atomic.Int64) (M, error) {
	b, err := m.MarshalBinary()
	if err != nil {
		return nil, err
	}
	bytes.Add(int64(len(b)))
	if p.wire != nil {
		b = p.wire(b)
	}
	out := M(new(T))
	return out, out.UnmarshalBinary(b)
}

// toServer carries a device's message to the server.
func toServer[T any, M message[T]](p *sessionState, m M, take func(M) error) error {
	out, err := carry(p, m, &p.up)
	if err != nil {
		return err
	}
	p.serve(func() { err = take(out) })
	return err
}

// toDevice carries a message of the server to a device.
func toDevice[T any, M message[T]](p *sessionState, id uint32, make func(uint32) (M, error)) (M, error) {
	var m M
	var err error
	p.serve(func() { m, err = make(id) })
	if err != nil {
		return nil, err
	}
	return carry(p, m, &p.down)
}

func (p *sessionState) advert(id uint32) error {
	c, err := NewClient(p.Round, id, newStream(derive(p.seed[:], p.context, forSession, id, 0)))
	if err != nil {
		return err
	}
	p.clients[id] = c
	return toServer(p, c.Advert(), p.hub.Advert)
}

func (p *sessionState) deal(id uint32) error {
	roster, err := toDevice(p, id, p.hub.Roster)
	if err != nil {
		return err
	}
	m, err := p.clients[id].ShareKeys(roster)
	if err != nil {
		return err
	}
	return toServer(p, m, p.hub.ShareKeys)
}

func (p *sessionState) upload(id uint32) error {
	inbox, err := toDevice(p, id, p.hub.Inbox)
	if err != nil {
		return err
	}
	vector := make([]int32, p.Round.Length)
	if err := p.Vector(id, vector); err != nil {
		return err
	}
	m, err := p.clients[id].Upload(inbox, vector)
	if err != nil {
		return err
	}
	return toServer(p, m, p.hub.Upload)
}

func (p *sessionState) confirm(id uint32) error {
	lists, err := toDevice(p, id, func(uint32) (*Lists, error) { return p.hub.Lists() })
	if err != nil {
		return err
	}
	m, err := p.clients[id].Confirm(lists)
	if err != nil {
		return err
	}
	return toServer(p, m, p.hub.Confirm)
}

func (p *sessionState) reveal(id uint32) error {
	lists, err := toDevice(p, id, func(uint32) (*Lists, error) { return p.hub.Lists() })
	if err != nil {
		return err
	}
	var echo *ShareBundle
	if p.Round.Active {
		if echo, err = toDevice(p, id, p.hub.Echo); err != nil {
			return err
		}
	}
	m, err := p.clients[id].Reveal(lists, echo)
	if err != nil {
		return err
	}
	return toServer(p, m, p.hub.Reveal)
}
