package device

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// errAttemptEnded means that an attempt has ended without this device. Another may follow.
var errAttemptEnded = errors.New("the attempt has ended")

// errRestarted means that the device started the attempt before it was restarted, with keys that
// are lost.
var errRestarted = errors.New("the device was restarted during this attempt and joins the next one")

// maxMessageBytes limits a message to a device: keys or shares of a whole cohort.
const maxMessageBytes = 16 << 20

// maskedReport is one attempt at secure aggregation. Its keys are never saved: after a crash the
// device has dropped out, and joins the next attempt with the same update unless it has revealed
// its shares.
type maskedReport struct {
	*Device
	ctx      context.Context
	task     *pb.Task
	client   *secagg.Client
	deadline time.Time
	summed   bool   // the coordinator said so in its answer to the last message
	next     []byte // the coordinator's next message, if it came with the answer to the last one
	sent     int    // bytes of messages, with repetitions
	resent   int    // bytes that were sent more than once
}

// sendMasked adds the saved report of a task to a masked sum. A device that has revealed its shares
// joins no other attempt at that round: two sums over different devices would reveal one device's
// update. The state file says so before the shares leave the device.
func (d *Device) sendMasked(ctx context.Context, t *pb.Task) (sent int, err error) {
	s := *d.record.report(t.Kind)
	r, id, err := wire.DecodeMasking(t.Masking)
	switch {
	case err != nil:
		return 0, err
	case s.State == counted:
		return 0, nil
	case s.Started && s.Attempt == t.Attempt:
		return 0, errRestarted
	case s.Revealed:
		return 0, d.setReportState(t.Kind, s, closed, "it was revealed in an attempt without a sum")
	}
	update := make([]int64, t.Length)
	if err := wire.ReadUpdate(s.data, len(update), t.Bound.Max, update); err != nil {
		return 0, err
	}
	remaining := 10 * time.Minute
	if t.RemainingMs > 0 {
		remaining = time.Duration(t.RemainingMs)*time.Millisecond + 30*time.Second
	}
	p := &maskedReport{Device: d, ctx: ctx, task: t, deadline: d.opt.Now().Add(remaining)}
	p.client, err = secagg.NewClient(r, uint32(id), nil)
	if err != nil {
		return 0, err
	}
	err = p.exchange(r.Active, update)
	if p.resent > 0 && d.record != nil {
		err = errors.Join(err, p.save(wire.StepShareKeys, p.resent))
	}
	if errors.Is(err, errAttemptEnded) || errors.Is(err, secagg.ErrTooFew) || refused(err) {
		return p.sent, nil // the report stays pending: another attempt may follow
	}
	if err != nil {
		return p.sent, err
	}
	return p.sent, d.setReportState(t.Kind, *d.record.report(t.Kind), counted, "")
}

// save records how many bytes the device is about to send, and the step.
func (p *maskedReport) save(step uint32, bytes int) error {
	return p.update(func(r *record) error {
		s := *r.report(p.task.Kind)
		if !s.answers(p.task) {
			return errors.New("the report is gone: its owner has deleted it, or another process has replaced it")
		}
		switch step {
		case wire.StepAdvert:
			if s.Revealed { // another process with the same state file has
				return errAttemptEnded
			}
			s.Attempt, s.Started, s.Masked = p.task.Attempt, true, true
		case wire.StepReveal:
			s.Revealed = true
		}
		if e := r.logEntry(p.task.Kind); e != nil {
			e.Bytes += bytes
		}
		return nil
	})
}

// resolveMasked asks once for the state of a masked report that the device has revealed.
func (d *Device) resolveMasked(ctx context.Context, k pb.Kind) error {
	s := *d.record.report(k)
	resp, err := d.conn.Mask(ctx, &pb.MaskRequest{
		Run: s.Run, Round: s.Round, Attempt: s.Attempt, Step: wire.StepReveal,
	})
	switch {
	case err != nil:
		return err
	case resp.State == pb.MaskResponse_SUMMED:
		return d.setReportState(k, s, counted, "")
	case resp.State == pb.MaskResponse_ENDED: // a device reveals in one attempt only
		return d.setReportState(k, s, closed, "the attempt ended without a sum")
	}
	return nil
}

// exchange runs the protocol of secure aggregation: advert, deal, upload, reveal.
func (p *maskedReport) exchange(active bool, update []int64) error {
	if err := p.send(wire.StepAdvert, p.client.Advert()); err != nil {
		return err
	}
	var roster secagg.Roster
	if err := p.receive(wire.StepShareKeys, &roster); err != nil {
		return err
	}
	shares, err := p.client.ShareKeys(&roster)
	if err != nil {
		return err
	}
	if err := p.send(wire.StepShareKeys, shares); err != nil {
		return err
	}
	var inbox secagg.ShareBundle
	if err := p.receive(wire.StepUpload, &inbox); err != nil {
		return err
	}
	values := make([]int32, len(update))
	for i, x := range update {
		values[i] = int32(x)
		if int64(values[i]) != x {
			return fmt.Errorf("number %d of a report is %d: must fit 32 bits in a masked sum", i, x)
		}
	}
	upload, err := p.client.Upload(&inbox, values)
	if err != nil {
		return err
	}
	if err := p.send(wire.StepUpload, upload); err != nil {
		return err
	}
	if err := p.reveal(active); err != nil {
		return err
	}
	return p.awaitSum()
}

