package coordinator

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tacit-rec/tacit/coordinator/internal/collection"
	"github.com/tacit-rec/tacit/coordinator/internal/evaluation"
	"github.com/tacit-rec/tacit/internal/base/metrics"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/rpc"
	"github.com/tacit-rec/tacit/privacy"
	"github.com/tacit-rec/tacit/wire"
)

// said is what a device contributes to an evaluation: valid numbers, the same each time.
func said(task *pb.Task, id uint32) []int32 {
	v := make([]int32, task.Length)
	for i := range v {
		if v[i] = int32((uint32(i)*7 + id*5 + 3) % 4 / 3); task.Kind == pb.Kind_EVALUATE {
			v[i] = int32(task.Bound.Max) / int32(1+(id+uint32(i))%5)
		}
	}
	return v
}

// total is the sum over devices.
func total(task *pb.Task, ids []uint32) []int32 {
	out := make([]int32, task.Length)
	for _, id := range ids {
		for i, x := range said(task, id) {
			out[i] += x
		}
	}
	return out
}

func idsTo(n int) (out []uint32) {
	for i := range n {
		out = append(out, uint32(i))
	}
	return out
}

// attend has devices answer all they are asked for, masked or not, until the run is done or
// the coordinator ends.
func (r *harness) attend(d []*testDevice) (ended error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range d {
		wg.Go(func() {
			begun := map[uint32]bool{}
			for ctx.Err() == nil && r.c.Status().State != Finished {
				a, err := h.CheckIn(ctx, &pb.CheckInRequest{LastReport: h.last})
				switch task := a.GetTask(); {
				case err != nil || task == nil:
				case task.Masking == nil:
					_, _ = h.report(task)
				case !begun[task.Attempt]:
					begun[task.Attempt] = true
					v := said(task, h.id)
					if task.Kind == pb.Kind_TRAIN {
						v = make([]int32, task.Length)
						v[0] = int32(h.id)
					}
					h.played(r.t, task, v, nil)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	select {
	case ended = <-r.ended:
		cancel()
		<-over
	case <-over:
		if r.c.Status().State != Finished {
			r.t.Fatalf("the run did not end in time: %+v", r.c.Status())
		}
	}
	return ended
}

func evaluated(n int) *pb.Task {
	b, most := evaluation.Bound(n)
	return &pb.Task{Kind: pb.Kind_EVALUATE, Length: metrics.EvaluationLength, Bound: wire.EncodeBound(b, 0, 0, most)}
}

// judged checks an evaluation exactly: the noise of a deterministic run is known.
func (r *harness) judged(got Evaluation, ids []uint32, popular bool) {
	r.t.Helper()
	n := r.c.settings().Devices
	task := evaluated(n)
	b, _ := evaluation.Bound(n)
	sums := r.c.addNoise(got.Round-1, got.Noise, b.Unit(), total(task, ids))
	of := sums[0]
	if r.c.engine.Stack != nil {
		of = float64(n)
	}
	share := func(x float64) float64 { return math.Round(x/of*1e4) / 1e4 }
	want := Evaluation{
		Round: got.Round, Version: got.Version, Devices: math.Round(of), HR10: share(sums[1]),
		NDCG10: share(sums[2]), Popular: popular, Noise: got.Noise, Share: share(got.Noise),
	}
	if popular {
		want.PopHR10, want.PopNDCG10 = share(sums[4]), share(sums[5])
	}
	want.Run = 1
	if got != want {
		r.t.Errorf("the evaluation is\n%+v, want\n%+v", got, want)
	}
}

// popular is the order of items that three or more of these devices have.
func popular(ids []uint32, items int) (out []uint32) {
	sum := total(&pb.Task{Kind: pb.Kind_COUNT, Length: uint64(items)}, ids)
	for i, n := range sum {
		if n >= 3 {
			out = append(out, uint32(i))
		}
	}
	slices.SortStableFunc(out, func(a, b uint32) int { return int(sum[b] - sum[a]) })
	return out
}

// Whether training is masked or not, an evaluation is a masked sum, exact before its noise. It
// does not change the model.
func TestEvaluationsAreExactMaskedSums(t *testing.T) {
	const n = 12
	for name, change := range map[string]func(s Settings) Settings{
		"plain": func(s Settings) Settings { return s },
		"masked": func(s Settings) Settings {
			s.Masked, s.Devices = true, 14
			return withDP(s, "epsilon=80,delta=1e-3,clip=0.5,metrics=3")
		},
		"group": func(s Settings) Settings {
			s.Masked, s.GroupSize, s.Devices = true, 14, 28
			return withDP(s, "epsilon=80,delta=1e-3,clip=0.5,metrics=3")
		},
		"dp": func(s Settings) Settings { return withDP(s, "epsilon=80,delta=1e-3,clip=0.5,metrics=3") },
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name == "group" { // masks are slow under the race detector
				t.Skip("groups under the race detector are in TestALyingDeviceWithoutDPCostsOnlyItsGroup")
			}
			t.Parallel()
			s := small(n)
			s.Rounds, s.EvalEvery, s.Deadline = 2, 2, time.Minute
			s = change(s)
			r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
			if err := r.attend(r.enrolled(s.Devices)); err != nil {
				t.Fatal(err)
			}
			st, all := r.c.Status(), idsTo(s.Devices)
			if len(st.Evaluations) != 1 || st.Evaluations[0].Round != 2 || st.EvaluationMissed != "" {
				t.Fatalf("the evaluations are %+v, and %q", st.Evaluations, st.EvaluationMissed)
			}
			for _, got := range st.Evaluations {
				r.judged(got, all, !s.DP.On())
			}
			if want := popular(all, 10); !s.DP.On() && !slices.Equal(r.c.catalogue.Current().Popular, want) ||
				s.DP.On() &&
					r.c.catalogue.Current().Popular != nil {
				t.Errorf("popular are %v, want %v without DP, otherwise none", r.c.catalogue.Current().Popular,
					want)
			}
			if logs := r.c.st.Logs("round."); len(logs) > 0 {
				t.Errorf("%v are on disk", logs)
			}
			if !s.DP.On() {
				s.EvalEvery = 0
				if _, bits := r.model(); bits != undisturbed(t, s) {
					t.Error("evaluations changed the model")
				}
			}
		})
	}
}

// A federation with too few devices for an evaluation trains, and reports why it is not evaluated.
func TestTooFewDevicesForAnEvaluation(t *testing.T) {
	s := small(privacy.MinMaskedSum - 1)
	s.Rounds = 2
	var missed []string
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, func(o *Options) {
		o.Event = func(e Event) { missed = append(missed, e.EvaluationMissed) }
	})
	r.c.settings().EvalEvery = 1 // before the devices, for whom it waits
	d := r.enrolled(s.Devices)
	if err := r.attend(d); err != nil {
		t.Fatal(err)
	}
	st := r.c.Status()
	if st.Round != 2 || len(st.Evaluations) > 0 || !strings.Contains(st.EvaluationMissed, "fewer than 10 devices") ||
		len(missed) != 2 || missed[0] == "" {
		t.Errorf("%+v, and %q", st, missed)
	}
	if _, bits := r.model(); bits != undisturbed(t, s) {
		t.Error("a skipped evaluation changed the model")
	}
}

// The coordinator refuses unmasked reports of an evaluation at any time.
func TestAnUnmaskedEvaluationIsRefused(t *testing.T) {
	t.Parallel()
	const n = 12
	s := small(n)
	s.Rounds, s.EvalEvery, s.Deadline = 1, 1, time.Minute
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	clear := func(round uint32) {
		t.Helper()
		for _, kind := range []pb.Kind{pb.Kind_COUNT, pb.Kind_EVALUATE} {
			task := &pb.Task{Run: r.c.runID(), Round: round, Kind: kind, Length: 10, Bound: &pb.Bound{Max: 1}}
			v := make([]int64, 10)
			_, err := d[0].Report(context.Background(), request(task, wire.AppendUpdate(nil, v)))
			r.refused(err, rpc.NotMasked)
		}
	}
	clear(0)
	for _, h := range d {
		if task := h.task(); task.Kind != pb.Kind_TRAIN {
			t.Fatalf("the task is %v", task.Kind)
		} else if _, err := h.report(task); err != nil {
			t.Fatal(err)
		}
	}
	late := &pb.Task{Run: r.c.runID(), Kind: pb.Kind_TRAIN, Length: d[0].numbers(r)}
	for _, kind := range []pb.Kind{pb.Kind_COUNT, pb.Kind_EVALUATE} {
		var wg sync.WaitGroup
		for i, h := range d {
			task := h.task()
			waitFor(t, "the next task", func() bool { task = h.task(); return task.Kind == kind })
			if task.Masking == nil || task.Masking.MinDevices < privacy.MinMaskedSum {
				t.Fatalf("the task is %v", task)
			}
			if i == 0 {
				clear(0)
				// Meanwhile a report that counts is told so.
				if fate, err := h.report(late); err != nil || fate != pb.ReportState_COUNTED {
					t.Errorf("a report of the round that is over: %v, %v", fate, err)
				}
			}
			wg.Go(func() { h.played(t, task, said(task, h.id), nil) })
		}
		wg.Wait()
	}
	waitFor(t, "an evaluation", func() bool { return len(r.c.Status().Evaluations) == 1 })
	clear(0)
	r.judged(r.c.Status().Evaluations[0], idsTo(n), true)
}

func (h *testDevice) numbers(r *harness) uint64 { return uint64(r.c.plan.UpdateLength(0) + 1) }

// An evaluation does not count devices that leave at any step. If too many leave, it is skipped
// and costs neither budget nor training.
func TestDevicesLeaveAnEvaluationAtEveryStep(t *testing.T) {
	type leaving struct {
		dp    string
		kind  pb.Kind
		step  int
		leave int
	}
	const policy = "epsilon=80,delta=1e-3,clip=0.5,metrics=3"
	all := []leaving{
		{policy, pb.Kind_EVALUATE, wire.StepUpload, 2},
		{policy, pb.Kind_EVALUATE, wire.StepUpload, 8},
		{"none", pb.Kind_COUNT, wire.StepShareKeys, 2},
		{"none", pb.Kind_COUNT, wire.StepReveal, 8},
	}
	for _, step := range []int{wire.StepAdvert, wire.StepShareKeys, wire.StepUpload, wire.StepReveal} {
		all = append(all, leaving{"none", pb.Kind_EVALUATE, step, 2}, leaving{"none", pb.Kind_EVALUATE, step, 8})
	}
	if testing.Short() { // under the race detector: masks are slow
		all = all[:3]
	}
	s := small(12)
	s.Rounds, s.Deadline = 1, 3*time.Second
	model := undisturbed(t, s)
	for _, l := range all {
		t.Run(fmt.Sprintf("%.4s %v step %d leave %d", l.dp, l.kind, l.step, l.leave), func(t *testing.T) {
			t.Parallel()
			s := withDP(s, l.dp)
			s.EvalEvery = 1
			r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
			d := r.enrolled(s.Devices)
			for _, h := range d[s.Devices-l.leave:] {
				h.leaves, h.leavesAt = l.kind, l.step
			}
			if err := r.attend(d); err != nil {
				t.Fatal(err)
			}
			ids := idsTo(s.Devices - l.leave)
			if l.step == wire.StepReveal { // whoever has uploaded is in the sum
				ids = idsTo(s.Devices)
			}
			r.stayed(l.kind, ids, l.leave > 2)
			if _, bits := r.model(); l.dp == "none" && bits != model {
				t.Error("the model is another one")
			}
		})
	}
}

// stayed checks the evaluations that devices have left.
func (r *harness) stayed(kind pb.Kind, ids []uint32, none bool) {
	r.t.Helper()
	st, paid, all := r.c.Status(), int64(0), idsTo(12)
	if r.c.budget != nil {
		for _, e := range r.c.budget.All() {
			if r.c.engine.Stack.IsMetric(e) {
				paid += e.Rounds
			}
		}
		if (paid == 0) != none {
			r.t.Errorf("%d evaluations are paid for", paid)
		}
	}
	if st.Round != 1 || !st.LedgerOK || strings.Contains(st.EvaluationMissed, "too few devices stayed") != none {
		r.t.Errorf("%+v", st)
	}
	counted, read := all, ids
	if kind == pb.Kind_COUNT {
		counted, read = ids, all
	}
	known := r.c.budget == nil && !(none && kind == pb.Kind_COUNT)
	if got := r.c.catalogue.Current().Popular; known && !slices.Equal(got, popular(counted, 10)) || !known &&
		len(got) > 0 {
		r.t.Errorf("popular are %v", got)
	}
	if none && kind == pb.Kind_EVALUATE {
		if len(st.Evaluations) > 0 {
			r.t.Errorf("too many left: %+v", st.Evaluations)
		}
		return
	}
	if len(st.Evaluations) != 1 {
		r.t.Fatalf("%+v, %q", st.Evaluations, st.EvaluationMissed)
	}
	r.judged(st.Evaluations[0], read, known)
}

// A coordinator that is killed during an evaluation resumes training when it restarts. It does not
// repeat the evaluation, so no noise is drawn twice; the budget spent stays spent.
func TestKilledDuringAnEvaluation(t *testing.T) {
	const n = 12
	for _, dp := range []string{"none", "epsilon=80,delta=1e-3,clip=0.5,metrics=3"} {
		for _, point := range []string{"unmasking", "counted", "read"} {
			if dp != "none" && point == "counted" {
				continue // nobody is asked for items
			}
			if testing.Short() && (dp == "none") == (point == "unmasking") { // slow under the race detector
				continue
			}
			t.Run(fmt.Sprintf("%.4s %s", dp, point), func(t *testing.T) {
				t.Parallel()
				s := withDP(small(n), dp)
				s.Rounds, s.EvalEvery, s.Deadline = 2, 1, time.Minute
				dir := filepath.Join(t.TempDir(), "state")
				var once atomic.Bool
				r := open(t, dir, &s, func(o *Options) {
					o.fault = func(at string) error {
						if at == point && once.CompareAndSwap(false, true) {
							return errCut
						}
						return nil
					}
				})
				if err := r.attend(r.enrolled(n)); err == nil {
					t.Fatal("it was not cut off")
				}
				r.stop()
				r = open(t, dir, nil, nil)
				if st := r.c.Status(); st.Round != 1 || len(st.Evaluations) > 0 ||
					st.EvaluationMissed != "the coordinator was stopped during the evaluation after round 1" {
					t.Fatalf("after the kill: round %d, %+v, %q", st.Round, st.Evaluations, st.EvaluationMissed)
				}
				if err := r.attend(r.enrolled(n)); err != nil {
					t.Fatal(err)
				}
				st := r.c.Status()
				if len(st.Evaluations) != 1 || st.Evaluations[0].Round != 2 || !st.LedgerOK {
					t.Fatalf("%+v", st)
				}
				r.stop()
				if r = open(t, dir, nil, nil); point != "counted" && r.c.Status().EvaluationMissed != "" {
					t.Errorf("after a complete evaluation: %q", r.c.Status().EvaluationMissed)
				}
				// Devices say once which items they have: what was lost of that is not asked for again.
				r.judged(st.Evaluations[0], idsTo(n), !s.DP.On() && point == "read")
			})
		}
	}
}

// Devices are asked once for popularity: an older model gets it too.
func TestPopularitySurvivesARollback(t *testing.T) {
	t.Parallel()
	const n = 12
	s := small(n)
	s.Rounds, s.EvalEvery = 1, 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	if err := r.attend(r.enrolled(n)); err != nil {
		t.Fatal(err)
	}
	was := r.c.Status().Version
	if _, err := r.admin.Rollback(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the older model", func() bool { return r.c.Status().Version > was })
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if want := popular(idsTo(n), 10); !r.c.evaluations.Counted() || !slices.Equal(r.c.catalogue.Current().Popular,
		want) {
		t.Errorf("popular are %v, want %v", r.c.catalogue.Current().Popular, want)
	}
}

// The noise is another one each time where it is not a rehearsal's.
func TestEvaluationsHaveFreshNoise(t *testing.T) {
	s := small(5)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	r.c.settings().Deterministic = false
	seen := map[float64]bool{}
	for range 8 {
		r.c.noise.Renew()
		seen[r.c.addNoise(0, 2, 1, make([]int32, 6))[1]] = true
	}
	if r.c.settings().Deterministic = true; len(seen) < 7 {
		t.Errorf("eight evaluations have %d noises", len(seen))
	}
}

// A device that asks late learns the outcome of its evaluation, and not that of another sum.
func TestADeviceThatAsksLateLearnsTheOutcome(t *testing.T) {
	t.Parallel()
	const n = 12
	s := small(n)
	s.Rounds, s.EvalEvery = 1, 1
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(n)
	if err := r.attend(d); err != nil {
		t.Fatal(err)
	}
	asked, last := r.c.collection.History.Evaluations(), r.c.collection.LastAttempt()
	r.c.collection.EnterAttempt(nil) // as when the next masked round has begun
	if last == nil || len(asked) != 2 {
		t.Fatalf("%d evaluations are remembered, want items and evaluation", len(asked))
	}
	for _, o := range append(asked, collection.Closed{Attempt: 1}) {
		want := pb.MaskResponse_SUMMED
		if o.Devices == nil {
			want = pb.MaskResponse_ENDED
		}
		a, err := d[3].Mask(context.Background(), &pb.MaskRequest{
			Run: r.c.runID(), Round: o.Round, Attempt: o.Attempt,
			Step: wire.StepReveal,
		})
		if err != nil || a.State != want {
			t.Errorf("attempt %d: %v, %v, want %v", o.Attempt, a, err, want)
		}
	}
}

// Devices that checked in hours before a round ends are gone. An evaluation asks devices that made
// any call recently.
func TestAnEvaluationAsksPresentDevices(t *testing.T) {
	s := small(6)
	r := open(t, filepath.Join(t.TempDir(), "state"), &s, nil)
	d := r.enrolled(6)
	task := d[5].task()
	now := r.c.now()
	r.c.progress.beginRound(now.Add(-5 * time.Hour))
	for id, ago := range map[uint32]time.Duration{
		0: 4 * time.Hour, 1: s.Deadline / 2, 2: s.Deadline * 2,
		5: 4 * time.Hour,
	} {
		r.c.devices.Seen(id, now.Add(-ago), 0)
	}
	d[3].check()
	if _, err := d[4].Mask(context.Background(), &pb.MaskRequest{Run: task.Run}); err != nil {
		t.Fatal(err)
	}
	if fate, err := d[5].report(task); err != nil || fate != pb.ReportState_COUNTED {
		t.Fatalf("%v, %v", fate, err)
	}
	if got := r.c.present(); !slices.Equal(got, []uint32{1, 3, 4, 5}) {
		t.Errorf("%v are there", got)
	}
}
