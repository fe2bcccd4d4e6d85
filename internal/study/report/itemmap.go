package report

import (
	"fmt"
	"html/template"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// kindNames are what an item is to the device.
var kindNames = map[string]string{
	"negative": "drawn as a negative", "train": "the device's own", "valid": "validation item", "test": "test item",
}

func mapWord(kind string) string {
	if kind == "pca" {
		return "PCA"
	}
	return "t-SNE"
}

// itemScatter draws one map of the items.
func itemScatter(m *result.ItemMap, p result.Projection, alone bool) template.HTML {
	var points []chart.MapPoint
	for i, it := range m.Items {
		points = append(points, chart.MapPoint{X: p.XY[i][0], Y: p.XY[i][1], Kind: it.Kind, Tip: mapTip(m, i)})
	}
	about := fmt.Sprintf("Map of items by %s of the rows of the %s", mapWord(p.Kind), p.Table)
	return chart.Scatter(about, points, alone, func(stretch float64) string {
		if p.Shares == nil {
			return "near means similar; the axes have no unit"
		}
		words := fmt.Sprintf("the two widest directions: %.0f%% and %.0f%% of the variance", 100*p.Shares[0],
			100*p.Shares[1])
		if stretch > 1 {
			words += fmt.Sprintf("; height × %g", stretch)
		}
		return words
	})
}

// mapTip is the text over a point.
func mapTip(m *result.ItemMap, i int) string {
	it := m.Items[i]
	s := fmt.Sprintf("%s · %s", format.Clip(it.Title, 80), format.Plural(it.Rows, "train row"))
	if name := kindNames[it.Kind]; name != "" {
		s += " · " + name
	}
	s += " · score " + format.Digits(it.Global)
	if it.Own != nil {
		s += ", own rows " + format.Digits(*it.Own)
	}
	return s
}

func mapTable(m *result.ItemMap, p result.Projection) *Table {
	t := &Table{Header: []string{"item", "title", "train_rows", "kind", "x", "y", "global_score", "own_score"}}
	for i, it := range m.Items {
		own := ""
		if it.Own != nil {
			own = format.Exact(*it.Own)
		}
		t.Rows = append(t.Rows, []any{
			it.Item, it.Title, it.Rows, it.Kind, format.Exact(p.XY[i][0]), format.Exact(p.XY[i][1]),
			format.Exact(it.Global), own,
		})
	}
	return t
}

// mapFigures are the maps of a run.
func mapFigures(m *result.ItemMap, alone bool) []figure {
	var out []figure
	for _, p := range m.Maps {
		whose, note := "the coordinator's rows", "If devices tune their own copies, these rows need not separate "+
			"this device's items from others."
		if p.Table == "device" {
			whose, note = "the device's own rows", "After one local training. A gap between the device's own items "+
				"and its negatives shows what it learned; its test item should be near its own items."
		} else if len(m.Maps) < 3 {
			note = "If the test item lies among the device's own items, the rows capture its taste. A single blob " +
				"or line means that few dimensions are used."
		}
		if svg := itemScatter(m, p, alone); svg != "" {
			out = append(out, figure{
				"items-" + p.Table + "-" + p.Kind, mapWord(p.Kind) + " of " + whose, note, svg,
				mapTable(m, p),
			})
		}
	}
	return out
}
