package rpc

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/wire"
	"github.com/tacit-rec/tacit/wire/pb"
)

// FetchBlob fetches a blob in pieces and sees that it has its hash. After an error, the
// next call for the same blob goes on where this one ended.
func (c *Client) FetchBlob(ctx context.Context, blob *pb.Blob) ([]byte, error) {
	a, err := c.resume(blob)
	if err != nil {
		return nil, err
	}
	for !a.Done() {
		p, err := c.Fetch(ctx, &pb.FetchRequest{Hash: blob.Hash, Offset: a.Next()})
		if err != nil {
			c.keep(a)
			return nil, err
		}
		if len(p.Data) == 0 {
			return nil, fmt.Errorf("rpc: blob %x: an empty piece at %d of %d bytes", blob.Hash[:4], a.Next(), blob.Bytes)
		}
		if err := a.Add(a.Next(), p.Data); err != nil {
			return nil, fmt.Errorf("rpc: blob %x: %w", blob.Hash[:4], err)
		}
	}
	return a.Bytes()
}

// resume is what there is of a blob. It is taken out, so that two calls do not share it.
func (c *Client) resume(blob *pb.Blob) (*wire.Assembly, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.part; a != nil && a.Is(blob) {
		c.part = nil
		return a, nil
	}
	return wire.Assemble(blob, c.options.Most)
}

func (c *Client) keep(a *wire.Assembly) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part = a
}

// pieces sends a message in pieces. It begins at the start, or where the coordinator says
// that it has all before: one that has lost what it had gets it again, a few times.
func (c *Client) pieces(ctx context.Context, all []byte, send func(offset uint64, data []byte) (next uint64, more bool, err error)) error {
	size, err := c.pieceSize(ctx)
	if err != nil {
		return err
	}
	at := uint64(0)
	for calls := 8 + 4*(len(all)/size+1); calls > 0; calls-- {
		end := min(at+uint64(size), uint64(len(all)))
		next, more, err := send(at, all[at:end])
		if err != nil || !more {
			return err
		}
		if next > end || end == uint64(len(all)) && next == end {
			return fmt.Errorf("rpc: the coordinator asks for byte %d of %d after byte %d", next, len(all), end)
		}
		at = next
	}
	return fmt.Errorf("rpc: the coordinator has asked for the pieces of %d bytes again and again", len(all))
}

func (c *Client) pieceSize(ctx context.Context) (int, error) {
	c.mu.Lock()
	h := c.hello
	c.mu.Unlock()
	if h == nil {
		var err error
		if h, err = c.Meet(ctx); err != nil {
			return 0, err
		}
	}
	return int(h.Limits.PieceBytes), nil
}

// SendReport sends a report in pieces. Of the request, run, round, attempt and kind are
// the caller's. It ends with COUNTED or CLOSED; after an error it may be called again.
func (c *Client) SendReport(ctx context.Context, q *pb.ReportRequest, report []byte) (*pb.ReportResponse, error) {
	q = proto.CloneOf(q)
	name := wire.Name(report)
	q.Digest, q.Bytes = name.Hash, name.Bytes
	var last *pb.ReportResponse
	err := c.pieces(ctx, report, func(offset uint64, data []byte) (uint64, bool, error) {
		q.Offset, q.Data = offset, data
		a, err := c.Report(ctx, q)
		last = a
		return a.GetNext(), a.GetFate() == pb.Fate_MORE, err
	})
	if err != nil {
		return nil, err
	}
	if last.Fate != pb.Fate_COUNTED && last.Fate != pb.Fate_CLOSED {
		return nil, fmt.Errorf("rpc: the fate of a report is %v: want counted or closed", last.Fate)
	}
	return last, nil
}

// SendMask sends the message of a step of secure aggregation in pieces. Of the request,
// run, round, attempt and step are the caller's. To ask for a message, call Mask.
func (c *Client) SendMask(ctx context.Context, q *pb.MaskRequest, message []byte) (*pb.MaskResponse, error) {
	q = proto.CloneOf(q)
	q.Bytes = uint64(len(message))
	var last *pb.MaskResponse
	err := c.pieces(ctx, message, func(offset uint64, data []byte) (uint64, bool, error) {
		q.Offset, q.Message = offset, data
		a, err := c.Mask(ctx, q)
		last = a
		return a.GetNext(), a.GetState() == pb.MaskResponse_PART, err
	})
	return last, err
}
