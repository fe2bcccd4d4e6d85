package coordinator

import (
	"context"
	"crypto/ed25519"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// bench is a rig for a fuzz target: its coordinator stays, and each input gets a round of
// its own, that is on no disk.
func bench(f *testing.F, s Settings) (*harness, []*testDevice) {
	f.Helper()
	s.Devices, s.Deadline = 1000, time.Hour // it waits for devices that do not come
	r := open(f, f.TempDir(), &s, nil)
	return r, r.enrolled(6)
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
// panics, device IDs are unique, and the sum is that of the reports that were acknowledged.
func FuzzCalls(f *testing.F) {
	r, d := bench(f, small(6))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0})
	f.Add([]byte("\x00\x00\x01\x05\x03\x01\x01\x02\x10\x02\x03\x04\x05\x06\x07\x08"))
	f.Add([]byte{3, 4, 5, 6, 3, 7, 8, 9, 4, 4, 4, 4, 0, 3, 0, 0, 0, 0, 2, 0, 0})
	var mu sync.Mutex
	owner := map[uint32]string{}
	for _, h := range d {
		owner[h.id] = string(h.key)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		mu.Lock()
		defer mu.Unlock()
		in := &script{input}
		task := r.c.newTask(pb.Kind_TRAIN, 0, r.c.plan.UpdateLength(0)+1, wire.EncodeBound(*r.c.engine.Bound, 0, 0,
			maxInteger(*r.c.engine.Bound)))
		open, err := collection.OpenRound(collection.RoundConfig{
			Task: task, Cohort: []uint32{0, 1, 2, 3}, Goal: 5, Ends: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.c.collection.Enter(open)
		defer func() { r.c.collection.Enter(nil); open.Close() }()
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
				if err == nil && owner[a.DeviceId] != string(who.key) {
					t.Fatalf("device %d is given to a second key", a.DeviceId)
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
func fuzzReport(t *testing.T, in *script, who *testDevice, task *pb.Task, counted map[uint32][]int64) {
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
	if _, before := counted[who.id]; err != nil || a.State != pb.ReportState_COUNTED || before {
		return
	}
	v := make([]int64, task.Length)
	if !collection.IsIdle(body) {
		if err := wire.ReadUpdate(body, len(v), task.Bound.Max, v); err != nil {
			t.Fatalf("a malformed report was acknowledged: %v", err)
		}
		if err := wire.CheckNorm(body, len(v), task.Bound); err != nil {
			t.Fatalf("a report that exceeds the bound was acknowledged: %v", err)
		}
	}
	counted[who.id] = v
}
