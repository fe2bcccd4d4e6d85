package coordinator

import (
	"context"
	"crypto/ed25519"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/privacy/secagg"
	"github.com/tacit-rec/tacit/wire"
)

// bench is a rig for a fuzz target: its coordinator stays, and each input gets a round of
// its own, that is on no disk.
func bench(f *testing.F, s Settings) (*rig, []*hand) {
	f.Helper()
	s.Devices, s.Deadline = 1000, time.Hour // it waits for devices that do not come
	r := open(f, f.TempDir(), &s, nil)
	return r, r.hands(6)
}

// script reads choices off an input.
type script struct{ b []byte }

func (s *script) next() byte {
	if len(s.b) == 0 {
		return 0
	}
	x := s.b[0]
	s.b = s.b[1:]
	return x
}

// bend changes a byte, the length or nothing of what a device sends.
func (s *script) bend(b []byte) []byte {
	b = slices.Clone(b)
	switch how, at := s.next(), int(s.next()); how % 5 {
	case 1:
		if len(b) > 0 {
			b[at%len(b)] ^= s.next()
		}
	case 2:
		b = b[:min(at, len(b))]
	case 3:
		b = append(b, make([]byte, at)...)
	}
	return b
}

// FuzzCalls has several keys make calls in any order, with requests that are bent: nothing
// panics, seats are unique, and the sum is that of the reports that were acknowledged.
func FuzzCalls(f *testing.F) {
	r, d := bench(f, small(6))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0})
	f.Add([]byte("\x00\x00\x01\x05\x03\x01\x01\x02\x10\x02\x03\x04\x05\x06\x07\x08"))
	f.Add([]byte{3, 4, 5, 6, 3, 7, 8, 9, 4, 4, 4, 4, 0, 3, 0, 0, 0, 0, 2, 0, 0})
	var mu sync.Mutex
	seat := map[uint32]string{}
	for _, h := range d {
		seat[h.seat] = string(h.key)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		mu.Lock()
		defer mu.Unlock()
		in := &script{input}
		task := r.c.newTask(pb.Kind_TRAIN, 0, r.c.plan.UpdateLength(0)+1, wire.EncodeBound(*r.c.engine.Bound, 0, 0,
			mostOf(*r.c.engine.Bound)))
		h, err := openHall(nil, "", task, []uint32{0, 1, 2, 3}, 5, 0, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		r.c.enter(h)
		defer func() { r.c.enter(nil); h.close() }()
		counted := map[uint32][]int64{}
		for range 12 {
			if len(in.b) == 0 {
				break
			}
			who := d[int(in.next())%len(d)]
			switch in.next() % 6 {
			case 0, 1, 2:
				fuzzReport(t, in, who, task, counted)
			case 3:
				hash := in.bend(r.c.models.Signed().Body[:32])
				_, _ = who.Client.FederationClient.Fetch(context.Background(),
					&pb.FetchRequest{Hash: hash, Offset: uint64(in.next()) << (in.next() % 64)})
			case 4:
				key := in.bend(who.key.Public().(ed25519.PublicKey))
				a, err := who.Enrol(context.Background(), &pb.EnrolRequest{
					Token: r.token, Key: key,
					WantsDeviceId: in.next()&1 == 1, DeviceId: uint32(in.next()),
				})
				if err == nil && seat[a.DeviceId] != string(who.key) {
					t.Fatalf("seat %d is given to a second key", a.DeviceId)
				}
			case 5:
				_, _ = who.CheckIn(context.Background(), &pb.CheckInRequest{
					ModelVersion: uint64(in.next()),
					LastReport: &pb.LastReport{
						Run: in.bend(task.Run), Round: uint32(in.next()),
						Digest: in.bend(task.Run),
					},
				})
			}
		}
		want := make([]int64, task.Length)
		for _, v := range counted {
			for i, x := range v {
				want[i] += x
			}
		}
		n, sum := r.sums()
		if n != len(counted) || !slices.Equal(sum, want) {
			t.Fatalf("%d reports are counted and %d were acknowledged; the sum is %v, want %v", n, len(counted), sum,
				want)
		}
	})
}

