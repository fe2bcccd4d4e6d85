package fleet_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb/pbconnect"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// The coordinator cuts and counts clients that send too slowly or nothing, while rounds continue.
func TestSlowClientsDoNotDelayOthers(t *testing.T) {
	split := world(t)
	s := settings(split, "fedmf", "dim", "4")
	s.Rounds = 8
	r := openWith(t, filepath.Join(t.TempDir(), "state"), split, &s, rpc.Limits{
		AddressRate: -1, KeyRate: 1000,
		Grace: 700 * time.Millisecond, MinRate: 1 << 10,
	})
	address := strings.TrimPrefix(r.opt.URL, "http://")
	const each = 50
	var cut atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 * each {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		say := ""
		switch i % 3 {
		case 0: // a body without an end
			say = fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nContent-Length: "+
				"400\r\n\r\n", pbconnect.FederationHelloProcedure)
		case 1: // a header without an end
			say = "POST /"
		}
		if _, err := c.Write([]byte(say)); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for i%3 < 2 {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if _, err := c.Write([]byte("x")); err != nil {
					cut.Add(1)
					return
				}
			}
		})
	}
	r.run(nil, uint32(s.Rounds))
	same(t, r.newest(), simulated(t, split, s))
	waitFor(t, func() bool { return cut.Load() == 2*each })
	close(stop)
	wg.Wait()
	// A busy machine may be too slow by itself; the device then checks in again.
	// Of one address few slow calls may wait at the same time: others end earlier, as slow_down.
	st := r.status()
	if n := st.Counts["refused_"+rpc.TooSlow] + st.Counts["refused_"+rpc.SlowDown]; n < each {
		t.Errorf("%d slow calls were counted, want %d or more: %v", n, each, st.Counts)
	}
}
