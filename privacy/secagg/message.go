package secagg

import (
	"crypto/sha256"
	"fmt"
)

// The steps that send a ShareBundle.
const (
	stepDeal    = 1 // encrypted shares, to and from neighbours
	stepConfirm = 3 // tags over the lists, with Params.Active
)

const (
	sealedSize = pairSize + 16           // two shares and the tag of AES-GCM
	shareBox   = sealedSize + commitSize // and what commits their owner to them
	confirmBox = keySize
)

// Advert is step 0: a device's keys for this round.
type Advert struct {
	Context [keySize]byte
	From    uint32
	Box     [keySize]byte // X25519 key to which shares are encrypted
	Mask    [keySize]byte // X25519 key from which pairwise masks derive
	Commit  [keySize]byte // commitment to the seed of its own mask
}

// Peer is a neighbour's keys.
type Peer struct {
	ID        uint32
	Box, Mask [keySize]byte
}

// Roster is the server's answer to step 0 for one device: the participants, and the keys of
// the device's neighbours in ascending order.
type Roster struct {
	Context [keySize]byte
	To      uint32
	Present Set
	Peers   []Peer
}

// EncryptedShare is a message from one neighbour to another, encrypted or authenticated: the
// server that relays it can neither read nor change it.
type EncryptedShare struct {
	Peer uint32 // the recipient in a bundle from a device, the sender in a bundle to a device
	Data []byte
}

// ShareBundle holds the shares from a device to its neighbours, or from them to a device,
// ascending by peer. All shares have the same length.
type ShareBundle struct {
	Context [keySize]byte
	Step    uint8
	Self    uint32      // the device that sends or receives it
	Own     shareCommit // in step 1, from a device: to the shares that it keeps
	Shares  []EncryptedShare
}

// Upload is step 2: a masked vector.
type Upload struct {
	Context [keySize]byte
	From    uint32
	View    [keySize]byte // hash of the mask keys that were used
	Tag     [keySize]byte // under a key that is revealed with the sender's own mask
	// Rejected lists the neighbours whose shares the sender could not decrypt, or that are not
	// those to which they committed; ascending. The sender reveals no share of them.
	Rejected []uint32
	Data     []byte // Length numbers of Bits each, lowest bits first
}

// Lists is the server's answer to step 2: the devices whose vectors are in the sum, and the
// devices that shared keys and then dropped out. Devices on neither list dropped out before.
type Lists struct {
	Context   [keySize]byte
	Survivors Set
	Dropped   Set
}

// Share is a piece of one secret of a device.
type Share struct {
	Of   uint32
	Data [keySize]byte
}

// Reveal is step 3: a share of the mask seed of each neighbour that survived and
// of the sender's own, and of the mask key of each that dropped, except of those that the
// sender rejected; ascending.
type Reveal struct {
	Context [keySize]byte
	From    uint32
	Lists   [keySize]byte // hash of the lists to which it responds
	Shares  []Share
}

// digest is the hash of the lists.
func (m *Lists) digest() [keySize]byte {
	b, _ := m.MarshalBinary()
	return sha256.Sum256(b)
}

// digest is the hash that an upload's tag covers.
func (m *Upload) digest() [keySize]byte {
	h := sha256.New()
	w := writer{}
	w.head(kindUpload, m.Context)
	w.u32(m.From)
	w.key(m.View)
	w.ids(m.Rejected)
	h.Write(w.b)
	h.Write(m.Data)
	var out [keySize]byte
	h.Sum(out[:0])
	return out
}

// MarshalBinary writes the binary form.
func (m *Advert) MarshalBinary() ([]byte, error) {
	w := writer{}
	w.head(kindAdvert, m.Context)
	w.u32(m.From)
	w.key(m.Box)
	w.key(m.Mask)
	w.key(m.Commit)
	return w.b, nil
}

// UnmarshalBinary parses the binary form. On an error it does not change m.
func (m *Advert) UnmarshalBinary(b []byte) error {
	var out Advert
	r := reader{b: b}
	out.Context = r.head(kindAdvert)
	out.From, out.Box, out.Mask, out.Commit = r.u32(), r.key(), r.key(), r.key()
	if err := r.end("an advert"); err != nil {
		return err
	}
	*m = out
	return nil
}

// MarshalBinary writes the binary form.
func (m *Roster) MarshalBinary() ([]byte, error) {
	w := writer{}
	w.head(kindRoster, m.Context)
	w.u32(m.To)
	w.set(m.Present)
	w.u32(uint32(len(m.Peers)))
	for i := range m.Peers {
		w.u32(m.Peers[i].ID)
		w.key(m.Peers[i].Box)
		w.key(m.Peers[i].Mask)
	}
	return w.b, nil
}

