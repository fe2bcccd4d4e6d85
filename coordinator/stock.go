package coordinator

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// Items adds items or changes them, from the next round on.
func (d desk) Items(_ context.Context, r *pb.ItemsRequest) (*pb.ItemsResponse, error) {
	if !d.begun() {
		return nil, errNoRun
	}
	if len(r.Items) == 0 || len(r.Items) > 100_000 {
		return nil, refusal(connect.CodeInvalidArgument, fmt.Errorf("%d items at once: want 1 to 100000", len(r.Items)))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	pending := append(slices.Clone(d.pending), r.Items...)
	merged, added, changed, err := restocked(d.catalogue, pending)
	if err == nil {
		_, err = described(d.settings.Features, d.catalogue, pending)
	}
	if err != nil {
		return nil, refusal(connect.CodeInvalidArgument, err)
	}
	_, before, altered, err := restocked(d.catalogue, d.pending)
	if err != nil {
		return nil, err
	}
	if err := d.wait(r.Items); err != nil {
		return nil, err
	}
	out := &pb.ItemsResponse{
		Version: merged.Version, Added: uint32(added - before),
		Changed: uint32(changed - altered), Waiting: uint32(len(d.pending)),
	}
	d.pending = pending
	d.stir()
	return out, nil
}

// restocked is a catalogue with items added and changed.
func restocked(c *pb.Catalogue, items []*pb.Item) (out *pb.Catalogue, added, changed int, err error) {
	out = proto.Clone(c).(*pb.Catalogue)
	out.Version++
	at := map[string]int{}
	for i, it := range out.Items {
		at[it.Id] = i
	}
	for _, it := range items {
		it = proto.Clone(it).(*pb.Item)
		it.Features = nil // see described
		if i, known := at[it.Id]; known {
			if it.Title == "" {
				it.Title = out.Items[i].Title
			}
			out.Items[i] = it
			changed++
			continue
		}
		at[it.Id] = len(out.Items)
		out.Items = append(out.Items, it)
		added++
	}
	b, err := wire.Marshal(out)
	if err == nil {
		_, err = wire.ReadCatalogue(b, len(out.Items))
	}
	return out, added, changed, err
}

// restock takes waiting items into the catalogue, as a new version of the model.
func (c *Coordinator) restock() error {
	c.mu.Lock()
	pending := c.pending
	c.mu.Unlock()
	// a round that a kill cut off has reports of the old catalogue
	if len(pending) == 0 || len(c.st.Logs("round.")) > 0 {
		return nil
	}
	next, _, _, err := restocked(c.catalogue, pending)
	if err == nil {
		err = c.growWith(len(next.Items), pending)
	}
	if err != nil {
		c.opt.Warn(fmt.Sprintf("items were not taken: %v", err))
	} else {
		c.mu.Lock()
		c.catalogue = next
		c.mu.Unlock()
		if err := c.save(&version{}); err != nil {
			return err
		}
	}
	if err := c.point("restocked"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending = c.pending[len(pending):]; len(c.pending) > 0 {
		return nil // others came meanwhile, after those that are in: to take all of them again changes nothing
	}
	return c.st.Drop(pendingLog)
}

// pendingLog is items that wait for the next round.
const pendingLog = "pending"

// wait writes items down that are to be taken.
func (c *Coordinator) wait(items []*pb.Item) error {
	b, err := proto.Marshal(&pb.ItemsRequest{Items: items})
	if err != nil {
		return err
	}
	return c.st.Append(pendingLog, b)
}

// waiting loads them.
func (c *Coordinator) waiting() error {
	return c.st.Replay(pendingLog, func(b []byte) error {
		r := &pb.ItemsRequest{}
		err := proto.Unmarshal(b, r)
		c.pending = append(c.pending, r.Items...)
		return err
	})
}
