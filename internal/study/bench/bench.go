// Package bench measures speed on this machine: its peak rates, the kernels relative to them, a round of
// each method, and evaluation. A naive loop runs between the rounds of PFedRec: machines are noisy, so
// the ratio of two programs that ran alternately is more reliable than a time. It never measures
// accuracy. Times are medians, and the best is given too.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/vec"
)

// Report holds all measurements.
type Report struct {
	CPU      string    `json:"cpu"`
	Cores    int       `json:"cores"`
	Jobs     int       `json:"jobs"`
	Kernel   string    `json:"kernels"` // AVX2, NEON or pure Go
	Go       string    `json:"go"`
	Commit   string    `json:"commit"`
	Quick    bool      `json:"quick,omitempty"` // few methods, short measurements
	Peak     Peak      `json:"roof"`
	Kernels  []Kernel  `json:"kernel_rows"`
	Rounds   []Round   `json:"rounds"`
	Rankings []Ranking `json:"rankings"`
	Runs     []Run     `json:"runs"`
}

// Peak holds the maximal rates of the machine.
type Peak struct {
	FlopsCore float64 `json:"gflops_per_core"` // separate multiplications and additions, one core
	FlopsAll  float64 `json:"gflops_all"`
	BytesCore float64 `json:"gb_per_s_core"` // streaming from memory
	BytesAll  float64 `json:"gb_per_s_all"`
}

// Set is a data set to measure with.
type Set struct {
	Name   string
	Source data.Source
}

// Measuring is the event of a measurement that begins.
type Measuring struct{ What string }

// Config says what to measure.
type Config struct {
	Sets    []Set
	Jobs    int
	Quick   bool
	Commit  string
	CPU     string
	OnEvent func(Measuring) // receives progress events

	add func(func(*Report)) // adds a measurement to the report
}

// quickMethods are the methods whose rounds a quick measurement times: two factorisations, a network, a closed form
// and the default.
var quickMethods = []string{"pfedrec", "fedmf", "fedncf", "ials", "tacit"}

// Measure runs all measurements. When ctx is done, it returns at once, with the measurements that have ended and the
// error of ctx.
func Measure(ctx context.Context, c Config) (*Report, error) {
	r := &Report{
		CPU: c.CPU, Cores: runtime.NumCPU(), Jobs: c.Jobs, Kernel: vec.Features(), Go: runtime.Version(),
		Commit: c.Commit, Quick: c.Quick,
	}
	// A round may take minutes, so another goroutine measures, and this one does not wait for it after an interrupt.
	ended, done, tell := make(chan func(*Report)), make(chan error, 1), c.OnEvent
	c.add = func(f func(*Report)) {
		select {
		case ended <- f:
		case <-ctx.Done():
		}
	}
	c.OnEvent = func(e Measuring) { c.add(func(*Report) { tell(e) }) }
	go func() { done <- c.measure(ctx) }()
	for {
		select {
		case f := <-ended:
			f(r)
		case err := <-done:
			return r, err
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// measure runs the measurements one after the other.
func (c Config) measure(ctx context.Context) error {
	c.OnEvent(Measuring{"the peak rates of the machine"})
	rates := peak(c)
	c.add(func(r *Report) { r.Peak = rates })
	c.OnEvent(Measuring{"kernels"})
	if err := kernels(ctx, c, rates); err != nil {
		return err
	}
	for _, s := range c.Sets {
		for _, step := range []func(context.Context, Config, Set) error{rounds, ranking, wholeRun} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := step(ctx, c, s); err != nil {
				return fmt.Errorf("data set %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// span returns the duration of one measurement.
func (c Config) span() time.Duration {
	if c.Quick {
		return 40 * time.Millisecond
	}
	return 300 * time.Millisecond
}

// best calls f repeatedly for a while and returns the shortest time of one call, in seconds.
func (c Config) best(f func()) float64 {
	f()
	least := time.Duration(1<<63 - 1)
	for end := time.Now().Add(c.span()); time.Now().Before(end); {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least.Seconds()
}

// peak measures the peak rates.
func peak(c Config) Peak {
	const iterations = 200_000
	var r Peak
	flops := 0
	t := c.best(func() { flops = vec.Roof(iterations) })
	r.FlopsCore = giga(flops, t)
	t = c.best(func() { parallel(c.Jobs, func(int) { vec.Roof(iterations) }) })
	r.FlopsAll = giga(flops*c.Jobs, t)
	const floats = 16 << 20 // 64 MiB per core, which exceeds all caches
	mem := make([][]float32, c.Jobs)
	for j := range mem {
		mem[j] = make([]float32, floats)
		for i := range mem[j] {
			mem[j][i] = 1
		}
	}
	r.BytesCore = giga(4*floats, c.best(func() { vec.Sum(mem[0]) }))
	r.BytesAll = giga(4*floats*c.Jobs, c.best(func() { parallel(c.Jobs, func(j int) { vec.Sum(mem[j]) }) }))
	return r
}

func giga(n int, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return float64(n) / seconds / 1e9
}

func parallel(n int, f func(i int)) {
	done := make(chan struct{})
	for i := range n {
		go func() {
			f(i)
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return s[len(s)/2]
}
