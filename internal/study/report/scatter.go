package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// mapKinds are what an item is to the device, in the order of drawing: a shape for
// each, so that nobody needs the colour.
var mapKinds = []struct{ kind, class, word string }{
	{"", "pts mute", "other"},
	{"negative", "pts c0", "drawn as a negative"},
	{"train", "pts c1", "the device's own"},
	{"valid", "", "validation item"},
	{"test", "", "test item"},
}

// scatter draws a map. Points of a kind are one path, so that thousands weigh little;
// the page's script finds the nearest and tells its title. alone puts a title on every
// point instead, for a file without a script.
func scatter(m *ItemMap, p Map, alone bool) template.HTML {
	const size, top, side = 372.0, 40.0, 14.0
	lo, hi := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, xy := range p.XY {
		for k := range 2 {
			lo[k], hi[k] = math.Min(lo[k], xy[k]), math.Max(hi[k], xy[k])
		}
	}
	scale := math.Max(hi[0]-lo[0], hi[1]-lo[1]) // one for both axes: distances are the point
	if !(scale > 0) || math.IsInf(scale, 0) {
		return ""
	}
	stretch := 1.0 // unless nothing could be seen
	if tall := hi[1] - lo[1]; tall > 0 && tall < scale/2.5 {
		stretch = math.Min(1000, math.Floor(0.7*scale/tall))
	}
	at := func(xy [2]float64) (x, y float64) {
		return side + size/2 + (xy[0]-(lo[0]+hi[0])/2)/scale*size, top +
			size/2 - (xy[1]-(lo[1]+hi[1])/2)/scale*size*stretch
	}
	c := newCanvas(chartW, top+size+28, fmt.Sprintf("Map of items by %s of the rows of the %s", mapWord(p.Kind),
		p.Table))
	legend(c, m)
	for _, k := range mapKinds {
		var d, ids strings.Builder
		for i, it := range m.Items {
			if it.Kind != k.kind {
				continue
			}
			x, y := at(p.XY[i])
			switch {
			case k.kind == "valid" || k.kind == "test":
				marker(c, k.kind, x, y, mapTip(m, i))
				c.b.WriteString(`<g class="spot" data-i="` + strconv.Itoa(i) + `" data-x="` + num(x) + `" data-y="` +
					num(y) + `"></g>`)
			case alone:
				c.dot("dot "+strings.TrimPrefix(k.class, "pts "), x, y, 2.2, mapTip(m, i))
			default:
				d.WriteString("M" + num(x) + " " + num(y) + "h0")
				ids.WriteString(strconv.Itoa(i) + " ")
			}
		}
		if d.Len() > 0 {
			c.open("path", k.class, "d", d.String(), "data-i", strings.TrimSpace(ids.String()))
			c.end("path", "")
		}
	}
	if p.Shares != nil {
		words := fmt.Sprintf("the two widest directions: %.0f%% and %.0f%% of the variance", 100*p.Shares[0],
			100*p.Shares[1])
		if stretch > 1 {
			words += fmt.Sprintf("; height × %g", stretch)
		}
		c.text("mid unit", chartW/2, top+size+20, words)
	} else {
		c.text("mid unit", chartW/2, top+size+20, "near means similar; the axes have no unit")
	}
	return c.html()
}

func mapWord(kind string) string {
	if kind == "pca" {
		return "PCA"
	}
	return "t-SNE"
}

// marker is a diamond for the test item and a square for the validation item.
func marker(c *canvas, kind string, x, y float64, tip string) {
	r := 6.5
	d := fmt.Sprintf("M%s %sl%s %sl%s %sl%s %sz", num(x), num(y-r), num(r), num(r), num(-r), num(r), num(-r), num(-r))
	if kind == "valid" {
		r = 4.5
		d = fmt.Sprintf("M%s %sh%sv%sh%sz", num(x-r), num(y-r), num(2*r), num(2*r), num(-2*r))
	}
	c.open("path", "held", "d", d)
	c.end("path", tip)
}

func legend(c *canvas, m *ItemMap) {
	n := map[string]int{}
	for _, it := range m.Items {
		n[it.Kind]++
	}
	x := 4.0
	for _, k := range []struct{ kind, class, word string }{
		{"train", "dot c1", "own items"},
		{"negative", "dot c0", "drawn negatives"},
		{"", "dot mute", "others"},
	} {
		c.dot(k.class, x+2, 8, 4, "")
		word := fmt.Sprintf("%s %s", count(n[k.kind]), k.word)
		c.text("small", x+10, 12, word)
		x += 24 + 6.3*float64(len(word))
	}
	if n["test"]+n["valid"] == 0 {
		return
	}
	x = 4
	for _, k := range []struct{ kind, word string }{{"test", "test item"}, {"valid", "validation item"}} {
		if n[k.kind] > 0 {
			marker(c, k.kind, x+3, 25, "")
			c.text("small", x+14, 29, k.word)
			x += 30 + 6.3*float64(len(k.word))
		}
	}
}

// mapTip is the text over a point.
func mapTip(m *ItemMap, i int) string {
	it := m.Items[i]
	s := fmt.Sprintf("%s · %s", clip(it.Title, 80), plural(it.Rows, "train row"))
	for _, k := range mapKinds {
		if k.kind == it.Kind && it.Kind != "" {
			s += " · " + k.word
		}
	}
	s += " · score " + digits(it.Global)
	if it.Own != nil {
		s += ", own rows " + digits(*it.Own)
	}
	return s
}

func mapTable(m *ItemMap, p Map) *Table {
	t := &Table{Header: []string{"item", "title", "train_rows", "kind", "x", "y", "global_score", "own_score"}}
	for i, it := range m.Items {
		own := ""
		if it.Own != nil {
			own = exact(*it.Own)
		}
		t.Rows = append(t.Rows, []any{
			it.Item, it.Title, it.Rows, it.Kind, exact(p.XY[i][0]), exact(p.XY[i][1]),
			exact(it.Global), own,
		})
	}
	return t
}

// mapFigures are the maps of a run.
func mapFigures(m *ItemMap, alone bool) []figure {
	var out []figure
	for _, p := range m.Maps {
		whose, note := "the coordinator's rows", "Where devices tune their own copy, these rows need not tell this "+
			"device's items from others."
		if p.Table == "device" {
			whose, note = "the device's own rows", "After one visit. Items it has, apart from those it drew as "+
				"negatives, show what it learnt; its test item should lie with its own."
		} else if len(m.Maps) < 3 {
			note = "If its test item lies among its own items, the rows tell what it likes. One blob or one line " +
				"means few dimensions are used."
		}
		if svg := scatter(m, p, alone); svg != "" {
			out = append(out, figure{
				"items-" + p.Table + "-" + p.Kind, mapWord(p.Kind) + " of " + whose, note, svg,
				mapTable(m, p),
			})
		}
	}
	return out
}
