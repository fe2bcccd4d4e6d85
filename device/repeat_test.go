package device

import (
	"context"
	"crypto/sha256"
	"slices"
	"testing"
)

// A device downloads a lost or corrupt model again at the next check-in, even if the coordinator has no newer
// one.
func TestDownloadsALostModelAgain(t *testing.T) {
	ctx := context.Background()
	for what, harm := range map[string]func(blobs map[[32]byte][]byte, h [32]byte){
		"lost":    func(blobs map[[32]byte][]byte, h [32]byte) { delete(blobs, h) },
		"cut":     func(blobs map[[32]byte][]byte, h [32]byte) { blobs[h] = blobs[h][:1] },
		"damaged": func(blobs map[[32]byte][]byte, h [32]byte) { blobs[h] = slices.Clone(blobs[h]); blobs[h][0] ^= 1 },
	} {
		f, members := start(t, "pfedrec", 2, "dim", "4")
		if out, err := members[0].open().Step(ctx); err != nil || out.State != counted {
			t.Fatal(out, err)
		}
		store := members[0].blobs.(*memoryBlobs)
		for h := range store.blobs {
			harm(store.blobs, h)
		}
		members[0].workspace = &Workspace{} // a restarted process
		d := members[0].open()
		if _, err := d.Recommend(3); err == nil {
			t.Errorf("%s: it recommends with a model that is not there", what)
		}
		if _, err := d.Step(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if l, err := d.Recommend(3); err != nil || len(l.Items) != 3 {
			t.Errorf("%s: after a check-in: %v", what, err)
		}
		for h, b := range store.blobs {
			if sha256.Sum256(b) != h {
				t.Errorf("%s: a blob is still not what its name says", what)
			}
		}
		n := f.fetched
		if _, err := d.Step(ctx); err != nil || f.fetched != n {
			t.Errorf("%s: what is there is fetched again: %v", what, err)
		}
	}
}

// A device makes one update per round. Another model version does not change that; only a rollback does.
func TestReportsOncePerRoundWhateverTheModel(t *testing.T) {
	ctx := context.Background()
	f, members := start(t, "pfedrec", 2, "dim", "4")
	if out, err := members[0].open().Step(ctx); err != nil || out.State != counted {
		t.Fatal(out, err)
	}
	clear(f.counted)
	f.mem.Value(f.plan.SentSlots()[0])[0]++
	f.publish()
	if out, err := members[0].open().Step(ctx); err == nil {
		t.Errorf("a round is answered on a second version: %+v", out)
	}
	for who, seen := range f.digests {
		if len(seen) != 1 {
			t.Errorf("%s has sent %d different reports", who, len(seen))
		}
	}
	f.rollbacks++
	f.publish()
	if out, err := members[0].open().Step(ctx); err != nil || out.State != counted {
		t.Errorf("after a rollback: %+v, %v", out, err)
	}
}

func TestChecksTextsForPeople(t *testing.T) {
	f, members := start(t, "pfedrec", 2, "dim", "4")
	ctx := context.Background()
	if _, err := members[0].open().Step(ctx); err != nil {
		t.Fatal(err)
	}
	f.why = "\x1b]0;x\x07"
	if out, err := members[0].open().Step(ctx); err == nil || out.Reason != "" {
		t.Errorf("%+v, %v", out, err)
	}
	f.name = "\x1b[2J"
	if out, err := members[1].open().Step(ctx); err == nil {
		t.Errorf("%+v", out)
	}
}
