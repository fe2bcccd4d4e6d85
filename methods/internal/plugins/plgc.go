package plugins

import (
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
)

// PLGC is a plug-in against dimensional collapse (arXiv 2508.19591, of which only the
// abstract was available). The abstract states: a device holds a frozen copy of the
// global item table beside its own; a strategy based on the neural tangent kernel
// balances the two in the forward pass, towards the user; a contrastive loss between
// dimensions reduces redundancy; the strategy can be added to other methods. Everything
// else is derived, not reproduced:
//
// The scored rows are l*own + (1-l)*downloaded. When local training starts, the own rows
// equal the downloaded ones. l is own/(own+frozen), where own and frozen are the traces
// of the last layer's tangent kernel with either table on the batch's items (LG-Mix, ICLR
// 2024, weights updates in this way). It is a running mean over the device's batches,
// kept on the device and limited to 0.05 to 0.95; it has no gradient. The loss is that of
// Barlow Twins between the columns of own and frozen rows. It has its own learning rate,
// because item rates of thousands would turn it into noise. Own rows are not kept between
// rounds: when kept and averaged, they lose what other devices learnt.
//
// It fits fedmf, fedncf and pfedrec, alone or with dualper in either order; and fedrap,
// where l*own + (1-l)*common replaces the sum of the two tables.
type PLGC struct {
	method.Learner
	NTK        string         `default:"trace" choices:"trace|lmax|residual|fixed|none" range:"trace|lmax|residual|fixed|none" doc:"how own and frozen rows are balanced: trace or largest eigenvalue of the tangent kernel, its effect on the residuals, a fixed weight, or not at all"`
	NTKStart   float32        `default:"0.5" min:"0" max:"1" range:"0.5..1" doc:"initial weight of the own rows; the only one with ntk=fixed"`
	NTKScope   string         `default:"device" choices:"device|item" range:"device|item" doc:"one weight per device, or one per item from the norms of its two rows"`
	NTKRunning string         `default:"mean" choices:"mean|ema|none" range:"mean|ema|none" doc:"mean of all measurements, exponential moving average (0.1), or the newest only"`
	NTKCenter  bool           `default:"false" doc:"center features over the batch, as the code of LG-Mix does"`
	Decor      learn.Schedule `default:"0.001" min:"0" range:"0|1e-5|1e-4|1e-3|1e-2" doc:"learning rate of the decorrelation step; 0 disables it"`
	DecorView  string         `default:"global" choices:"global|mixed|self" range:"global|mixed|self" doc:"rows that are correlated with the frozen rows: own or mixed; self decorrelates own rows only (FedDecorr)"`
	DecorOff   float32        `default:"0.03" min:"0" range:"0.005..1,log" doc:"weight of correlations between different columns"`
	Serve      string         `default:"mixed" choices:"mixed|base" range:"mixed|base" doc:"recommend with the mixed rows of the last round, or as the base does"`
}

var (
	_ method.Learner = (*PLGC)(nil)
	_ method.Headed  = (*PLGC)(nil)
	_ method.Wrapper = (*PLGC)(nil)
	_ method.Checker = (*PLGC)(nil)
)

// NewPLGC returns the base with balanced tables.
func NewPLGC(base method.Method) (method.Method, error) {
	b, ok := base.(learn.Pluggable)
	_, fits := method.As[learn.Tabled](base)
	_, twice := method.As[*PLGC](base)
	if !ok || !fits || twice {
		return nil, errors.New("plgc fits fedmf, fedncf, pfedrec and fedrap, once, and the first two with dualper: " +
			"methods with own rows beside the downloaded ones")
	}
	return &PLGC{Learner: b}, nil
}

func (m *PLGC) Unwrap() method.Method { return m.Learner }

func (m *PLGC) tables() (learn.Blend, error) {
	t, _ := method.As[learn.Tabled](m.Learner)
	return t.ItemTables()
}

func (m *PLGC) Separable() bool { return m.Learner.(learn.Pluggable).Separable() }

func (m *PLGC) blend() learn.Blend {
	b, _ := m.tables()
	b.PerItem = m.NTKScope == "item" && m.mixes()
	return b
}

func (m *PLGC) mixes() bool    { return m.NTK != "none" }
func (m *PLGC) measures() bool { return m.mixes() && m.NTK != "fixed" && m.NTKScope == "device" }

func (m *PLGC) Slots(items int) []method.Slot {
	s, b := m.Learner.Slots(items), m.blend()
	for i := range s {
		if s[i].Scope == method.Shared && s[i].Serve == method.ServeGlobal && m.Serve == "mixed" && m.mixes() &&
			b.Own == b.Frozen {
			s[i].Serve = method.ServeLocal
		}
	}
	if m.measures() {
		s = append(s, method.Slot{
			Name: balance, Scope: method.Private, Rows: 1, Dim: 2,
			Doc: "weight of the device's own rows, and the number of measurements",
		})
	}
	return s
}

// weight returns the weight of the device's own rows.
func (m *PLGC) weight(w *method.Work) float32 {
	if !m.mixes() {
		return 1
	}
	if s := balanceOf(w); s != nil && s[1] > 0 {
		return min(max(s[0], 0.05), 0.95)
	}
	return m.NTKStart
}

func (m *PLGC) Head() *method.Head {
	if h, ok := method.As[method.Headed](m.Learner); ok && !m.mixes() {
		return h.Head()
	}
	return nil
}

func (m *PLGC) Logits(w *method.Work, b *method.Batch, out []float32) {
	if m.mixes() {
		m.blend().Logits(m.Learner, w, b, m.weight(w), out)
		return
	}
	m.Learner.Logits(w, b, out)
}

func (m *PLGC) Back(w *method.Work, b *method.Batch, dz []float32) {
	if m.mixes() {
		m.blend().Back(m.Learner, w, b, m.weight(w), dz)
		return
	}
	m.Learner.Back(w, b, dz)
}

func (m *PLGC) Visit(items int) method.Visit { return m.PluggedVisit(m, items, learn.Plug{}) }

func (m *PLGC) PluggedVisit(of method.Learner, items int, p learn.Plug) method.Visit {
	blend, ntk := m.blend(), learn.NTK{Blend: m.blend(), Kind: m.NTK, Center: m.NTKCenter}
	var after []method.Step
	if m.Decor != (learn.Schedule{}) {
		loss := learn.Alone(blend.Decorrelate(m.DecorView, m.DecorOff, m.weight))
		after = append(after, learn.Descend(loss, learn.SGD(blend.Own, m.Decor, 0)))
	}
	if m.measures() {
		after = append(after, method.Step{Do: func(w *method.Work, b *method.Batch) float64 {
			m.update(balanceOf(w), ntk.Share(m.Learner, w, b))
			return 0
		}})
	}
	p.After = append(after, p.After...)
	return m.Learner.(learn.Pluggable).PluggedVisit(of, items, p)
}

func (m *PLGC) Check() error {
	if _, err := m.tables(); err != nil {
		return fmt.Errorf("%w; plgc requires one", err)
	}
	return nil
}
