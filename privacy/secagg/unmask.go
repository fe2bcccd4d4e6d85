package secagg

import (
	"bytes"
	"cmp"
	"crypto/ecdh"
	"crypto/hmac"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Sum removes the masks and returns the sum of the survivors' vectors. The result and the
// error are the same for any number of workers. If secrets cannot be reconstructed or an
// upload was altered, it returns ErrNoSum, or ErrTooFew if too few devices revealed shares.
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
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
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
			return fmt.Errorf("%w: the upload of device %d is not what it sent", ErrNoSum, id)
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
			return fmt.Errorf("%w: the mask key of device %d: %w", ErrNoSum, v, err)
		}
		m.add(pairKey(secret, s.context, id, v), v < id, dst)
	}
	return nil
}

// open reconstructs a device's secret from its shares. If some are wrong, it tries each run
// of threshold shares, so a few liars do not end the round.
func (s *Server) open(id uint32, good func([keySize]byte) bool) ([keySize]byte, error) {
	points, t := s.shares[id], s.round.Threshold
	if len(points) < t {
		return [keySize]byte{}, fmt.Errorf("%w: %d shares of device %d, at least %d required", ErrTooFew, len(points),
			id, t)
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	points = append(points, points[:t-1]...)
	for i := range len(points) - t + 1 {
		if secret := combine(points[i : i+t]); good(secret) {
			return secret, nil
		}
	}
	return [keySize]byte{}, fmt.Errorf("%w: shares of device %d do not fit what it committed to", ErrNoSum, id)
}
