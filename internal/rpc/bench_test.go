package rpc

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
)

// A benchmark of signed calls over sockets: 64 devices report 20 kB each, with clients and server on the same cores.
func BenchmarkReports(b *testing.B) {
	st := newFakeCoordinator()
	const devices = 64
	for i := range devices {
		st.ids[fixed(keyOf(i))] = uint32(i)
	}
	s := st.open(b, Limits{KeyRate: -1}, true)
	shared := must[*http.Transport](b)(NewTransport(s.pin, 16))
	report := noise(20_000)
	q := &pb.ReportRequest{Round: 3, Digest: hashOf(report), Bytes: uint64(len(report)), Data: report}
	var clients []*Client
	for i := range devices {
		clients = append(clients, s.dial(b, keyOf(i), func(o *Options) { o.Transport = shared }))
		if _, err := clients[i].meet(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if _, err := c.Report(context.Background(), q); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
