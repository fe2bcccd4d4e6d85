package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
)

// code is the stable word of an error that a coordinator has sent.
func code(err error) string { return rpc.Code(err) }

func hasCode(err error, words ...string) bool {
	c := code(err)
	return c != "" && slices.Contains(words, c)
}

// refused reports whether a coordinator will never take a report.
func refused(err error) bool {
	return hasCode(err, rpc.WrongRun, rpc.WrongRound, rpc.NotInCohort, rpc.Malformed, rpc.Oversized, rpc.OverBound,
		rpc.BadDigest, rpc.NotMasked)
}

// fatal reports whether no later step can do better.
func fatal(err error) bool {
	for _, e := range []error{ErrDeterministic, ErrWrongCoordinator, ErrRevoked, ErrTooLarge, ErrFeatures} {
		if errors.Is(err, e) {
			return true
		}
	}
	return hasCode(err, rpc.Revoked, rpc.BadToken, rpc.WrongVersion, rpc.UnknownKey)
}

// send brings the report of a kind to the coordinator, in pieces, until its fate is
// known. It is the same report however often it is sent.
func (d *Device) send(ctx context.Context, k pb.Kind) error {
	s := *d.record.report(k)
	size, at := uint64(len(s.data)), uint64(0)
	calls := 4*size/uint64(d.limits.PieceBytes) + 16
	for range calls {
		piece := s.data[at:min(at+uint64(d.limits.PieceBytes), size)]
		req := &pb.ReportRequest{
			Run: s.Run, Round: s.Round, Attempt: s.Attempt, Digest: s.Digest, Bytes: size,
			Offset: at, Data: piece, Kind: k,
		}
		resp, err := d.conn.Report(ctx, req)
		if refused(err) {
			return d.setReportState(k, s, closed, code(err))
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
		case pb.ReportState_MORE: // one that has forgotten the first pieces asks for them again
			if resp.Next >= size {
				return fmt.Errorf("agent: the coordinator asks for byte %d of a report of %d", resp.Next, size)
			}
			at = resp.Next
		default:
			return fmt.Errorf("agent: the coordinator answers a report with fate %d", resp.State)
		}
	}
	return fmt.Errorf("agent: the coordinator does not come to the end of a report of %d bytes", size)
}

// setReportState saves the fate of a report, where that is news.
func (d *Device) setReportState(k pb.Kind, s *savedReport, fate, reason string) error {
	if s.State == fate {
		return nil
	}
	return d.update(func(r *record) error {
		r.setState(k, s.Digest, fate, reason, d.opt.Now())
		return nil
	})
}