// UnmarshalBinary parses the binary form. On an error it does not change m.
func (m *Roster) UnmarshalBinary(b []byte) error {
	var out Roster
	r := reader{b: b}
	out.Context = r.head(kindRoster)
	out.To, out.Present = r.u32(), r.set()
	out.Peers = make([]Peer, r.count(4+2*keySize))
	for i := range out.Peers {
		out.Peers[i] = Peer{r.u32(), r.key(), r.key()}
		r.ascends(i, out.Peers[i].ID)
	}
	if err := r.end("a roster"); err != nil {
		return err
	}
	*m = out
	return nil
}

// MarshalBinary writes the binary form. It refuses shares whose length does not fit the step.
func (m *ShareBundle) MarshalBinary() ([]byte, error) {
	w := writer{}
	w.head(kindMail, m.Context)
	w.b = append(w.b, m.Step)
	w.u32(m.Self)
	w.key(m.Own)
	w.u32(uint32(len(m.Shares)))
	for _, l := range m.Shares {
		if len(l.Data) != encryptedShareSize(m.Step) {
			return nil, fmt.Errorf("secagg: share of %d bytes in a bundle of step %d, expected %d bytes",
				len(l.Data), m.Step, encryptedShareSize(m.Step))
		}
		w.u32(l.Peer)
		w.b = append(w.b, l.Data...)
	}
	return w.b, nil
}

// encryptedShareSize is the length of every share of a step; 0 if the step has none.
func encryptedShareSize(step uint8) int {
	switch step {
	case stepDeal:
		return shareBox
	case stepConfirm:
		return confirmBox
	}
	return 0
}

// UnmarshalBinary parses the binary form. On an error it does not change m.
// Shares alias b.
func (m *ShareBundle) UnmarshalBinary(b []byte) error {
	var out ShareBundle
	r := reader{b: b}
	out.Context = r.head(kindMail)
	out.Step, out.Self, out.Own = r.u8(), r.u32(), r.key()
	size := encryptedShareSize(out.Step)
	if size == 0 {
		r.fail(fmt.Errorf("secagg: bundle of step %d: must be %d or %d", out.Step, stepDeal, stepConfirm))
	}
	out.Shares = make([]EncryptedShare, r.count(4+size))
	for i := range out.Shares {
		out.Shares[i] = EncryptedShare{r.u32(), r.bytes(size)}
		r.ascends(i, out.Shares[i].Peer)
	}
	if err := r.end("a mail"); err != nil {
		return err
	}
	*m = out
	return nil
}

// MarshalBinary writes the binary form.
func (m *Upload) MarshalBinary() ([]byte, error) {
	w := writer{b: make([]byte, 0, headSize+4+2*keySize+4+4*len(m.Rejected)+4+len(m.Data))}
	w.head(kindUpload, m.Context)
	w.u32(m.From)
	w.key(m.View)
	w.key(m.Tag)
	w.ids(m.Rejected)
	w.u32(uint32(len(m.Data)))
	w.b = append(w.b, m.Data...)
	return w.b, nil
}

// UnmarshalBinary parses the binary form. On an error it does not change m. Data
// aliases b.
func (m *Upload) UnmarshalBinary(b []byte) error {
	var out Upload
	r := reader{b: b}
	out.Context = r.head(kindUpload)
	out.From, out.View, out.Tag, out.Rejected = r.u32(), r.key(), r.key(), r.ids()
	out.Data = r.bytes(r.count(1))
	if err := r.end("an upload"); err != nil {
		return err
	}
	*m = out
	return nil
}

// MarshalBinary writes the binary form.
func (m *Lists) MarshalBinary() ([]byte, error) {
	w := writer{}
	w.head(kindLists, m.Context)
	w.set(m.Survivors)
	w.set(m.Dropped)
	return w.b, nil
}

// UnmarshalBinary parses the binary form. On an error it does not change m.
func (m *Lists) UnmarshalBinary(b []byte) error {
	var out Lists
	r := reader{b: b}
	out.Context = r.head(kindLists)
	out.Survivors, out.Dropped = r.set(), r.set()
	if err := r.end("lists"); err != nil {
		return err
	}
	*m = out
	return nil
}

// MarshalBinary writes the binary form.
func (m *Reveal) MarshalBinary() ([]byte, error) {
	w := writer{}
	w.head(kindReveal, m.Context)
	w.u32(m.From)
	w.key(m.Lists)
	w.u32(uint32(len(m.Shares)))
	for i := range m.Shares {
		w.u32(m.Shares[i].Of)
		w.key(m.Shares[i].Data)
	}
	return w.b, nil
}

// UnmarshalBinary parses the binary form. On an error it does not change m.
func (m *Reveal) UnmarshalBinary(b []byte) error {
	var out Reveal
	r := reader{b: b}
	out.Context = r.head(kindReveal)
	out.From, out.Lists = r.u32(), r.key()
	out.Shares = make([]Share, r.count(4+keySize))
	for i := range out.Shares {
		out.Shares[i] = Share{r.u32(), r.key()}
		r.ascends(i, out.Shares[i].Of)
	}
	if err := r.end("a reveal"); err != nil {
		return err
	}
	*m = out
	return nil
}
