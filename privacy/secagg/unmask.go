package secagg

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Reveal accepts a message of step 3. It refuses a share to which its owner did not commit, and a
// message without a share that the sender must have: it rejected none in step 2.
func (s *Server) Reveal(m *Reveal) error {
	if err := s.take(reveals, m.Context, m.From, s.arrived, s.revealed); err != nil {
		return err
	}
	if m.Lists != s.digest {
		return violation(m.From, "responds to other lists")
	}
	n := 0
	places := make([]byte, len(m.Shares))
	for _, id := range s.holders[m.From] { // a device holds shares of its neighbours and its own
		if !s.dealt.Has(id) || slices.Contains(s.rejected[id], m.From) {
			continue
		}
		if n == len(m.Shares) || m.Shares[n].Of != id {
			return violation(m.From, "does not reveal its share of device %d", id)
		}
		at, half := s.position(id, m.From), 0
		if !s.arrived.Has(id) {
			half = 1
		}
		want := s.commits[id][at][half*commitSize/2:]
		got := commitShare(s.context, id, m.From, half, &m.Shares[n].Data)
		if !bytes.Equal(got[:], want[:len(got)]) {
			return violation(m.From, "reveals a wrong share of device %d", id)
		}
		places[n] = byte(at + 1)
		n++
	}
	if n < len(m.Shares) {
		return violation(m.From, "reveals a share of device %d that it does not have", m.Shares[n].Of)
	}
	for i, sh := range m.Shares {
		s.shares[sh.Of] = append(s.shares[sh.Of], point{places[i], sh.Data})
	}
	s.revealed.add(m.From)
	return nil
}

// checkRecoverable reports a device whose secrets the survivors cannot reconstruct, before they
// reveal anything.
func (s *Server) checkRecoverable() error {
	var failed error
	for _, id := range s.graph.ring {
		if !s.dealt.Has(id) {
			continue
		}
		able := -len(s.rejected[id])
		for _, h := range s.holders[id] {
			if s.arrived.Has(h) {
				able++
			}
		}
		if able >= s.round.Threshold {
			continue
		}
		if n := len(s.rejected[id]); n > len(s.holders[id])-s.round.Threshold {
			v := violation(id, "sent shares that %d of its %d neighbours rejected", n, len(s.holders[id])-1)
			s.violations = append(s.violations, v)
			failed = fmt.Errorf("%w: %w", ErrNoSum, v)
		} else if failed == nil {
			failed = fmt.Errorf("%w: %d holders of shares of device %d remain, at least %d required", ErrTooFew, able,
				id, s.round.Threshold)
		}
	}
	return failed
}

// Sum removes the masks and returns the sum of the survivors' vectors. The result and the
// error are the same for any number of workers. If secrets cannot be reconstructed or an
// upload was altered, it returns ErrNoSum, and Violations names the devices; it returns
// ErrTooFew if too few devices revealed shares.
func (s *Server) Sum(workers int) ([]int32, error) {
	if s.step != reveals {
		return nil, fmt.Errorf("secagg: no sum while the server expects %s", s.step)
	}
	if got := s.revealed.Count(); got < s.round.Threshold {
		return nil, fmt.Errorf("%w: %d devices revealed shares, at least %d required", ErrTooFew, got,
			s.round.Threshold)
	}
	var ids []uint32
	for id := range uint32(s.round.Devices) {
		if s.dealt.Has(id) {
			ids = append(ids, id)
		}
	}
	workers = max(1, min(workers, len(ids)))
	parts, errs := make([][]uint32, workers), make([]error, len(ids))
	var next atomic.Int64
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			parts[w] = make([]uint32, s.round.Length)
			var m masker
			for i := int(next.Add(1)) - 1; i < len(ids); i = int(next.Add(1)) - 1 {
				errs[i] = s.unmask(ids[i], &m, parts[w])
			}
		})
	}
	wait.Wait()
	if err := s.firstError(errs); err != nil {
		return nil, err
	}
	for _, p := range parts {
		for i, v := range p {
			s.sum[i] += v
		}
	}
	out := make([]int32, len(s.sum))
	shift := 32 - s.round.Bits
	for i, v := range s.sum { // the sign is the highest bit of the modulus
		out[i] = int32(v<<shift) >> shift
	}
	s.step, s.shares = done, nil
	return out, nil
}

// unmask adds to dst what removes a survivor's own mask, or the masks that survivors share
// with a device that dropped out.
func (s *Server) unmask(id uint32, m *masker, dst []uint32) error {
	if s.arrived.Has(id) {
		seed, err := s.open(id, func(b [keySize]byte) bool {
			got := commitment(b, s.context, id)
			return hmac.Equal(got[:], s.adverts[id].Commit[:])
		})
		if err != nil {
			return err
		}
		up := s.uploads[id]
		if want := uploadTag(seed, s.context, id, up.digest); !hmac.Equal(want[:], up.tag[:]) {
			return violation(id, "uploaded numbers that differ from those that its tag covers")
		}
		m.add(derive(seed[:], s.context, forSelf, id, id), true, dst)
		return nil
	}
	var key *ecdh.PrivateKey
	_, err := s.open(id, func(b [keySize]byte) (good bool) {
		k, err := ecdh.X25519().NewPrivateKey(b[:])
		key = k
		return err == nil && bytes.Equal(k.PublicKey().Bytes(), s.adverts[id].Mask[:])
	})
	if err != nil {
		return err
	}
	for _, v := range s.graph.neighbours(id) {
		if !s.arrived.Has(v) {
			continue
		}
		secret, err := agree(key, s.adverts[v].Mask)
		if err != nil {
			return violation(v, "has an invalid mask key: %v", err)
		}
		m.add(pairKey(secret, s.context, id, v), v < id, dst)
	}
	return nil
}

// firstError collects the violations among the errors of the devices. One of them is worth more
// than an error that says that too few shares are there.
func (s *Server) firstError(errs []error) (first error) {
	for _, err := range errs {
		var v *Violation
		if errors.As(err, &v) {
			s.violations = append(s.violations, v)
			if !errors.Is(first, ErrNoSum) {
				first = fmt.Errorf("%w: %w", ErrNoSum, err)
			}
		} else if first == nil {
			first = err
		}
	}
	return first
}

// open reconstructs a device's secret from its shares. All of them are what the device committed to,
// so it has lied if they do not give its secret.
func (s *Server) open(id uint32, good func([keySize]byte) bool) ([keySize]byte, error) {
	points, t := s.shares[id], s.round.Threshold
	if len(points) < t {
		return [keySize]byte{}, fmt.Errorf("%w: %d shares of device %d, at least %d required", ErrTooFew, len(points),
			id, t)
	}
	secret := combine(points[:t])
	if !good(secret) {
		return secret, violation(id, "sent shares that do not give the secret to which it committed")
	}
	return secret, nil
}
