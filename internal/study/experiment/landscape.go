package experiment

import (
	"context"
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/study/figure"
	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// lossName returns the loss that the method trains with.
func (f *figures) lossName() string {
	if s, ok := param.Values(f.job.Params)["loss"].(string); ok {
		return s
	}
	return "bce"
}

// landscape measures the loss on two grids. It chooses the numbers of devices and samples so that the
// multiplications stay within landscapeWork.
func (f *figures) landscape(ctx context.Context, out *result.Figures) string {
	shared, private := f.run.Plan().Sizes()
	weights := private + 200
	for _, s := range f.run.Slots() {
		if s.Scope == method.Shared && !s.PerItem {
			weights += s.Rows * s.Dim
		}
	}
	side := 21
	switch {
	case shared > landscapeMost:
		return "too many shared parameters"
	case f.split.Users() > manyUsers:
		return "too many users"
	case shared > landscapeWide:
		side = 11
	}
	samples := int(landscapeWork / float64(2*side*side) / float64(weights))
	devices := min(max(samples/100, 8), 64)
	name := f.lossName()
	p, why := f.run.NewProbe(learn.LossNamed(name), f.users(devices), max(samples/devices, 16), f.job.Jobs)
	if p == nil {
		return why
	}
	l := &result.Landscape{Loss: name, Shared: shared}
	s := &survey{probe: p, centre: p.Loss(), seed: f.run.Seed}
	for k := range p.Slots {
		slot, v := p.Slot(k), p.Value(k)
		rows := figure.Rows{N: slot.Rows, Dim: slot.Dim, Stride: len(v) / slot.Rows, Data: slices.Clone(v)}
		s.at, s.live = append(s.at, figure.Tensor{Rows: rows, Flat: p.Flat(k)}), append(s.live, v)
		for _, x := range v {
			l.Norm += float64(x) * float64(x)
		}
	}
	l.Norm, l.Centre = result.SixDigits(math.Sqrt(l.Norm)), result.SixDigits(s.centre)
	l.Devices, l.Samples = p.Devices()
	s.ascend(l)
	s.grid(ctx, l, figure.Authors, side, 0.001)
	s.grid(ctx, l, figure.Filter, side, 1)
	if ctx.Err() != nil {
		return ""
	}
	if !finite(l) {
		return "the loss is not finite around the model"
	}
	out.Landscape = l
	return ""
}

// survey measures the loss around a model.
type survey struct {
	probe  *sim.Probe
	at     []figure.Tensor // the model
	live   [][]float32     // parameters that the probe reads
	centre float64
	seed   uint64
}

// ascend measures how much the loss rises after steps along the gradient.
func (s *survey) ascend(l *result.Landscape) {
	p, at, live, centre := s.probe, s.at, s.live, s.centre
	grad := p.Gradient()
	still := figure.Ascent(grad, 0)
	for _, rho := range []float64{0.01, 0.05, 0.1} {
		figure.Move(at, figure.Ascent(grad, rho), still, 1, 0, live)
		l.Ascent = append(l.Ascent, result.AscentStep{Rho: rho, Rise: result.SixDigits(p.Loss() - centre)})
	}
}

// grid measures the loss on a square grid with side points per axis, until ctx is done.
func (s *survey) grid(ctx context.Context, l *result.Landscape, mode figure.Mode, side int, radius float64) {
	one := result.Grid{Mode: string(mode), Axis: figure.Axis(side, radius)}
	d0, d1 := figure.Direction(mode, s.at, s.seed, 0), figure.Direction(mode, s.at, s.seed, 1)
	for _, b := range one.Axis {
		row := make([]float64, 0, side)
		for _, a := range one.Axis {
			if ctx.Err() != nil {
				return
			}
			figure.Move(s.at, d0, d1, a, b, s.live)
			row = append(row, s.probe.Loss())
		}
		one.Loss = append(one.Loss, row)
	}
	rise := figure.SharpnessOf(one.Loss, s.centre)
	one.Most, one.Mean = result.SixDigits(rise.Most), result.SixDigits(rise.Mean)
	l.Grids = append(l.Grids, one)
}

// finite rounds the losses, and reports whether all are finite and can be written as JSON.
func finite(l *result.Landscape) bool {
	for _, g := range l.Grids {
		for _, row := range g.Loss {
			for k, x := range row {
				if x-x != 0 {
					return false
				}
				row[k] = math.Round(x*1e9) / 1e9 // differences may be a millionth of the value
			}
		}
	}
	return true
}
