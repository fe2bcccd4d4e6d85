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

// Client is one device in one round. Its methods are called in the order Advert, ShareKeys,
// Upload, Confirm (only with Params.Active), Reveal. A refused message does not change its
// state. It is not safe for concurrent use.
type Client struct {
	round   Round
	context [keySize]byte
	id      uint32
	rand    io.Reader

	box, mask *ecdh.PrivateKey
	seed      [keySize]byte // seed of its own mask

	step    int // number of ShareKeys and Upload that were answered
	present Set
	peers   []neighbour
	own     [pairSize]byte // the share of its own secrets that it keeps
	settled bool
	lists   [keySize]byte // hash of the lists that it is bound to
}

// neighbour is what a client knows about one neighbour.
type neighbour struct {
	id     uint32
	mask   [keySize]byte  // its mask key
	secret []byte         // shared secret for encrypted shares
	shared bool           // its shares arrived, so it masks with this client
	share  [pairSize]byte // of its secrets
	opened bool           // its share was decrypted
}

// NewClient returns a device's part of a round and draws its keys from random; nil means
// crypto/rand. The random bytes reveal the vector and must stay secret.
func NewClient(r Round, id uint32, random io.Reader) (*Client, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if uint64(id) >= uint64(r.Devices) {
		return nil, fmt.Errorf("secagg: device ID %d: must be below %d", id, r.Devices)
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

// Advert is step 0: it advertises the device's keys.
func (c *Client) Advert() *Advert {
	m := &Advert{Context: c.context, From: c.id, Commit: commitment(c.seed, c.context, c.id)}
	copy(m.Box[:], c.box.PublicKey().Bytes())
	copy(m.Mask[:], c.mask.PublicKey().Bytes())
	return m
}

// commitment binds and hides a seed: a seed has 256 random bits.
func commitment(seed, context [keySize]byte, id uint32) [keySize]byte {
	return derive(seed[:], context, forCommit, id, id)
}

// ShareKeys is step 1: it checks the roster against the graph and encrypts, for each
// neighbour, a share of this device's seed and mask key. It answers once.
func (c *Client) ShareKeys(m *Roster) (*ShareBundle, error) {
	if c.step != 0 {
		return nil, fmt.Errorf("secagg: device %d already shared its keys; sharing them twice could reveal its secrets",
			c.id)
	}
	peers, err := c.checkRoster(m)
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
	out := &ShareBundle{Context: c.context, Step: stepDeal, Self: c.id, Shares: make([]EncryptedShare, len(peers))}
	commit := func(holder uint32, share *[pairSize]byte) shareCommit {
		return commitShares(c.context, c.id, holder, share)
	}
	i := 0 // index of its own share among those of its neighbours
	for i < len(peers) && peers[i].id < c.id {
		i++
	}
	c.own = shares[i]
	out.Own = commit(c.id, &c.own)
	shares = append(shares[:i], shares[i+1:]...)
	for i, p := range peers {
		aead, extra := c.sealer(p.secret, c.id, p.id)
		sealed := aead.Seal(make([]byte, 0, shareBox), make([]byte, aead.NonceSize()), shares[i][:], extra)
		to := commit(p.id, &shares[i])
		out.Shares[i] = EncryptedShare{p.id, append(sealed, to[:]...)}
	}
	c.present, c.peers, c.step = append(Set{}, m.Present...), peers, 1
	return out, nil
}

// checkRoster checks a roster and returns its neighbours.
func (c *Client) checkRoster(m *Roster) ([]neighbour, error) {
	switch {
	case m.Context != c.context:
		return nil, errContext("roster")
	case m.To != c.id:
		return nil, fmt.Errorf("secagg: roster for device %d reached device %d", m.To, c.id)
	case !m.Present.fits(c.round.Devices) || !m.Present.Has(c.id):
		return nil, fmt.Errorf("secagg: roster of device %d does not list it, or lists IDs that were not invited", c.id)
	case m.Present.Count() < c.round.MinDevices:
		return nil, fmt.Errorf("%w: %d on the roster, at least %d required", ErrTooFew, m.Present.Count(),
			c.round.MinDevices)
	}
	want := newGraph(&c.round, m.Present).neighbours(c.id)
	if len(m.Peers) != len(want) {
		return nil, fmt.Errorf("secagg: roster has %d keys for device %d, which has %d neighbours", len(m.Peers), c.id,
			len(want))
	}
	own := c.Advert()
	seen := map[[keySize]byte]bool{own.Box: true, own.Mask: true}
	out := make([]neighbour, len(want))
	for i, p := range m.Peers {
		if p.ID != want[i] {
			return nil, fmt.Errorf("secagg: roster has a key of device %d for device %d, whose neighbour in the "+
				"graph is %d",
				p.ID, c.id, want[i])
		}
		if seen[p.Box] || seen[p.Mask] || p.Box == p.Mask {
			return nil, fmt.Errorf("secagg: device %d has the key of another device", p.ID)
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
	return fmt.Errorf("secagg: %s of another round, model or configuration", what)
}

// agree computes the shared secret of two X25519 keys. It refuses keys of low order.
func agree(own *ecdh.PrivateKey, other [keySize]byte) ([]byte, error) {
	key, err := ecdh.X25519().NewPublicKey(other[:])
	if err != nil {
		return nil, err
	}
	return own.ECDH(key)
}

// sealer is the cipher for the one encrypted share from a device to another in this round.
// Its key is used once, so the nonce may be zero. The ciphertext is bound to the context,
// the step and both IDs.
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

// Upload is step 2: the vector under this device's own mask and the masks that it shares
// with the neighbours in the bundle. It answers once: two vectors under the same masks
// would reveal their difference. If a share does not decrypt, or is not the one that its
// sender committed to, the device rejects it: its sender loses one holder, but the round
// continues.
func (c *Client) Upload(m *ShareBundle, values []int32) (*Upload, error) {
	if c.step != 1 {
		return nil, fmt.Errorf("secagg: device %d must upload once, after it shared its keys", c.id)
	}
	if err := c.mayUpload(m, values); err != nil {
		return nil, err
	}
	good := 1
	var rejected []uint32
	for _, l := range m.Shares {
		p := c.peer(l.Peer)
		if p == nil {
			return nil, fmt.Errorf("secagg: share from device %d, which is not a neighbour of device %d", l.Peer, c.id)
		}
		p.shared, p.opened = true, c.openShare(p, l.Data)
		if p.opened {
			good++
		} else {
			rejected = append(rejected, p.id)
		}
	}
	if good < c.round.Threshold {
		c.forget()
		return nil, fmt.Errorf("%w: %d shares of device %d are valid, including its own; at least %d required",
			ErrTooFew, good, c.id,
			c.round.Threshold)
	}
	sum, err := c.masked(values)
	if err != nil {
		c.forget()
		return nil, err
	}
	out := &Upload{
		Context: c.context, From: c.id, Rejected: rejected,
		Data: make([]byte, packedSize(len(sum), c.round.Bits)),
	}
	pack(sum, c.round.Bits, out.Data)
	out.View = c.view()
	out.Tag = uploadTag(c.seed, c.context, c.id, out.digest())
	c.step = 2
	return out, nil
}

// openShare decrypts a neighbour's shares, and reports whether they are those that the
// neighbour committed to.
func (c *Client) openShare(p *neighbour, data []byte) bool {
	if len(data) != shareBox {
		return false
	}
	aead, extra := c.sealer(p.secret, p.id, c.id)
	plain, err := aead.Open(p.share[:0], make([]byte, aead.NonceSize()), data[:sealedSize], extra)
	if err != nil || len(plain) != pairSize {
		return false
	}
	return commitShares(c.context, p.id, c.id, &p.share) == shareCommit(data[sealedSize:])
}

// mayUpload checks everything that requires no key.
func (c *Client) mayUpload(m *ShareBundle, values []int32) error {
	switch {
	case m.Context != c.context:
		return errContext("mail")
	case m.Step != stepDeal || m.Self != c.id:
		return fmt.Errorf("secagg: bundle of step %d for device %d reached device %d, which expects step %d", m.Step,
			m.Self, c.id, stepDeal)
	case len(values) != c.round.Length:
		return fmt.Errorf("secagg: vector of %d numbers, expected %d", len(values), c.round.Length)
	}
	for i, v := range values {
		if int64(v) > c.round.Max || int64(v) < -c.round.Max {
			return fmt.Errorf("secagg: number %d of the vector exceeds %d in magnitude: the sum could wrap", i,
				c.round.Max)
		}
	}
	for i := 1; i < len(m.Shares); i++ {
		if m.Shares[i].Peer <= m.Shares[i-1].Peer {
			return fmt.Errorf("secagg: shares of device %d are repeated or out of order", m.Shares[i].Peer)
		}
	}
	return nil
}

// forget undoes the effect of a refused bundle.
func (c *Client) forget() {
	for i := range c.peers {
		c.peers[i].shared, c.peers[i].opened, c.peers[i].share = false, false, [pairSize]byte{}
	}
}

// masked returns the vector under all masks, modulo 2^32. Of two neighbours, the one with
// the lower ID adds their mask and the other subtracts it.
func (c *Client) masked(values []int32) ([]uint32, error) {
	sum := make([]uint32, len(values))
	for i, v := range values {
		sum[i] = uint32(v)
	}
	var m masker
	m.add(derive(c.seed[:], c.context, forSelf, c.id, c.id), false, sum)
	for i := range c.peers {
		p := &c.peers[i]
		if !p.shared {
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

// view is the hash of the mask keys that the client holds.
func (c *Client) view() [keySize]byte {
	peers := []Peer{{ID: c.id, Mask: c.Advert().Mask}}
	for _, p := range c.peers {
		if p.shared {
			peers = append(peers, Peer{ID: p.id, Mask: p.mask})
		}
	}
	return viewOf(c.context, peers)
}

// viewOf is the hash of the mask keys of a device and of the neighbours that it masks with.
// The server must compute the same hash; otherwise the masks would not cancel.
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

// uploadTag binds an upload to its sender: the key derives from the seed, which the server
// learns only after all uploads.
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
