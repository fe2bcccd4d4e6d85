package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Client is one device in one round. Its methods are called in the order Advert,
// Deal, Upload, with Params.Active Confirm, Reveal. What it refuses leaves it as it
// was. It is for one goroutine.
type Client struct {
	round   Round
	context [keySize]byte
	id      uint32
	rand    io.Reader

	box, mask *ecdh.PrivateKey
	seed      [keySize]byte // of its own mask

	step    int // how many of Deal and Upload were answered
	present Set
	peers   []neighbour
	own     [pairSize]byte // the share of its own secrets that it keeps
	settled bool
	lists   [keySize]byte // hash of the lists that it goes by, once settled
}

// neighbour is what a client knows of one.
type neighbour struct {
	id     uint32
	mask   [keySize]byte  // its mask key
	secret []byte         // shared with it by the keys for boxes
	dealt  bool           // its shares have come, so it masks with this client
	share  [pairSize]byte // of its secrets
	opened bool           // share is there: its box was good
}

// NewClient makes a device's part of a round and draws its keys from random; nil
// is crypto/rand. Whoever knows what was drawn knows the vector.
func NewClient(r Round, id uint32, random io.Reader) (*Client, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if uint64(id) >= uint64(r.Devices) {
		return nil, fmt.Errorf("secagg: device %d of %d: ids are below that", id, r.Devices)
	}
	if random == nil {
		random = rand.Reader
	}
	c := &Client{round: r, context: r.Context(), id: id, rand: random}
	var draw [3 * keySize]byte
	if _, err := io.ReadFull(random, draw[:]); err != nil {
		return nil, fmt.Errorf("secagg: random bytes for device %d: %w", id, err)
	}
	var err [2]error
	c.box, err[0] = ecdh.X25519().NewPrivateKey(draw[:keySize])
	c.mask, err[1] = ecdh.X25519().NewPrivateKey(draw[keySize : 2*keySize])
	copy(c.seed[:], draw[2*keySize:])
	clear(draw[:])
	return c, errors.Join(err[:]...)
}

// Advert is step 0.
func (c *Client) Advert() *Advert {
	m := &Advert{Context: c.context, From: c.id, Commit: commitment(c.seed, c.context, c.id)}
	copy(m.Box[:], c.box.PublicKey().Bytes())
	copy(m.Mask[:], c.mask.PublicKey().Bytes())
	return m
}

// commitment binds a seed. It hides it, since a seed has 256 random bits.
func commitment(seed, context [keySize]byte, id uint32) [keySize]byte {
	return derive(seed[:], context, forCommit, id, id)
}

// ShareKeys is step 1: it checks the roster against the graph, and seals to each
// neighbour its share of this device's seed and mask key. It answers once.
func (c *Client) ShareKeys(m *Roster) (*ShareBundle, error) {
	if c.step != 0 {
		return nil, fmt.Errorf("secagg: device %d has dealt its shares already; a second deal could open its secrets",
			c.id)
	}
	peers, err := c.meet(m)
	if err != nil {
		return nil, err
	}
	var secret [pairSize]byte
	copy(secret[:], c.seed[:])
	copy(secret[keySize:], c.mask.Bytes())
	shares := make([][pairSize]byte, len(peers)+1)
	if err := split(&secret, c.round.Threshold, shares, c.rand); err != nil {
		return nil, fmt.Errorf("secagg: random bytes for device %d: %w", c.id, err)
	}
	out := &ShareBundle{Context: c.context, Step: stepDeal, Self: c.id, Letters: make([]EncryptedShare, len(peers))}
	i := 0 // the place of its own share among those of its neighbours
	for i < len(peers) && peers[i].id < c.id {
		i++
	}
	c.own = shares[i]
	shares = append(shares[:i], shares[i+1:]...)
	for i, p := range peers {
		aead, extra := c.sealer(p.secret, c.id, p.id)
		out.Letters[i] = EncryptedShare{p.id, aead.Seal(nil, make([]byte, aead.NonceSize()), shares[i][:], extra)}
	}
	c.present, c.peers, c.step = append(Set{}, m.Present...), peers, 1
	return out, nil
}

