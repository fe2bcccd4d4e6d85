package coordinator

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/wire"
)

// harness is a coordinator behind a real server, without a socket.
type harness struct {
	t      testing.TB
	dir    string
	c      *Coordinator
	server *rpc.Server
	wire   *http.Transport
	admin  *AdminClient
	token  string
	ended  chan error
	stop   func()
	// present are devices that count as checked in when a round waits for check-ins.
	present []*testDevice
}

// inside carries requests to a handler in this process.
type inside struct{ h http.Handler }

func (m inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	m.h.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// patience is how long a test waits for what must come: a busy machine is slow, and what
// has come is not waited for.
const patience = 5 * time.Minute

// limit is how long a test waits for one change of a coordinator, or for one round, before it fails.
const limit = time.Minute

const inMemory = "http://127.0.0.1:1"

// steadyTimer is a timer that counts short sleeps. On a busy machine they take longer, as do the devices of a test: a
// deadline does not pass before devices have had the processor for about that time.
func steadyTimer(d time.Duration) (<-chan time.Time, func() bool) {
	const step = 5 * time.Millisecond
	up, stopped := make(chan time.Time, 1), make(chan struct{})
	go func() {
		for left := d; left > 0; left -= step {
			select {
			case <-stopped:
				return
			case <-time.After(min(left, step)):
			}
		}
		up <- time.Now()
	}()
	return up, sync.OnceValue(func() bool { close(stopped); return true })
}

// small are settings of a run of n devices.
func small(n int) Settings {
	return Settings{
		Name: "small", Method: "fedmf", Params: map[string]string{"dim": "2"},
		Config: round.Config{
			Rounds: 4, Batch: 8, Negatives: 1, Keep: "f32", Cohort: round.Cohort{Kind: "all"},
			Mean: aggregate.PerCohort, Server: aggregate.Rule{Kind: "sgd", Rate: 1},
		},
		Devices: n, Goal: 1, Minimum: 0.5, Deadline: patience, Deterministic: true, Seed: 7,
	}
}

func withDP(s Settings, text string) Settings {
	if err := s.DP.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return s
}

func stock(n int) (out []*pb.Item) {
	for i := range n {
		out = append(out, &pb.Item{Id: fmt.Sprintf("i%d", i), Title: fmt.Sprintf("Item %d", i)})
	}
	return out
}

// open starts a coordinator; s is nil for the run that is there.
func open(t testing.TB, dir string, s *Settings, change func(o *Options)) *harness {
	t.Helper()
	r, err := tryOpen(t, dir, s, change)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryOpen(t testing.TB, dir string, s *Settings, change func(o *Options)) (*harness, error) {
	t.Helper()
	o := Options{
		Dir: dir, Warn: func(text string) { t.Log("warning: ", text) }, hold: 200 * time.Millisecond,
		timer: steadyTimer,
	}
	if change != nil {
		change(&o)
	}
	c, err := Open(o)
	if err != nil {
		return nil, err
	}
	if s != nil {
		if err := c.Begin(*s, stock(10)); err != nil {
			c.Close()
			return nil, err
		}
	}
	r := &harness{t: t, dir: dir, c: c, wire: &http.Transport{}, ended: make(chan error, 1)}
	config := c.Config()
	c.SetAdminToken("operator")
	config.Fault = func(p string, err error) { t.Logf("%s: %v", p, err) }
	config.Limits = rpc.Limits{AddressRate: -1, KeyRate: -1, PieceBytes: 1024, Grace: patience, Call: patience}
	// Times before a start are refused: the next coordinator of a test starts at once.
	config.Start = time.Now().Add(-time.Minute)
	if r.server, err = rpc.NewServer(config); err != nil {
		t.Fatal(err)
	}
	c.CountRefusals(r.server.Refused)
	r.wire.RegisterProtocol("http", inside{r.server.Handler()})
	if r.admin, err = DialAdmin(rpc.Options{
		URL: inMemory, Insecure: true, Token: "operator",
		Transport: r.wire,
	}); err != nil {
		t.Fatal(err)
	}
	if r.token, err = c.Token(1000, time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.ended <- c.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the coordinator of %s: %+v", dir, c.Status())
		}
	})
	return r, nil
}

// testDevice is a device that is played by hand.
type testDevice struct {
	t   testing.TB
	r   *harness
	key ed25519.PrivateKey
	id  uint32
	*rpc.Client
	last *pb.LastReport
	lie  *lie // what the device does wrong in masked rounds; nil for nothing
	// leaves is the kind of task that the device leaves before a step; 0 for none.
	leaves   pb.Kind
	leavesAt int
}

