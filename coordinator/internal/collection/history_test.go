package collection

import (
	"errors"
	"slices"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

func TestClosedRoundsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, dir)
	c, err := New(st)
	if err != nil {
		t.Fatal(err)
	}
	for round := range uint32(3) {
		closed := Closed{Round: round, Rollbacks: 1, Devices: []uint32{2, 5}, Digests: []uint64{uint64(round) + 10, 0}}
		if err := c.History.Add(closed); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = openStore(t, dir)
	defer st.Close()
	if c, err = New(st); err != nil {
		t.Fatal(err)
	}
	h := c.History
	if !h.Contains(2, 1, 1, 11) || h.Contains(2, 1, 1, 12) || h.Contains(2, 1, 0, 11) || h.Contains(3, 1, 1, 11) {
		t.Error("a report is in the wrong sum")
	}
	if !h.ContainsMasked(5, 2, 0, 1) || h.ContainsMasked(5, 2, 1, 1) {
		t.Error("a masked report is in the wrong sum")
	}
	if remembered, contained := h.Find(2, 0, 10); !remembered || !contained {
		t.Error("round 0 is forgotten")
	}
	closed, err := h.Read(2)
	if err != nil || closed == nil || !slices.Equal(closed.Devices, []uint32{2, 5}) {
		t.Errorf("%+v, %v", closed, err)
	}
	if closed, err := h.Read(99); err != nil || closed != nil {
		t.Errorf("a round that did not close: %+v, %v", closed, err)
	}
}

// Which devices took part in which round is not kept for ever.
func TestOldRoundsAreForgotten(t *testing.T) {
	st := openStore(t, t.TempDir())
	defer st.Close()
	c, err := New(st)
	if err != nil {
		t.Fatal(err)
	}
	for round := uint32(0); round < 4*roundsPerLog; round += roundsPerLog / 4 {
		if err := c.History.Add(Closed{Round: round}); err != nil {
			t.Fatal(err)
		}
	}
	if logs := st.Logs(closedLogs); len(logs) != KeepLogs {
		t.Errorf("%d logs stay, expected %d", len(logs), KeepLogs)
	}
	if len(c.History.rounds) != maxRounds {
		t.Errorf("%d rounds are in memory", len(c.History.rounds))
	}
}

func TestParticipationOfAnEpoch(t *testing.T) {
	var p Participation
	p.Close([]uint32{1, 9, 1 << 24}, false)
	p.Exclude(4)
	if got := p.Eligible(nil, cohort(12)); !slices.Equal(got, []uint32{0, 2, 3, 5, 6, 7, 8, 10, 11}) {
		t.Errorf("eligible devices are %v", got)
	}
	if !p.Done(9) || !p.Done(4) || p.Done(3) || !p.Excluded(4) || p.Excluded(9) {
		t.Error("a device has the wrong status")
	}
	var q Participation
	if err := q.Load(p.Bytes()); err != nil || len(p.Bytes()) > 10 {
		t.Errorf("%d bytes for 3 devices, %v", len(p.Bytes()), err)
	}
	if !q.Done(1) || !q.Done(9) || !q.Done(1<<24) || q.Done(4) {
		t.Error("the devices in a sum are not restored")
	}
	p.Close([]uint32{2}, true)
	if got := p.Eligible(nil, cohort(12)); len(got) != 12 {
		t.Errorf("in a new epoch only %v are eligible", got)
	}
}

func TestUploadsInPieces(t *testing.T) {
	var u Uploads
	data := []byte("a report in three pieces")
	blob := wire.HashBlob(data)
	for at := 0; at < len(data); at += 10 {
		end := min(at+10, len(data))
		whole, next, err := u.Add(1, blob, uint64(at), data[at:end], 100)
		switch {
		case err != nil:
			t.Fatal(err)
		case end < len(data) && (whole != nil || next != uint64(end)):
			t.Errorf("after %d bytes the next piece is %d", end, next)
		case end == len(data) && string(whole) != string(data):
			t.Errorf("the report is %q", whole)
		}
	}
	if len(u.by) != 0 || u.held != 0 {
		t.Errorf("%d bytes of %d uploads are held", u.held, len(u.by))
	}
	if whole, next, err := u.Add(2, blob, 10, data[10:], 100); whole != nil || next != 0 || err != nil {
		t.Errorf("a piece without the first one: %d, %v", next, err)
	}
	if _, _, err := u.Add(1, blob, 0, data[:4], 100); err != nil {
		t.Fatal(err)
	}
	u.Clear()
	if len(u.by) != 0 || u.held != 0 {
		t.Errorf("after Clear %d bytes are held", u.held)
	}
	for reason, x := range map[Reason]struct {
		blob *pb.Blob
		data []byte
	}{
		Malformed: {&pb.Blob{Hash: blob.Hash}, nil},
		Oversized: {&pb.Blob{Hash: blob.Hash, Bytes: 101}, data},
		BadDigest: {&pb.Blob{Hash: make([]byte, 32), Bytes: uint64(len(data))}, data},
	} {
		_, _, err := u.Add(3, x.blob, 0, x.data, 100)
		var refused *UploadError
		if !errors.As(err, &refused) || refused.Reason != reason {
			t.Errorf("reason %d: %v", reason, err)
		}
	}
}

// FuzzUploads adds pieces in any order: nothing panics, and a complete report has its digest.
func FuzzUploads(f *testing.F) {
	f.Add([]byte{1, 0, 4, 1, 4, 9, 2, 0, 50, 1, 3, 3})
	f.Add([]byte{0, 0, 255, 0, 7, 1})
	data := []byte("a report that is sent in pieces of any size and in any order")
	f.Fuzz(func(t *testing.T, input []byte) {
		var u Uploads
		for ; len(input) >= 3; input = input[3:] {
			id, at := uint32(input[0]%3), uint64(input[1])
			from := min(int(at), len(data))
			end := min(from+int(input[2]), len(data))
			whole, next, err := u.Add(id, wire.HashBlob(data), at, data[from:end], 1000)
			if whole != nil && string(whole) != string(data) {
				t.Fatalf("the report is %q", whole)
			}
			if err == nil && next > uint64(len(data)) {
				t.Fatalf("the next piece is %d", next)
			}
		}
		held := uint64(0)
		for _, a := range u.by {
			held += a.Next()
		}
		if held != u.held {
			t.Fatalf("%d bytes are held, the count is %d", held, u.held)
		}
	})
}
