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

// errAttemptEnded says that an attempt has ended without this device; there may be another.
var errAttemptEnded = errors.New("agent: the attempt is over")

// errRestarted says that the device has begun the attempt in an earlier life, with keys that
// are gone.
var errRestarted = errors.New("it has left this attempt, and is in the next one")

// maskedReport plays one attempt of a masked round. Its keys live no longer: after a crash
// the device is one that left, and comes back in the next attempt with the same vector.
type maskedReport struct {
	*Device
	ctx      context.Context
	task     *pb.Task
	client   *secagg.Client
	deadline time.Time
	sent     int // bytes of messages that have left
	resent   int // of those, what was asked for more than once
}

// mask brings the report of a masked round into the sum. A device that has opened its
// part of an attempt against a coordinator that may lie takes part in no other: two sums
// over different devices would tell one device's vector.
func (d *Device) mask(ctx context.Context, t *pb.Task) (sent int, err error) {
	s := *d.record.report(t.Kind)
	r, id, err := wire.DecodeMasking(t.Masking)
	switch {
	case err != nil:
		return 0, err
	case s.State == counted:
		return 0, nil
	case s.Started && s.Attempt == t.Attempt:
		return 0, errRestarted
	case r.Active && s.Revealed:
		return 0, d.setReportState(t.Kind, s, closed, "it was opened in an attempt that has no sum")
	case r.MinDevices < max(2, s.MinDevices):
		return 0, fmt.Errorf("agent: a masked sum of %d devices: want at least %d", r.MinDevices, max(2, s.MinDevices))
	}
	vector := make([]int64, t.Length)
	if err := wire.ReadUpdate(s.data, len(vector), t.Bound.Max, vector); err != nil {
		return 0, err
	}
	left := 10 * time.Minute
	if t.RemainingMs > 0 {
		left = time.Duration(t.RemainingMs)*time.Millisecond + 30*time.Second
	}
	p := &maskedReport{Device: d, ctx: ctx, task: t, deadline: d.opt.Now().Add(left)}
	if p.client, err = secagg.NewClient(r, uint32(id), nil); err != nil {
		return 0, err
	}
	err = p.exchange(r.Active, vector)
	if p.resent > 0 && d.record != nil {
		err = errors.Join(err, p.save(wire.StepDeal, p.resent))
	}
	if errors.Is(err, errAttemptEnded) || errors.Is(err, secagg.ErrTooFew) || refused(err) {
		return p.sent, nil // its fate is not known: another attempt may come
	}
	if err != nil {
		return p.sent, err
	}
	return p.sent, d.setReportState(t.Kind, *d.record.report(t.Kind), counted, "")
}

// save writes down what is about to leave, and how far the device has come with it.
func (p *maskedReport) save(step uint32, bytes int) error {
	return p.update(func(r *record) error {
		s := *r.report(p.task.Kind)
		if !s.answers(p.task) {
			return errors.New("agent: the report is gone: its owner has forgotten it, or another process has moved on")
		}
		switch step {
		case wire.StepAdvert:
			s.Attempt, s.Started, s.Revealed, s.Masked = p.task.Attempt, true, false, true
		case wire.StepReveal:
			s.Revealed = true
		}
		if e := r.logEntry(p.task.Kind); e != nil {
			e.Bytes += bytes
		}
		return nil
	})
}

// resolveMasked asks once what became of a masked report that the device has opened.
func (d *Device) resolveMasked(ctx context.Context, k pb.Kind) error {
	s := *d.record.report(k)
	resp, err := d.conn.Mask(ctx, &pb.MaskRequest{
		Run: s.Run, Round: s.Round, Attempt: s.Attempt,
		Step: wire.StepReveal,
	})
	switch {
	case err != nil:
		return err
	case resp.State == pb.MaskResponse_SUMMED:
		return d.setReportState(k, s, counted, "")
	case resp.State == pb.MaskResponse_ENDED && k != pb.Kind_TRAIN: // a readout has one attempt
		return d.setReportState(k, s, closed, "the readout has no sum")
	}
	return nil
}

