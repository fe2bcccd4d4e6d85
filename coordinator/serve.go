package coordinator

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// Item is an item of the catalogue. Events of devices refer to its Id.
type Item = pb.Item

// Serve runs the rounds and serves the device API on l until ctx ends. Without a TLS
// configuration it serves plain HTTP, which is for tests. The admin API stays closed.
func (c *Coordinator) Serve(ctx context.Context, l net.Listener, secure *tls.Config) error {
	if l == nil {
		return errors.New("cannot serve without a listener: open one with net.Listen")
	}
	server, err := rpc.NewServer(c.Config())
	if err != nil {
		return err
	}
	c.CountRefusals(server.Refused)
	h := server.HTTP(secure)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() {
		err := c.Run(ctx)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		ended <- err
	}()
	go func() {
		var err error
		if secure != nil {
			err = h.ServeTLS(server.Listener(l), "", "")
		} else {
			err = h.Serve(server.Listener(l))
		}
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		ended <- err
	}()
	var first error
	running := 2
	select {
	case <-ctx.Done():
	case first = <-ended:
		running--
	}
	cancel()
	stop, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	first = errors.Join(first, h.Shutdown(stop))
	for ; running > 0; running-- {
		first = errors.Join(first, <-ended)
	}
	return first
}
