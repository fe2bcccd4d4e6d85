package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

func surfaceOf(g result.Grid) *chart.Surface {
	name, unit := "filter-normalised", "step, in lengths of each row of the weights"
	if g.Mode == "authors" {
		name, unit = "authors' directions", "step, as a length over all shared numbers"
	}
	return chart.NewSurface(name, unit, g.Axis, g.Loss)
}

func gridTable(g result.Grid) *Table {
	t := &Table{Header: []string{"alpha", "beta", "loss"}}
	for j, b := range g.Axis {
		for i, a := range g.Axis {
			t.Rows = append(t.Rows, []any{format.Exact(a), format.Exact(b), format.Exact(g.Loss[j][i])})
		}
	}
	return t
}

// landscapeFigures are contour and surface in each mode.
func landscapeFigures(l *result.Landscape) []figure {
	var out []figure
	for _, g := range slices.Backward(l.Grids) { // the comparable one first
		r := surfaceOf(g)
		lo, hi := r.Range()
		if math.IsNaN(lo+hi) || math.IsInf(lo+hi, 0) || hi < lo {
			continue
		}
		note := "Each row of the weights moves by up to its own length (Li et al. 2018), so that two models are " +
			"comparable. A wide basin around the model is good; a narrow pit is bad."
		if g.Mode == "authors" {
			note = fmt.Sprintf("As the authors of FedRecGEL draw it: a step of at most %s over all %s shared "+
				"numbers. The loss changes by only %s, so this picture says little about the model.",
				format.Digits(r.Axis[len(r.Axis)-1]), format.Count(l.Shared), format.Digits(hi-lo))
		}
		out = append(out,
			figure{
				"landscape-" + g.Mode + "-contour", strings.ToUpper(r.Name[:1]) + r.Name[1:] + ", from above",
				note, r.Contour(), gridTable(g),
			},
			figure{
				"landscape-" + g.Mode + "-surface", strings.ToUpper(r.Name[:1]) + r.Name[1:] + ", in relief",
				"The same values, seen from a corner.", r.Relief(), gridTable(g),
			})
	}
	return out
}

// sharpness is the table under a landscape.
func sharpness(l *result.Landscape) *Table {
	t := &Table{Header: []string{"sharpness: increase of the loss", "maximum", "mean"}, Align: "lr"}
	for _, g := range slices.Backward(l.Grids) {
		t.Rows = append(t.Rows, []any{fmt.Sprintf("over the square, %s, radius %s", surfaceOf(g).Name,
			format.Digits(g.Axis[len(g.Axis)-1])), format.Digits(g.Most), format.Digits(g.Mean)})
	}
	for _, a := range l.Ascent {
		t.Rows = append(t.Rows, []any{
			"by a step of length " + format.Digits(a.Rho) + " up the gradient (as SAM takes)",
			format.Digits(a.Rise), "",
		})
	}
	t.Rule = len(t.Rows)
	t.Notes = []string{fmt.Sprintf("Loss (%s) of the model: %s, over %s of %s. The shared parameters have length "+
		"%s. Regularisers are not included.",
		l.Loss, format.Digits(l.Centre), format.Plural(l.Samples, "sample"), format.Plural(l.Devices, "device"),
		format.Digits(l.Norm))}
	return t
}