// fuzzReport sends a bent report, and notes what it is if it is acknowledged.
func fuzzReport(t *testing.T, in *script, who *hand, task *pb.Task, counted map[uint32][]int64) {
	good := who.body(task)
	body := in.bend(good)
	q := request(task, body)
	switch in.next() % 8 {
	case 1:
		q.Run = in.bend(q.Run)
	case 2:
		q.Round = uint32(in.next())
	case 3:
		q.Digest = in.bend(q.Digest)
	case 4:
		q.Bytes = uint64(in.next()) << (in.next() % 64)
	case 5:
		q.Offset = uint64(in.next()) << (in.next() % 64)
	case 6:
		q.Kind = pb.Kind(in.next())
	case 7:
		q.Data = q.Data[:len(q.Data)/2]
	}
	a, err := who.Report(context.Background(), q)
	if rpc.Code(err) == rpc.Panicked || rpc.Code(err) == rpc.Internal {
		t.Fatal(err)
	}
	if _, before := counted[who.seat]; err != nil || a.State != pb.ReportState_COUNTED || before {
		return
	}
	v := make([]int64, task.Length)
	if !isIdle(body) {
		if err := wire.ReadUpdate(body, len(v), task.Bound.Max, v); err != nil {
			t.Fatalf("what is no report was acknowledged: %v", err)
		}
		if err := wire.CheckNorm(body, len(v), task.Bound); err != nil {
			t.Fatalf("what is too long was acknowledged: %v", err)
		}
	}
	counted[who.seat] = v
}

// FuzzMask has devices play a masked round with messages that are bent, out of order and
// each other's: nothing panics, a device moves nobody but itself, and what it cannot have
// is not given.
//
//lint:size the choices of a script are read where they are used
func FuzzMask(f *testing.F) {
	s := withDP(small(6), "epsilon=50,delta=1e-5,clip=0.5,min-devices=3")
	s.Masked = true
	r, d := bench(f, s)
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0})
	f.Add([]byte{0, 1, 0, 0, 0, 0, 2, 1, 1, 1, 1, 1, 7, 7, 7, 7, 9, 9, 2, 2, 2})
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, input []byte) {
		mu.Lock()
		defer mu.Unlock()
		in := &script{input}
		task := r.c.newTask(pb.Kind_TRAIN, 0, r.c.plan.UpdateLength(0)+1, wire.EncodeBound(r.c.engine.Stack.Bound(0), 0, 0,
			r.c.engine.Stack.MaxInteger(0)))
		v, err := r.c.newVault(task, []uint32{0, 1, 2, 3, 4, 5})
		if err != nil {
			t.Fatal(err)
		}
		r.c.mu.Lock()
		b := &buckets{all: []*vault{v}, of: map[uint32]*vault{}}
		for seat := range uint32(6) {
			b.of[seat] = v
		}
		r.c.place, r.c.masked = b, b
		r.c.mu.Unlock()
		var client [6]*secagg.Client
		for i := range client {
			if client[i], err = secagg.NewClient(v.r, uint32(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 24 {
			if len(in.b) == 0 {
				break
			}
			who := int(in.next())
			if who%8 == 7 { // the coordinator goes on
				v.vmu.Lock()
				if v.stage < wire.StepUpload && v.hub.Next() == nil {
					v.stage++
				}
				v.vmu.Unlock()
				continue
			}
			who %= 6
			as := (who + int(in.next())%3*int(in.next()%2)) % 6
			message, err := client[as].Advert().MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			q := &pb.MaskRequest{Run: task.Run, Step: uint32(in.next() % 6), Message: in.bend(message)}
			q.Bytes, q.Digest = uint64(len(q.Message)), wire.HashBlob(q.Message).Hash
			if in.next()%4 == 1 {
				q.Bytes, q.Offset = uint64(in.next())<<(in.next()%64), uint64(in.next())
			}
			before := v.steps()
			a, err := d[who].Mask(context.Background(), q)
			if rpc.Code(err) == rpc.Panicked || rpc.Code(err) == rpc.Internal {
				t.Fatal(err)
			}
			after := v.steps()
			for seat, step := range after {
				if old, begun := before[seat]; seat != uint32(who) && (!begun || old != step) {
					t.Fatalf("device %d moved device %d to step %d", who, seat, step)
				}
			}
			if a.GetState() == pb.MaskResponse_SUMMED {
				t.Fatalf("there is no sum, and device %d is in it", who)
			}
		}
		v.vmu.Lock()
		defer v.vmu.Unlock()
		for seat := range v.came {
			if len(v.came) > 6 || seat > 5 {
				t.Fatalf("%v", v.came)
			}
		}
	})
}

func (v *vault) steps() map[uint32]int {
	v.vmu.Lock()
	defer v.vmu.Unlock()
	out := map[uint32]int{}
	for k, s := range v.came {
		out[k] = s
	}
	return out
}

// FuzzRecord reads groups of reports: what is read is what was written.
func FuzzRecord(f *testing.F) {
	f.Add((&record{
		seats: []uint32{1, 2}, digests: []uint64{3, 4}, idle: []bool{true, false},
		sum: wire.AppendUpdate(nil, []int64{1, -2}),
	}).bytes())
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := readRecord(b)
		if err != nil {
			return
		}
		if len(rec.seats) > len(b) || len(rec.bytes()) != len(b) {
			t.Errorf("%d bytes became %d", len(b), len(rec.bytes()))
		}
	})
}