// meet checks a roster and makes the neighbours of it.
func (c *Client) meet(m *Roster) ([]neighbour, error) {
	switch {
	case m.Context != c.context:
		return nil, errContext("roster")
	case m.To != c.id:
		return nil, fmt.Errorf("secagg: a roster for device %d came to device %d", m.To, c.id)
	case !m.Present.fits(c.round.Devices) || !m.Present.Has(c.id):
		return nil, fmt.Errorf("secagg: the roster of device %d lacks it, or names ids that were not invited", c.id)
	case m.Present.Count() < c.round.MinDevices:
		return nil, fmt.Errorf("%w: %d on the roster, want %d", ErrTooFew, m.Present.Count(), c.round.MinDevices)
	}
	want := newGraph(&c.round, m.Present).neighbours(c.id)
	if len(m.Peers) != len(want) {
		return nil, fmt.Errorf("secagg: %d keys for device %d, which has %d neighbours", len(m.Peers), c.id, len(want))
	}
	own := c.Advert()
	seen := map[[keySize]byte]bool{own.Box: true, own.Mask: true}
	out := make([]neighbour, len(want))
	for i, p := range m.Peers {
		if p.ID != want[i] {
			return nil, fmt.Errorf("secagg: a key of device %d for device %d, whose neighbour by the graph is %d",
				p.ID, c.id, want[i])
		}
		if seen[p.Box] || seen[p.Mask] || p.Box == p.Mask {
			return nil, fmt.Errorf("secagg: device %d has a key that is not its own", p.ID)
		}
		seen[p.Box], seen[p.Mask] = true, true
		secret, err := agree(c.box, p.Box)
		if err != nil {
			return nil, fmt.Errorf("secagg: the key of device %d: %w", p.ID, err)
		}
		out[i] = neighbour{id: p.ID, mask: p.Mask, secret: secret}
	}
	return out, nil
}

func errContext(what string) error {
	return fmt.Errorf("secagg: the %s is of another round, model or configuration", what)
}

// agree is the secret of two X25519 keys. Keys of low order are refused.
func agree(own *ecdh.PrivateKey, other [keySize]byte) ([]byte, error) {
	key, err := ecdh.X25519().NewPublicKey(other[:])
	if err != nil {
		return nil, err
	}
	return own.ECDH(key)
}

// sealer is the cipher for the one box from a device to another in this round:
// its key is used once, so the nonce may be zero. What is sealed is bound to the
// context, the step and both ids.
func (c *Client) sealer(secret []byte, from, to uint32) (cipher.AEAD, []byte) {
	key := derive(secret, c.context, forBox, from, to)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(badKey)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(badKey)
	}
	extra := append(c.context[:len(c.context):len(c.context)], stepDeal)
	extra = binary.LittleEndian.AppendUint32(extra, from)
	return aead, binary.LittleEndian.AppendUint32(extra, to)
}

// Upload is step 2: the vector under this device's own mask and those that it
// shares with the neighbours whose boxes are in the mail. It answers once: two
// vectors under the same masks would tell their difference. A box that does not
// open costs its sender a holder, not the round.
func (c *Client) Upload(m *ShareBundle, values []int32) (*Upload, error) {
	if c.step != 1 {
		return nil, fmt.Errorf("secagg: device %d uploads once, after it has dealt its shares", c.id)
	}
	if err := c.mayUpload(m, values); err != nil {
		return nil, err
	}
	good := 1
	for _, l := range m.Letters {
		p := c.peer(l.Peer)
		if p == nil {
			return nil, fmt.Errorf("secagg: a box from device %d, which is no neighbour of device %d", l.Peer, c.id)
		}
		aead, extra := c.sealer(p.secret, p.id, c.id)
		plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), l.Data, extra)
		p.dealt, p.opened = true, err == nil && len(plain) == pairSize
		if p.opened {
			copy(p.share[:], plain)
			good++
		}
	}
	if good < c.round.Threshold {
		c.forget()
		return nil, fmt.Errorf("%w: %d boxes for device %d are good, its own included, want %d", ErrTooFew, good, c.id,
			c.round.Threshold)
	}
	sum, err := c.masked(values)
	if err != nil {
		c.forget()
		return nil, err
	}
	out := &Upload{Context: c.context, From: c.id, Data: make([]byte, packedSize(len(sum), c.round.Bits))}
	pack(sum, c.round.Bits, out.Data)
	out.View = c.view()
	out.Tag = uploadTag(c.seed, c.context, c.id, out.digest())
	c.step = 2
	return out, nil
}