func (p *maskedReport) exchange(active bool, vector []int64) error {
	if err := p.send(wire.StepAdvert, p.client.Advert()); err != nil {
		return err
	}
	var roster secagg.Roster
	if err := p.receive(wire.StepDeal, &roster); err != nil {
		return err
	}
	mail, err := p.client.ShareKeys(&roster)
	if err != nil {
		return err
	}
	if err := p.send(wire.StepDeal, mail); err != nil {
		return err
	}
	var inbox secagg.ShareBundle
	if err := p.receive(wire.StepUpload, &inbox); err != nil {
		return err
	}
	values := make([]int32, len(vector))
	for i, x := range vector {
		if values[i] = int32(x); int64(values[i]) != x {
			return fmt.Errorf("agent: number %d of a report does not fit a masked sum", i)
		}
	}
	up, err := p.client.Upload(&inbox, values)
	if err != nil {
		return err
	}
	if err := p.send(wire.StepUpload, up); err != nil {
		return err
	}
	if err := p.reveal(active); err != nil {
		return err
	}
	return p.awaitSum()
}

// reveal answers the lists: after that the coordinator may have the sum.
func (p *maskedReport) reveal(active bool) error {
	var lists secagg.Lists
	var echo *secagg.ShareBundle
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
		echo = &secagg.ShareBundle{}
		if err := p.receive(wire.StepReveal, echo); err != nil {
			return err
		}
	} else if err := p.receive(wire.StepReveal, &lists); err != nil {
		return err
	}
	reveal, err := p.client.Reveal(&lists, echo)
	if err != nil {
		return err
	}
	return p.send(wire.StepReveal, reveal)
}

func (p *maskedReport) request(step uint32) *pb.MaskRequest {
	return &pb.MaskRequest{Run: p.task.Run, Round: p.task.Round, Attempt: p.task.Attempt, Step: step}
}

func (p *maskedReport) call(req *pb.MaskRequest) (resp *pb.MaskResponse, err error) {
	resp, err = p.conn.Mask(p.ctx, req)
	if err == nil && resp.State == pb.MaskResponse_ENDED {
		err = errAttemptEnded
	}
	return resp, err
}

// send writes down that a message leaves, and carries it, in pieces where it is large. A
// coordinator may already have the sum when it answers the last one.
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
	size, at := uint64(len(b)), uint64(0)
	name := wire.HashBlob(b).Hash
	for range 4*size/uint64(p.limits.PieceBytes) + 16 {
		req := p.request(step)
		req.Digest, req.Bytes, req.Offset, req.Message = name, size, at, b[at:min(at+uint64(p.limits.PieceBytes), size)]
		p.sent += len(req.Message)
		resp, err := p.call(req)
		if err != nil {
			return err
		}
		switch resp.State {
		case pb.MaskResponse_ACCEPTED, pb.MaskResponse_SUMMED:
			return nil
		case pb.MaskResponse_PART:
			if resp.Next >= size {
				return fmt.Errorf("agent: the coordinator asks for byte %d of a message of %d", resp.Next, size)
			}
			at = resp.Next
		case pb.MaskResponse_NOT_YET:
			if err := p.wait(resp); err != nil {
				return err
			}
		default:
			return fmt.Errorf("agent: the coordinator answers step %d of a masked round with state %d", step,
				resp.State)
		}
	}
	return fmt.Errorf("agent: the coordinator does not take step %d of a masked round", step)
}

// receive waits for what the coordinator has for the device.
func (p *maskedReport) receive(step uint32, m encoding.BinaryUnmarshaler) error {
	var got []byte
	for {
		req := p.request(step)
		req.Offset = uint64(len(got))
		resp, err := p.call(req)
		if err != nil {
			return err
		}
		switch resp.State {
		case pb.MaskResponse_ANSWER:
			return m.UnmarshalBinary(append(got, resp.Message...))
		case pb.MaskResponse_PART:
			if len(resp.Message) == 0 || len(got)+len(resp.Message) > maxMessageBytes {
				return fmt.Errorf("agent: a message of a masked round comes in pieces of %d bytes, and has over %d",
					len(resp.Message), len(got))
			}
			got = append(got, resp.Message...)
		case pb.MaskResponse_NOT_YET:
			if err := p.wait(resp); err != nil {
				return err
			}
		default:
			return fmt.Errorf("agent: the coordinator answers step %d of a masked round with state %d", step,
				resp.State)
		}
	}
}

// maxMessageBytes bounds a message to a device: a roster or a mail of a whole cohort.
const maxMessageBytes = 16 << 20

// awaitSum waits until the sum is on the coordinator's disk.
func (p *maskedReport) awaitSum() error {
	for {
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
}

func (p *maskedReport) wait(resp *pb.MaskResponse) error {
	if p.opt.Now().After(p.deadline) {
		return errAttemptEnded
	}
	after := min(max(time.Duration(resp.AfterMs)*time.Millisecond, 5*time.Millisecond), 10*time.Second)
	return p.opt.Sleep(p.ctx, after)
}
