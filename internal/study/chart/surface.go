package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
)

// levels is the number of colours of a surface: classes l0 to l9 of the style sheet, dark blue to yellow, of
// increasing lightness.
const levels = 10

// Surface is a loss over two directions: Loss[b][a] at Axis[a] along the first and Axis[b] along the second. Unit is
// the unit of the axes.
type Surface struct {
	Name, Unit string
	Axis       []float64
	Loss       [][]float64
	lo, hi     float64
}

// NewSurface returns a surface with its range.
func NewSurface(name, unit string, axis []float64, loss [][]float64) *Surface {
	r := &Surface{Name: name, Unit: unit, Axis: axis, Loss: loss, lo: math.Inf(1), hi: math.Inf(-1)}
	for _, row := range loss {
		for _, x := range row {
			r.lo, r.hi = math.Min(r.lo, x), math.Max(r.hi, x)
		}
	}
	return r
}

func (r *Surface) level(x float64) int {
	if !(r.hi > r.lo) {
		return 0
	}
	return min(levels-1, max(0, int(levels*(x-r.lo)/(r.hi-r.lo))))
}

// at is the loss at u and v from 0 to 1, by bilinear interpolation.
func (r *Surface) at(u, v float64) float64 {
	n := float64(len(r.Axis) - 1)
	a, b := math.Min(u*n, n-1e-9), math.Min(v*n, n-1e-9)
	i, j := int(a), int(b)
	s, t := a-float64(i), b-float64(j)
	return (1-t)*((1-s)*r.Loss[j][i]+s*r.Loss[j][i+1]) + t*((1-s)*r.Loss[j+1][i]+s*r.Loss[j+1][i+1])
}

// Range returns the lowest and the highest loss.
func (r *Surface) Range() (lo, hi float64) { return r.lo, r.hi }

// Contour draws the surface from above.
func (r *Surface) Contour() template.HTML {
	const left, top, size, fine = 46.0, 30.0, 262.0, 45
	c := newCanvas(chartW, top+size+42, "Loss landscape from above, "+r.Name)
	c.text("unit", 0, 12, r.height())
	for j := range fine {
		v := (float64(j) + 0.5) / fine
		for i := 0; i < fine; {
			l, from := r.level(r.at((float64(i)+0.5)/fine, v)), i
			for i < fine && r.level(r.at((float64(i)+0.5)/fine, v)) == l {
				i++
			}
			c.rect(fmt.Sprintf("cell l%d", l), left+size*float64(from)/fine, top+size*(1-float64(j+1)/fine),
				size*float64(i-from)/fine+0.6, size/fine+0.6, "")
		}
	}
	for k := 1; k < levels; k++ {
		if d := r.isoline(r.lo+(r.hi-r.lo)*float64(k)/levels, left, top, size); d != "" {
			c.open("path", "iso", "d", d)
			c.end("path", "")
		}
	}
	n := len(r.Axis) - 1
	for _, k := range []int{0, n / 2, n} {
		at, label := size*float64(k)/float64(n), signed(r.Axis[k])
		c.text("mid tick", left+at, top+size+16, label)
		c.text("fin tick", left-6, top+size-at+4, label)
	}
	c.dot("pin", left+size/2, top+size/2, 4, "the model")
	c.text("mid unit", chartW/2, top+size+36, r.Unit)
	bar, h := left+size+22, size/levels
	for k := range levels {
		c.rect(fmt.Sprintf("cell l%d", k), bar, top+size-h*float64(k+1), 12, h, "")
	}
	for _, k := range []int{0, levels / 2, levels} {
		c.text("tick", bar+17, top+size-h*float64(k)+4, r.label(r.lo+(r.hi-r.lo)*float64(k)/levels))
	}
	return c.html()
}

func signed(x float64) string {
	if x > 0 {
		return "+" + format.Digits(x)
	}
	return format.Digits(x)
}

// flat reports whether the range is so small that labels show the difference from the model's loss.
func (r *Surface) flat() bool { return r.hi-r.lo < 1e-3*math.Abs(r.centre()) }

