package secagg

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
)

// Confirm tells each surviving neighbour which lists this device was shown; only
// with Params.Active. From then on it goes by these lists and no others.
func (c *Client) Confirm(m *Lists) (*ShareBundle, error) {
	if !c.round.Active {
		return nil, errors.New("secagg: devices confirm lists only with Active; call Reveal")
	}
	digest, err := c.settle(m)
	if err != nil {
		return nil, err
	}
	out := &ShareBundle{Context: c.context, Step: stepConfirm, Self: c.id}
	for _, p := range c.peers {
		if m.Survivors.Has(p.id) {
			t := tag(derive(p.secret, c.context, forConfirm, c.id, p.id), digest)
			out.Letters = append(out.Letters, EncryptedShare{p.id, t[:]})
		}
	}
	return out, nil
}

// Reveal is step 3: the shares that take the masks off the sum, and no others.
// With Params.Active it asks for a mail in which neighbours confirm the same
// lists, so many that no other lists can be confirmed; else echo is nil. Asked
// again with the same lists it answers the same; with others it refuses.
func (c *Client) Reveal(m *Lists, echo *ShareBundle) (*Reveal, error) {
	digest, err := c.settle(m)
	if err != nil {
		return nil, err
	}
	if c.round.Active {
		if err := c.heard(m, digest, echo); err != nil {
			return nil, err
		}
	}
	out := &Reveal{Context: c.context, From: c.id, Lists: digest}
	out.Shares = append(out.Shares, Share{c.id, [keySize]byte(c.own[:keySize])})
	for _, p := range c.peers {
		switch {
		case !p.opened:
		case m.Survivors.Has(p.id):
			out.Shares = append(out.Shares, Share{p.id, [keySize]byte(p.share[:keySize])})
		case m.Dropped.Has(p.id):
			out.Shares = append(out.Shares, Share{p.id, [keySize]byte(p.share[keySize:])})
		}
	}
	slices.SortFunc(out.Shares, func(a, b Share) int { return int(a.Of) - int(b.Of) })
	return out, nil
}

// settle checks lists and binds the device to them.
func (c *Client) settle(m *Lists) ([keySize]byte, error) {
	digest := m.digest()
	if err := c.consent(m, digest); err != nil {
		return digest, err
	}
	c.settled, c.lists = true, digest
	return digest, nil
}

// consent reports why a device must not answer lists: with any of these it could
// give away both secrets of a neighbour, or a sum of too few.
func (c *Client) consent(m *Lists, digest [keySize]byte) error {
	n := c.round.Devices
	switch {
	case c.step != 2:
		return fmt.Errorf("secagg: lists came to device %d before it uploaded", c.id)
	case m.Context != c.context:
		return errContext("list")
	case !m.Survivors.fits(n) || !m.Dropped.fits(n):
		return fmt.Errorf("secagg: the lists name ids that were not invited, or are not for %d devices", n)
	case m.Survivors.meets(m.Dropped):
		return errors.New("secagg: the lists overlap: a device either survived or dropped")
	case !m.Survivors.within(c.present) || !m.Dropped.within(c.present):
		return errors.New("secagg: the lists name devices that were not on the roster")
	case !m.Survivors.Has(c.id):
		return fmt.Errorf("secagg: device %d uploaded and is not among the survivors", c.id)
	case c.settled && c.lists != digest:
		return fmt.Errorf("secagg: device %d was shown other lists before; it answers one", c.id)
	case m.Survivors.Count() < c.round.MinDevices:
		return fmt.Errorf("%w: %d survivors, want %d", ErrTooFew, m.Survivors.Count(), c.round.MinDevices)
	}
	holders := 1
	for _, p := range c.peers {
		survived, dropped := m.Survivors.Has(p.id), m.Dropped.Has(p.id)
		if p.dealt != (survived || dropped) {
			return fmt.Errorf("secagg: device %d is on a list without having dealt shares, or dealt them and is on none", p.id)
		}
		if survived {
			holders++
		}
	}
	if holders < c.round.Threshold {
		return fmt.Errorf("%w: %d of those who hold shares of device %d survived, want %d", ErrTooFew, holders, c.id,
			c.round.Threshold)
	}
	return nil
}

// heard sees that a threshold of devices, this one included, confirms the lists.
// Every device confirms one list only, so with t > 2n/3 and fewer than n/3 that
// lie, no two lists are both heard of.
func (c *Client) heard(m *Lists, digest [keySize]byte, echo *ShareBundle) error {
	if echo == nil || echo.Context != c.context || echo.Step != stepConfirm || echo.Self != c.id {
		return fmt.Errorf("secagg: device %d waits for a mail of step %d for it in this round, in which others "+
			"confirm the lists", c.id, stepConfirm)
	}
	votes := newSet(c.round.Devices)
	votes.add(c.id)
	for _, l := range echo.Letters {
		p := c.peer(l.Peer)
		if p == nil || !m.Survivors.Has(l.Peer) {
			return fmt.Errorf("secagg: device %d confirms lists to device %d and is no neighbour of it that survived",
				l.Peer, c.id)
		}
		want := tag(derive(p.secret, c.context, forConfirm, p.id, c.id), digest)
		if hmac.Equal(want[:], l.Data) {
			votes.add(l.Peer)
		}
	}
	if got := votes.Count(); got < c.round.Threshold {
		return fmt.Errorf("%w: %d devices confirm the lists, want %d; either they left or the lists differ", ErrTooFew,
			got, c.round.Threshold)
	}
	return nil
}