// reveal sends the shares that unmask the sum. With active, devices first confirm to each other
// that they were sent the same lists.
func (p *maskedReport) reveal(active bool) error {
	var lists secagg.Lists
	var confirmations *secagg.ShareBundle
	if active {
		if err := p.receive(wire.StepConfirm, &lists); err != nil {
			return err
		}
		mail, err := p.client.Confirm(&lists)
		if err != nil {
			return err
		}
		if err := p.send(wire.StepConfirm, mail); err != nil {
			return err
		}
		confirmations = &secagg.ShareBundle{}
		if err := p.receive(wire.StepReveal, confirmations); err != nil {
			return err
		}
	} else if err := p.receive(wire.StepReveal, &lists); err != nil {
		return err
	}
	reveal, err := p.client.Reveal(&lists, confirmations)
	if err != nil {
		return err
	}
	return p.send(wire.StepReveal, reveal)
}

func (p *maskedReport) request(step uint32) *pb.MaskRequest {
	return &pb.MaskRequest{Run: p.task.Run, Round: p.task.Round, Attempt: p.task.Attempt, Step: step}
}

func (p *maskedReport) call(req *pb.MaskRequest) (*pb.MaskResponse, error) {
	resp, err := p.conn.Mask(p.ctx, req)
	switch {
	case err != nil:
	case resp.State == pb.MaskResponse_ENDED:
		err = errAttemptEnded
	case resp.State == pb.MaskResponse_SUMMED:
		p.restAfter = min(time.Duration(resp.AfterMs)*time.Millisecond, maxWait)
	}
	return resp, err
}

// send saves that a message leaves, and sends it, in pieces if it is large. The coordinator may
// already have the sum when it answers the last one.
func (p *maskedReport) send(step uint32, m encoding.BinaryMarshaler) error {
	b, err := m.MarshalBinary()
	if err != nil {
		return err
	}
	if err := p.save(step, len(b)); err != nil {
		return err
	}
	before := p.sent
	defer func() { p.resent += max(p.sent-before-len(b), 0) }()
	size := uint64(len(b))
	piece := uint64(p.limits.PieceBytes)
	digest := wire.HashBlob(b).Hash
	offset := uint64(0)
	for range 4*size/piece + 16 {
		req := p.request(step)
		req.Digest, req.Bytes, req.Offset = digest, size, offset
		req.Message = b[offset:min(offset+piece, size)]
		p.sent += len(req.Message)
		resp, err := p.call(req)
		if err != nil {
			return err
		}
		switch resp.State {
		case pb.MaskResponse_ACCEPTED, pb.MaskResponse_SUMMED:
			p.summed = resp.State == pb.MaskResponse_SUMMED
			return nil
		case pb.MaskResponse_ANSWER:
			p.next = resp.Message
			return nil
		case pb.MaskResponse_PART:
			if resp.Next >= size {
				return fmt.Errorf("the coordinator asks for byte %d of a message of %d bytes", resp.Next, size)
			}
			offset = resp.Next
		case pb.MaskResponse_NOT_YET:
			if err := p.wait(resp); err != nil {
				return err
			}
		default:
			return stateError(step, resp)
		}
	}
	return fmt.Errorf("the coordinator does not accept step %d of a masked round", step)
}

func stateError(step uint32, resp *pb.MaskResponse) error {
	return fmt.Errorf("the coordinator answers step %d of a masked round with the unexpected state %d", step,
		resp.State)
}

// receive waits for the coordinator's message of a step.
func (p *maskedReport) receive(step uint32, m encoding.BinaryUnmarshaler) error {
	if message := p.next; message != nil {
		p.next = nil
		return m.UnmarshalBinary(message)
	}
	var message []byte
	for {
		req := p.request(step)
		req.Offset = uint64(len(message))
		resp, err := p.call(req)
		if err != nil {
			return err
		}
		switch resp.State {
		case pb.MaskResponse_ANSWER:
			return m.UnmarshalBinary(append(message, resp.Message...))
		case pb.MaskResponse_PART:
			if len(resp.Message) == 0 || len(message)+len(resp.Message) > maxMessageBytes {
				return fmt.Errorf("a message of a masked round has a piece of %d bytes after %d: pieces must not be "+
					"empty, and a message has at most %d bytes", len(resp.Message), len(message), maxMessageBytes)
			}
			message = append(message, resp.Message...)
		case pb.MaskResponse_NOT_YET:
			if err := p.wait(resp); err != nil {
				return err
			}
		default:
			return stateError(step, resp)
		}
	}
}

// awaitSum waits until the sum is on the coordinator's disk.
func (p *maskedReport) awaitSum() error {
	for !p.summed {
		resp, err := p.call(p.request(wire.StepReveal))
		if err != nil {
			return err
		}
		if resp.State == pb.MaskResponse_SUMMED {
			return nil
		}
		resp.AfterMs = max(resp.AfterMs, 50)
		if err := p.wait(resp); err != nil {
			return err
		}
	}
	return nil
}

func (p *maskedReport) wait(resp *pb.MaskResponse) error {
	if p.opt.Now().After(p.deadline) {
		return errAttemptEnded
	}
	after := min(max(time.Duration(resp.AfterMs)*time.Millisecond, 5*time.Millisecond), 10*time.Second)
	return p.opt.Sleep(p.ctx, after)
}
