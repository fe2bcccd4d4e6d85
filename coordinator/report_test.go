package coordinator

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// sums is what is counted so far, and the sum.
func (r *harness) sums() (n int, sum []int64) {
	open := r.c.collection.OpenRound()
	if open == nil {
		return 0, nil
	}
	sum, _, closed := open.Result()
	return len(closed.Devices), sum
}

// Whatever must be refused is, with its word, and the sum is as it was.
//
//lint:size a table of what must be refused
func TestReportsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := small(3)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(3)
	task := d[0].task()
	d = append(d, r.newDevice("too late for the first round"))
	if _, err := d[3].enrol(r.token); err != nil {
		t.Fatal(err)
	}
	if fate, err := d[0].report(task); err != nil || fate != pb.ReportState_COUNTED {
		t.Fatalf("%v, %v", fate, err)
	}
	before, sum := r.sums()
	good := d[1].body(task)
	edit := func(change func(q *pb.ReportRequest)) *pb.ReportRequest {
		q := request(task, good)
		change(q)
		return q
	}
	whole := func(v []int64) *pb.ReportRequest { return request(task, wire.AppendUpdate(nil, v)) }
	long := make([]int64, task.Length)
	for i := range long {
		long[i] = task.Bound.Max
	}
	short := vector(1, 0, task.Length-1)
	for name, c := range map[string]struct {
		q    *pb.ReportRequest
		word string
	}{
		"another run":        {edit(func(q *pb.ReportRequest) { q.Run = make([]byte, 16) }), rpc.WrongRun},
		"no run":             {edit(func(q *pb.ReportRequest) { q.Run = nil }), rpc.WrongRun},
		"a round to come":    {edit(func(q *pb.ReportRequest) { q.Round++ }), rpc.WrongRound},
		"a far round":        {edit(func(q *pb.ReportRequest) { q.Round = 1<<32 - 1 }), rpc.WrongRound},
		"another kind":       {edit(func(q *pb.ReportRequest) { q.Kind = pb.Kind_EVALUATE }), ""},
		"no kind":            {edit(func(q *pb.ReportRequest) { q.Kind = 0 }), ""},
		"an unknown kind":    {edit(func(q *pb.ReportRequest) { q.Kind = 77 }), ""},
		"other bytes":        {edit(func(q *pb.ReportRequest) { q.Digest = make([]byte, 32) }), rpc.BadDigest},
		"a short digest":     {edit(func(q *pb.ReportRequest) { q.Digest = q.Digest[:31] }), rpc.Malformed},
		"no digest":          {edit(func(q *pb.ReportRequest) { q.Digest = nil }), rpc.Malformed},
		"too many bytes":     {edit(func(q *pb.ReportRequest) { q.Bytes = 1 << 50 }), rpc.Oversized},
		"more than it says":  {edit(func(q *pb.ReportRequest) { q.Bytes-- }), rpc.Malformed},
		"an offset too far":  {edit(func(q *pb.ReportRequest) { q.Offset = 1 << 60 }), ""},
		"no vector":          {request(task, []byte("\x01 no vector")), rpc.Malformed},
		"nothing":            {request(task, nil), rpc.Malformed},
		"too few numbers":    {whole(short), rpc.Malformed},
		"too many numbers":   {whole(append(slices.Clone(long), 1)), rpc.Malformed},
		"numbers too large":  {whole([]int64{task.Bound.Max + 1}), rpc.Malformed},
		"longer than bounds": {whole(long), rpc.OverBound},
	} {
		a, err := d[1].Report(context.Background(), c.q)
		if c.word != "" {
			r.refused(err, c.word)
		}
		if err == nil && a.State == pb.ReportState_COUNTED {
			t.Errorf("%s is counted", name)
		}
		if c.word == rpc.OverBound {
			if len(r.c.devices.Excluded()) != 1 {
				t.Errorf("%s: its sender is not excluded", name)
			}
			if err := r.c.devices.Readmit(d[1].id); err != nil {
				t.Fatal(err)
			}
		}
		if t.Failed() {
			t.Fatalf("%s: %v, %v", name, a, err)
		}
		if n, now := r.sums(); n != before || !slices.Equal(now, sum) {
			t.Fatalf("%s changed the sum: %d reports, %v", name, n, now)
		}
	}
	_, err := d[3].Report(context.Background(), request(task, good))
	r.refused(err, rpc.NotInCohort)
	if a := d[3].check(); a.GetTask() != nil {
		t.Error("a device that is not in the cohort has a task")
	}
	if fate, err := d[1].report(task); err != nil || fate != pb.ReportState_COUNTED {
		t.Errorf("after all that, its report is %v, %v", fate, err)
	}
}

