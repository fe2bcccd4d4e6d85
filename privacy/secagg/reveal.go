package secagg

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
)

// Confirm tells each surviving neighbour which lists this device received; only with
// Params.Active. It binds the device to these lists.
func (c *Client) Confirm(m *Lists) (*ShareBundle, error) {
	if !c.round.Active {
		return nil, errors.New("secagg: Confirm requires Params.Active; call Reveal")
	}
	digest, err := c.bindLists(m)
	if err != nil {
		return nil, err
	}
	out := &ShareBundle{Context: c.context, Step: stepConfirm, Self: c.id}
	for _, p := range c.peers {
		if m.Survivors.Has(p.id) {
			t := tag(derive(p.secret, c.context, forConfirm, c.id, p.id), digest)
			out.Shares = append(out.Shares, EncryptedShare{p.id, t[:]})
		}
	}
	return out, nil
}

// Reveal is step 3: it returns the shares that unmask the sum, and no others. With
// Params.Active it requires a bundle in which enough neighbours confirm the same lists that
// no other lists can be confirmed; otherwise echo is nil. For the same lists it repeats its
// answer; it refuses other lists.
func (c *Client) Reveal(m *Lists, echo *ShareBundle) (*Reveal, error) {
	digest, err := c.bindLists(m)
	if err != nil {
		return nil, err
	}
	if c.round.Active {
		if err := c.checkConfirmations(m, digest, echo); err != nil {
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

// bindLists checks lists and binds the device to them.
func (c *Client) bindLists(m *Lists) ([keySize]byte, error) {
	digest := m.digest()
	if err := c.checkLists(m, digest); err != nil {
		return digest, err
	}
	c.settled, c.lists = true, digest
	return digest, nil
}

// checkLists reports why a device must not respond to lists: each reason could
// reveal both secrets of a neighbour, or a sum over too few devices.
func (c *Client) checkLists(m *Lists, digest [keySize]byte) error {
	n := c.round.Devices
	switch {
	case c.step != 2:
		return fmt.Errorf("secagg: lists reached device %d before it uploaded", c.id)
	case m.Context != c.context:
		return errContext("list")
	case !m.Survivors.fits(n) || !m.Dropped.fits(n):
		return fmt.Errorf("secagg: lists contain IDs that were not invited, or are not for %d devices", n)
	case m.Survivors.meets(m.Dropped):
		return errors.New("secagg: lists overlap: a device either uploaded or dropped out")
	case !m.Survivors.within(c.present) || !m.Dropped.within(c.present):
		return errors.New("secagg: lists contain devices that were not on the roster")
	case !m.Survivors.Has(c.id):
		return fmt.Errorf("secagg: device %d uploaded but is not listed", c.id)
	case c.settled && c.lists != digest:
		return fmt.Errorf("secagg: device %d received other lists before and responds to one only", c.id)
	case m.Survivors.Count() < c.round.MinDevices:
		return fmt.Errorf("%w: %d survivors, at least %d required", ErrTooFew, m.Survivors.Count(), c.round.MinDevices)
	}
	holders := 1
	for _, p := range c.peers {
		survived, dropped := m.Survivors.Has(p.id), m.Dropped.Has(p.id)
		if p.shared != (survived || dropped) {
			return fmt.Errorf("secagg: device %d is listed but did not share keys, or shared keys and is not listed",
				p.id)
		}
		if survived {
			holders++
		}
	}
	if holders < c.round.Threshold {
		return fmt.Errorf("%w: %d holders of shares of device %d survived, at least %d required", ErrTooFew, holders,
			c.id,
			c.round.Threshold)
	}
	return nil
}

// checkConfirmations checks that a threshold of devices, including this one, confirms
// the lists. Every honest device confirms one list only, so with t > 2n/3 and fewer than n/3
// liars, at most one list is confirmed.
func (c *Client) checkConfirmations(m *Lists, digest [keySize]byte, echo *ShareBundle) error {
	if echo == nil || echo.Context != c.context || echo.Step != stepConfirm || echo.Self != c.id {
		return fmt.Errorf("secagg: device %d waits for a mail of step %d for it in this round, in which others "+
			"confirm the lists", c.id, stepConfirm)
	}
	votes := newSet(c.round.Devices)
	votes.add(c.id)
	for _, l := range echo.Shares {
		p := c.peer(l.Peer)
		if p == nil || !m.Survivors.Has(l.Peer) {
			return fmt.Errorf("secagg: device %d confirms lists to device %d and is not a surviving neighbour",
				l.Peer, c.id)
		}
		want := tag(derive(p.secret, c.context, forConfirm, p.id, c.id), digest)
		if hmac.Equal(want[:], l.Data) {
			votes.add(l.Peer)
		}
	}
	if got := votes.Count(); got < c.round.Threshold {
		return fmt.Errorf("%w: %d devices confirm the lists, at least %d required; others dropped out or saw "+
			"other lists", ErrTooFew,
			got, c.round.Threshold)
	}
	return nil
}