// mayUpload checks what does not need a key.
func (c *Client) mayUpload(m *ShareBundle, values []int32) error {
	switch {
	case m.Context != c.context:
		return errContext("mail")
	case m.Step != stepDeal || m.Self != c.id:
		return fmt.Errorf("secagg: a mail of step %d for device %d came to device %d, which waits for step %d", m.Step,
			m.Self, c.id, stepDeal)
	case len(values) != c.round.Length:
		return fmt.Errorf("secagg: a vector of %d numbers, want %d", len(values), c.round.Length)
	}
	for i, v := range values {
		if int64(v) > c.round.Max || int64(v) < -c.round.Max {
			return fmt.Errorf("secagg: number %d of the vector is over %d in magnitude: the sum could wrap", i,
				c.round.Max)
		}
	}
	for i := 1; i < len(m.Letters); i++ {
		if m.Letters[i].Peer <= m.Letters[i-1].Peer {
			return fmt.Errorf("secagg: two boxes of device %d, or boxes out of order", m.Letters[i].Peer)
		}
	}
	return nil
}

// forget undoes what a refused mail has left.
func (c *Client) forget() {
	for i := range c.peers {
		c.peers[i].dealt, c.peers[i].opened, c.peers[i].share = false, false, [pairSize]byte{}
	}
}

// masked is the vector under all masks, modulo 2^32: of two neighbours, the one
// with the lower id adds their mask and the other subtracts it.
func (c *Client) masked(values []int32) ([]uint32, error) {
	sum := make([]uint32, len(values))
	for i, v := range values {
		sum[i] = uint32(v)
	}
	var m masker
	m.add(derive(c.seed[:], c.context, forSelf, c.id, c.id), false, sum)
	for i := range c.peers {
		p := &c.peers[i]
		if !p.dealt {
			continue
		}
		secret, err := agree(c.mask, p.mask)
		if err != nil {
			return nil, fmt.Errorf("secagg: the mask key of device %d: %w", p.id, err)
		}
		m.add(pairKey(secret, c.context, c.id, p.id), c.id > p.id, sum)
	}
	return sum, nil
}

// view is the hash of the mask keys that the client has in hand.
func (c *Client) view() [keySize]byte {
	peers := []Peer{{ID: c.id, Mask: c.Advert().Mask}}
	for _, p := range c.peers {
		if p.dealt {
			peers = append(peers, Peer{ID: p.id, Mask: p.mask})
		}
	}
	return viewOf(c.context, peers)
}

// viewOf is the hash of the mask keys of a device and of the neighbours that it
// masks with. The server must find the same, or the masks would not cancel.
func viewOf(context [keySize]byte, peers []Peer) [keySize]byte {
	w := writer{}
	w.key(context)
	for i := range peers {
		w.u32(peers[i].ID)
		w.key(peers[i].Mask)
	}
	return sha256.Sum256(w.b)
}

func pairKey(secret []byte, context [keySize]byte, a, b uint32) [keySize]byte {
	return derive(secret, context, forPair, min(a, b), max(a, b))
}

// uploadTag binds an upload to its sender: the key comes from the seed, which the
// server learns only after all uploads are in.
func uploadTag(seed, context [keySize]byte, id uint32, digest [keySize]byte) [keySize]byte {
	return tag(derive(seed[:], context, forUpload, id, id), digest)
}

func tag(key, digest [keySize]byte) (out [keySize]byte) {
	h := hmac.New(sha256.New, key[:])
	h.Write(digest[:])
	h.Sum(out[:0])
	return out
}

func (c *Client) peer(id uint32) *neighbour {
	for i := range c.peers {
		if c.peers[i].id == id {
			return &c.peers[i]
		}
	}
	return nil
}