func (r *Surface) centre() float64 { return r.Loss[len(r.Axis)/2][len(r.Axis)/2] }

// height is the meaning of the colours.
func (r *Surface) height() string {
	if r.flat() {
		return "training loss minus the model's " + format.Digits(r.centre())
	}
	return "training loss"
}

func (r *Surface) label(x float64) string {
	if !r.flat() {
		return format.Digits(x)
	}
	if x = x - r.centre(); x > 0 {
		return fmt.Sprintf("+%.1g", x)
	}
	return fmt.Sprintf("%.1g", x)
}

// isoline is the path at which the loss is z, by marching squares.
func (r *Surface) isoline(z, left, top, size float64) string {
	var d strings.Builder
	n := len(r.Axis) - 1
	place := func(i, j float64) string {
		return num(left+size*i/float64(n)) + " " + num(top+size*(1-j/float64(n)))
	}
	for j := range n {
		for i := range n {
			x, y := float64(i), float64(j)
			corner := [4]float64{r.Loss[j][i], r.Loss[j][i+1], r.Loss[j+1][i+1], r.Loss[j+1][i]}
			from := [4][2]float64{{x, y}, {x + 1, y}, {x + 1, y + 1}, {x, y + 1}}
			var cuts []string
			for k := range 4 {
				a, b := corner[k], corner[(k+1)%4]
				if (a < z) == (b < z) {
					continue
				}
				t, p, q := (z-a)/(b-a), from[k], from[(k+1)%4]
				cuts = append(cuts, place(p[0]+t*(q[0]-p[0]), p[1]+t*(q[1]-p[1])))
			}
			for k := 0; k+1 < len(cuts); k += 2 {
				d.WriteString("M" + cuts[k] + "L" + cuts[k+1])
			}
		}
	}
	return d.String()
}

// Relief draws the surface in perspective, the far corner first.
func (r *Surface) Relief() template.HTML {
	const w, h, high = 168.0, 62.0, 118.0
	cx, base := chartW/2, 236.0
	c := newCanvas(chartW, 320, "Loss landscape in relief, "+r.Name)
	c.text("unit", 0, 12, r.height())
	n := len(r.Axis) - 1
	if r.Loss[n][n] > r.Loss[0][0] { // view from the lower corner, so that a slope does not hide itself
		turned := make([][]float64, n+1)
		for j, row := range r.Loss {
			turned[n-j] = slices.Clone(row)
			slices.Reverse(turned[n-j])
		}
		r = &Surface{r.Name, r.Unit, r.Axis, turned, r.lo, r.hi}
	}
	point := func(i, j int) (x, y float64) {
		u, v := 2*float64(i)/float64(n)-1, 2*float64(j)/float64(n)-1
		z := 0.0
		if r.hi > r.lo {
			z = (r.Loss[j][i] - r.lo) / (r.hi - r.lo)
		}
		return cx + (u-v)*w/2, base + (u+v)*h/2 - z*high
	}
	step := max(1, n/20)
	for j := 0; j+step <= n; j += step { // both rise towards the viewer
		for i := 0; i+step <= n; i += step {
			var p []string
			mean := 0.0
			for _, k := range [4][2]int{{i, j}, {i + step, j}, {i + step, j + step}, {i, j + step}} {
				x, y := point(k[0], k[1])
				p = append(p, num(x)+","+num(y))
				mean += r.Loss[k[1]][k[0]] / 4
			}
			c.open("polygon", fmt.Sprintf("face l%d", r.level(mean)), "points", strings.Join(p, " "))
			c.end("polygon", "")
		}
	}
	x, y := point(n/2, n/2)
	c.line("whisker", x, y-22, x, y)
	c.dot("pin", x, y, 3, "the model")
	c.text("mid ink over", x, y-27, "the model")
	c.text("tick", 0, 296, "lowest "+r.label(r.lo))
	c.text("tick", 0, 312, "highest "+r.label(r.hi))
	c.text("fin tick", chartW, 312, "each side from "+signed(r.Axis[0])+" to "+signed(r.Axis[n]))
	return c.html()
}
