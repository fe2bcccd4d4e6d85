package device

import (
	"context"
	"crypto/ed25519"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
)

// byteCounter adds up the messages of masked rounds.
type byteCounter struct {
	Conn
	sent *int
}

func (c byteCounter) Mask(ctx context.Context, r *pb.MaskRequest) (*pb.MaskResponse, error) {
	*c.sent += len(r.Message)
	return c.Conn.Mask(ctx, r)
}

// The log counts all messages of all attempts, including interrupted ones, and holds nothing that reveals
// the masked update.
func TestLogOfAMaskedReportCountsSentBytes(t *testing.T) {
	f, members := newMasked(t, privacy.MinMaskedGroup, true)
	sent, told := make([]int, len(members)), make([]int, len(members))
	for i, r := range members {
		r.change = func(o *Options) {
			dial := o.Dial
			o.Dial = func(key ed25519.PrivateKey) (Conn, error) {
				c, err := dial(key)
				return byteCounter{c, &sent[i]}, err
			}
		}
	}
	crashOn(members[0], "after mask 2", 1)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, r := range members {
		wg.Go(func() {
			out, _ := r.open().Step(ctx)
			if told[i] = out.Bytes; i == 0 { // the others would wait for it
				cancel()
			}
		})
	}
	wg.Wait()
	for i, r := range members {
		if told[i] != sent[i] || sent[i] == 0 {
			t.Errorf("device %d tells of %d bytes, and has sent %d", i, told[i], sent[i])
		}
		r.crash = func(string) error { return nil }
	}
	f.retry()
	together(t, members, f.isSummed)
	for i, r := range members {
		a, err := r.open().About()
		if err != nil || len(a.Log) != 1 || a.Log[0].State != counted || a.Log[0].Bytes != sent[i] ||
			a.Log[0].Digest != "" {
			t.Errorf("device %d has sent %d bytes, and logs %+v, %v", i, sent[i], a.Log, err)
		}
	}
}