// The same report counts once, however often, in whatever pieces and order it comes.
//
//lint:size one report's life, from its first piece to after its round
func TestAReportCountsOnce(t *testing.T) {
	s := small(2)
	s.Method, s.Params = "fedmf", map[string]string{"dim": "300"} // several pieces of 1024 bytes
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(2)
	task := d[0].task()
	body := d[0].body(task)
	if len(body) < 2048 {
		t.Fatalf("a report of %d bytes has one piece", len(body))
	}
	piece := func(from, to int) *pb.ReportRequest {
		q := request(task, body)
		q.Offset, q.Data = uint64(from), body[from:min(to, len(body))]
		return q
	}
	ctx := context.Background()
	// The second piece first: it is told to begin at the start.
	if a, err := d[0].Report(ctx, piece(1000, 2000)); err != nil || a.State != pb.ReportState_MORE || a.Next != 0 {
		t.Fatalf("%v, %v", a, err)
	}
	for _, p := range [][2]int{{0, 1000}, {0, 1000}, {500, 1500}, {1000, 2000}} {
		if a, err := d[0].Report(ctx, piece(p[0], p[1])); err != nil || a.State != pb.ReportState_MORE {
			t.Fatalf("%v, %v", a, err)
		}
	}
	// A piece that is not what it was before, and one that leaves a gap.
	bad := piece(0, 1000)
	bad.Data = bytes.Repeat([]byte{7}, 1000)
	_, err := d[0].Report(ctx, bad)
	r.refused(err, rpc.Malformed)
	if len(body) > 2100 {
		_, err = d[0].Report(ctx, piece(2050, 2100))
		r.refused(err, rpc.Malformed)
	}
	if n, _ := r.sums(); n != 0 {
		t.Fatalf("%d reports are counted before all pieces are there", n)
	}
	for at := 2000; ; {
		a, err := d[0].Report(ctx, piece(at, at+1000))
		if err != nil {
			t.Fatal(err)
		}
		if a.State == pb.ReportState_COUNTED {
			break
		}
		at = int(a.Next)
	}
	_, sum := r.sums()
	if !slices.Equal(sum, vector(0, 0, task.Length)) {
		t.Errorf("the sum is not the report: %v", sum)
	}
	for range 3 {
		if fate, err := d[0].report(task); err != nil || fate != pb.ReportState_COUNTED {
			t.Errorf("again: %v, %v", fate, err)
		}
	}
	// Another report of the same device is in no sum, is told so, and changes nothing.
	other := request(task, wire.AppendUpdate(nil, vector(9, 9, task.Length)))
	if a, err := d[0].Report(ctx, other); err != nil || a.State != pb.ReportState_CLOSED {
		t.Errorf("another one: %v, %v", a, err)
	}
	if n, now := r.sums(); n != 1 || !slices.Equal(now, sum) {
		t.Errorf("%d reports are counted, and the sum has changed: %v", n, !slices.Equal(now, sum))
	}
	// When the round is over, who is in its sum is told so, and who is not as well.
	if fate, err := d[1].report(d[1].task()); err != nil || fate != pb.ReportState_COUNTED {
		t.Fatalf("%v, %v", fate, err)
	}
	waitFor(t, "the round's end", func() bool { return r.c.Status().Round == 1 })
	if fate, err := d[0].report(task); err != nil || fate != pb.ReportState_COUNTED {
		t.Errorf("a report that is in the sum of a round that is over: %v, %v", fate, err)
	}
	if a, err := d[0].Report(ctx, other); err != nil || a.State != pb.ReportState_CLOSED {
		t.Errorf("one that is not: %v, %v", a, err)
	}
}

// A plain report to a masked round is refused, and so is who plays another device.
func TestAMaskedRoundTakesNoPlainReport(t *testing.T) {
	s := withDP(small(14), "epsilon=50,delta=1e-3,clip=0.5,min-devices=3")
	s.Masked = true
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(14)
	task := d[0].task()
	if task.Masking == nil {
		t.Fatal("the task has no masks")
	}
	_, err := d[0].report(task)
	r.refused(err, rpc.NotMasked)

	// Nobody speaks for another device.
	round, id, err := wire.DecodeMasking(task.Masking)
	if err != nil {
		t.Fatal(err)
	}
	bring := func(as int) (*pb.MaskResponse, error) {
		c, err := secagg.NewClient(round, uint32(as), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Advert().MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		return d[0].Mask(context.Background(), &pb.MaskRequest{
			Run: task.Run, Round: task.Round, Attempt: task.Attempt,
			Message: b, Bytes: uint64(len(b)), Digest: wire.HashBlob(b).Hash,
		})
	}
	_, err = bring(int(id) + 1)
	r.refused(err, rpc.Malformed)
	if a, err := bring(int(id)); err != nil || a.State != pb.MaskResponse_ENDED {
		t.Errorf("after a lie its own is %v, %v", a, err)
	}
}

// With DP nobody sees which devices have no training data, and who did more than allowed
// is refused.
func TestReportsUnderDP(t *testing.T) {
	s := withDP(small(4), "epsilon=20,delta=1e-3,clip=0.5")
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(4)
	task := d[0].task()
	_, err := d[0].Report(context.Background(), request(task, wire.AppendUpdate(nil, nil)))
	r.refused(err, rpc.Malformed)
	v := make([]int64, task.Length)
	v[0], v[1] = int64(task.Bound.Levels), int64(task.Bound.Levels)
	_, err = d[0].Report(context.Background(), request(task, wire.AppendUpdate(nil, v)))
	r.refused(err, rpc.OverBound)
	if n, _ := r.sums(); n != 0 {
		t.Errorf("%d reports are counted", n)
	}
}

// Two copies of a device report at once: only the report in the sum is acknowledged as counted.
func TestOnlyTheCountedReportIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := small(2)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(2)
	task := d[0].task()
	fates := make([]pb.ReportState, 8)
	var wg sync.WaitGroup
	for i := range fates {
		wg.Go(func() {
			b := wire.AppendUpdate(nil, vector(uint32(i), 0, task.Length))
			a, err := d[0].Report(context.Background(), request(task, b))
			if err != nil {
				t.Error(err)
			}
			fates[i] = a.GetState()
		})
	}
	wg.Wait()
	n := 0
	for i, fate := range fates {
		switch fate {
		case pb.ReportState_COUNTED:
			n++
			if _, sum := r.sums(); !slices.Equal(sum, vector(uint32(i), 0, task.Length)) {
				t.Errorf("report %d is told that it is counted, and is not the sum", i)
			}
		case pb.ReportState_CLOSED:
		default:
			t.Errorf("report %d is told %v", i, fate)
		}
	}
	if n != 1 {
		t.Errorf("%d reports of one device are told that they are counted", n)
	}
}
