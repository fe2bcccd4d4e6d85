package device

import (
	"context"
	"fmt"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// send uploads the saved report of a kind in pieces until its state is known. It sends the same
// bytes however often it is called.
func (d *Device) send(ctx context.Context, k pb.Kind) error {
	s := *d.record.report(k)
	size := uint64(len(s.data))
	piece := uint64(d.limits.PieceBytes)
	offset := uint64(0)
	for range 4*size/piece + 16 {
		resp, err := d.conn.Report(ctx, &pb.ReportRequest{
			Run: s.Run, Round: s.Round, Attempt: s.Attempt, Digest: s.Digest, Bytes: size,
			Offset: offset, Data: s.data[offset:min(offset+piece, size)], Kind: k,
		})
		if refused(err) {
			return d.setReportState(k, s, closed, rpc.Code(err))
		}
		if err != nil {
			return err
		}
		switch resp.State {
		case pb.ReportState_COUNTED:
			d.restAfter = min(time.Duration(resp.AfterMs)*time.Millisecond, maxWait)
			return d.setReportState(k, s, counted, "")
		case pb.ReportState_CLOSED:
			return d.setReportState(k, s, closed, "")
		case pb.ReportState_MORE: // a coordinator that lost the first pieces asks for them again
			if resp.Next >= size {
				return fmt.Errorf("the coordinator asks for byte %d of a report of %d bytes", resp.Next, size)
			}
			offset = resp.Next
		default:
			return fmt.Errorf("the coordinator answers a report with the unknown state %d", resp.State)
		}
	}
	return fmt.Errorf("the coordinator does not accept a report of %d bytes", size)
}

// setReportState saves the state of a report if it is new.
func (d *Device) setReportState(k pb.Kind, s *savedReport, state, reason string) error {
	if s.State == state {
		return nil
	}
	return d.update(func(r *record) error {
		r.setState(k, s.Digest, state, reason, d.opt.Now())
		return nil
	})
}