func keyOf(name any) ed25519.PrivateKey {
	seed := sha256.Sum256(fmt.Append(nil, "a device ", name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// newDevice is a device that is not enrolled.
func (r *harness) newDevice(name any) *testDevice {
	r.t.Helper()
	h := &testDevice{t: r.t, r: r, key: keyOf(name)}
	var err error
	if h.Client, err = rpc.Dial(rpc.Options{
		URL: inMemory, Insecure: true, Key: h.key, Transport: r.wire,
		Tries: 1,
	}); err != nil {
		r.t.Fatal(err)
	}
	return h
}

func (h *testDevice) enrol(token string, wants ...uint32) (*pb.EnrolResponse, error) {
	q := &pb.EnrolRequest{Token: token, Key: h.key.Public().(ed25519.PublicKey), WantsDeviceId: len(wants) > 0}
	if q.WantsDeviceId {
		q.DeviceId = wants[0]
	}
	a, err := h.Enrol(context.Background(), q)
	if err == nil {
		h.id = a.DeviceId
	}
	return a, err
}

// enrolled are devices 0 to n-1, enrolled.
func (r *harness) enrolled(n int) []*testDevice {
	r.t.Helper()
	r.present = r.onlyEnrolled(n)
	r.seen()
	return r.present
}

// seen has the devices of enrolled be there, as if each had checked in.
func (r *harness) seen() {
	for _, h := range r.present {
		r.c.devices.Seen(h.id, r.c.now(), testInterval)
	}
	r.c.requests.notify()
}

// onlyEnrolled returns n devices that have not checked in.
func (r *harness) onlyEnrolled(n int) []*testDevice {
	r.t.Helper()
	out := make([]*testDevice, n)
	var wg sync.WaitGroup
	for i := range out {
		out[i] = r.newDevice(i)
		wg.Go(func() {
			if a, err := out[i].enrol(r.token, uint32(i)); err != nil || a.DeviceId != uint32(i) {
				r.t.Errorf("device %d enrols: %v, %v", i, a, err)
			}
		})
	}
	if wg.Wait(); r.t.Failed() {
		r.t.FailNow()
	}
	return out
}

// vector is what a device sends in a round: arbitrary numbers, the same each time.
func vector(id, round uint32, n uint64) []int64 {
	v := make([]int64, n)
	for i := range v[:n-1] {
		if (uint64(i)+uint64(id))%3 != 0 {
			v[i] = int64((id+3)*(round+5)*uint32(i+1)%97) - 48
		}
	}
	return v
}

func (h *testDevice) check() *pb.CheckInResponse {
	h.t.Helper()
	a, err := h.CheckIn(context.Background(), &pb.CheckInRequest{LastReport: h.last})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// task waits for one. A slow coordinator may begin to wait for check-ins when those of enrolled are too old.
func (h *testDevice) task() *pb.Task {
	h.t.Helper()
	var task *pb.Task
	waitFor(h.t, "a task", func() bool {
		if task = h.check().GetTask(); task == nil && h.r.c.Status().State == WaitingForCheckIns {
			h.r.seen()
		}
		return task != nil
	})
	return task
}

func request(task *pb.Task, body []byte) *pb.ReportRequest {
	return &pb.ReportRequest{
		Run: task.Run, Round: task.Round, Kind: task.Kind, Digest: wire.HashBlob(body).Hash,
		Bytes: uint64(len(body)), Data: body,
	}
}

func (h *testDevice) body(task *pb.Task) []byte {
	return wire.AppendUpdate(nil, vector(h.id, task.Round, task.Length))
}

// report answers a task.
func (h *testDevice) report(task *pb.Task) (pb.ReportState, error) {
	b := h.body(task)
	a, err := h.Report(context.Background(), request(task, b))
	if a.GetState() == pb.ReportState_COUNTED {
		h.last = &pb.LastReport{Run: task.Run, Round: task.Round, Digest: wire.HashBlob(b).Hash}
	}
	return a.GetState(), err
}

// play lets devices answer all tasks until a number of rounds are done, and none of the next round.
func (r *harness) play(devices []*testDevice, rounds int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rounds)*limit)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range devices {
		wg.Go(func() {
			for ctx.Err() == nil && r.c.Status().Round < rounds {
				a, err := h.CheckIn(ctx, &pb.CheckInRequest{LastReport: h.last})
				if task := a.GetTask(); err == nil && task != nil && int(task.Round) < rounds {
					_, _ = h.report(task)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	if wg.Wait(); ctx.Err() != nil {
		r.t.Fatalf("%d rounds were not done in time", rounds)
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: it did not happen in %v", what, limit)
}

// model is the newest version's manifest, and what it is made of.
func (r *harness) model() (*pb.Manifest, string) {
	r.t.Helper()
	h, err := r.admin.History(context.Background())
	if err != nil || len(h) == 0 {
		r.t.Fatalf("%d models: %v", len(h), err)
	}
	m, err := h[len(h)-1].Manifest()
	if err != nil {
		r.t.Fatal(err)
	}
	var all bytes.Buffer
	for _, s := range m.Slots {
		all.WriteString(hex.EncodeToString(s.Hash) + " ")
	}
	return m, all.String()
}

// undisturbed is the model of a run that nothing happens to.
func undisturbed(t *testing.T, s Settings) string {
	t.Helper()
	r := open(t, filepath.Join(t.TempDir(), "undisturbed"), &s, nil)
	r.play(r.enrolled(s.Devices), s.Rounds)
	m, bits := r.model()
	if int(m.Round) != s.Rounds {
		t.Fatalf("%d rounds are in the model", m.Round)
	}
	r.stop()
	return bits
}

// refused checks the code word of an error, and that the server counted it.
func (r *harness) refused(err error, word string) {
	r.t.Helper()
	if got := rpc.Code(err); got != word {
		r.t.Errorf("refused with %q (%v), want %q", got, err, word)
	}
	if err != nil && r.server.Refused()[word] == 0 {
		r.t.Errorf("%s was not counted: %v", word, r.server.Refused())
	}
}

var errCut = errors.New("cut off here")
