package chart

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// MapPoint is an item of a map. Kind is the item's role on the device: train, negative, valid, test, or empty.
type MapPoint struct {
	X, Y      float64
	Kind, Tip string
}

// mapKinds are the kinds in the order of drawing, with a class each.
var mapKinds = []struct{ kind, class string }{
	{"", "pts mute"}, {"negative", "pts c0"}, {"train", "pts c1"}, {"valid", ""}, {"test", ""},
}

// Scatter draws items in the plane. Points of a kind are one path, so that thousands of them stay small; the
// page's script finds the nearest and shows its tip. With tips set every point has its own tip, for files
// without a script. Caption returns the text below the map, given the factor by which heights are stretched.
func Scatter(about string, points []MapPoint, tips bool, caption func(stretch float64) string) template.HTML {
	const size, top, side = 372.0, 40.0, 14.0
	lo, hi := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, p := range points {
		lo[0], hi[0] = math.Min(lo[0], p.X), math.Max(hi[0], p.X)
		lo[1], hi[1] = math.Min(lo[1], p.Y), math.Max(hi[1], p.Y)
	}
	scale := math.Max(hi[0]-lo[0], hi[1]-lo[1]) // equal for both axes, to keep distances
	if !(scale > 0) || math.IsInf(scale, 0) {
		return ""
	}
	stretch := 1.0 // more if the map is too flat to see
	if tall := hi[1] - lo[1]; tall > 0 && tall < scale/2.5 {
		stretch = math.Min(1000, math.Floor(0.7*scale/tall))
	}
	at := func(p MapPoint) (x, y float64) {
		x = side + size/2 + (p.X-(lo[0]+hi[0])/2)/scale*size
		y = top + size/2 - (p.Y-(lo[1]+hi[1])/2)/scale*size*stretch
		return x, y
	}
	c := newCanvas(chartW, top+size+28, about)
	legend(c, points)
	for _, k := range mapKinds {
		var d, ids strings.Builder
		for i, p := range points {
			if p.Kind != k.kind {
				continue
			}
			x, y := at(p)
			switch {
			case k.kind == "valid" || k.kind == "test":
				marker(c, k.kind, x, y, p.Tip)
				c.b.WriteString(`<g class="spot" data-i="` + strconv.Itoa(i) + `" data-x="` + num(x) + `" data-y="` +
					num(y) + `"></g>`)
			case tips:
				c.dot("dot "+strings.TrimPrefix(k.class, "pts "), x, y, 2.2, p.Tip)
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
	c.text("mid unit", chartW/2, top+size+20, caption(stretch))
	return c.html()
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

func legend(c *canvas, points []MapPoint) {
	n := map[string]int{}
	for _, p := range points {
		n[p.Kind]++
	}
	x := 4.0
	for _, k := range []struct{ kind, class, word string }{
		{"train", "dot c1", "own items"},
		{"negative", "dot c0", "drawn negatives"},
		{"", "dot mute", "others"},
	} {
		c.dot(k.class, x+2, 8, 4, "")
		word := fmt.Sprintf("%s %s", format.Count(n[k.kind]), k.word)
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
