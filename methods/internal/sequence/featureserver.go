package sequence

import (
	"math"
	"slices"

	"github.com/tacit-rec/tacit/internal/base/rng"
	"github.com/tacit-rec/tacit/learn"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// Update gathers the sums of a round of a feature pass. After the last round of the pass it computes what the next
// pass needs, or the features. A pass without any report changes nothing.
func (f *Features) Update(g *method.Global, pass int, first, last bool) {
	sums, total := g.Aggregate[f.First+featureRows], g.Value[f.First+featureGather]
	if pass == 0 {
		sums, total = g.Aggregate[f.First+featureSums], g.Value[f.First+featureTotal]
	}
	reports := &g.Value[f.First+featureState][0]
	if first {
		clear(total)
		*reports = 0
	}
	vec.Add(sums, total)
	if *reports += float32(g.Devices); !last || *reports == 0 {
		return
	}
	scale := method.PassScale(g.Users, float64(*reports))
	vec.Scale(float32(scale), total)
	switch pass {
	case 0:
		for i, stride := 0, g.Stride[f.First+featureTotal]; i < g.Items; i++ {
			for c, most := range sumRanges {
				total[i*stride+c] *= most
			}
		}
		f.endCounts(g, min(1, 1/scale))
	case 1:
		f.endProducts(g)
	case 2:
		f.endFeatures(g)
	}
}

// endCounts publishes the counts and the random columns of the second pass. seen is the share of the counted
// devices that reported: few devices must not look like more.
func (f *Features) endCounts(g *method.Global, seen float64) {
	total, stride := g.Value[f.First+featureTotal], g.Stride[f.First+featureTotal]
	counts, step := g.Value[f.First+featureCounts], g.Stride[f.First+featureCounts]
	for i := range g.Items {
		n := total[i*stride+sumDevices]
		if counts[i*step] = n; float64(n)*seen < float64(f.Few)-0.5 { // integers may be off by a rounding error
			counts[i*step] = 0
		}
	}
	k := f.columns(g.Items)
	signs := rng.New(rng.Init, uint64(k))
	omega := make([]float32, g.Items*k)
	for half, column := range []int{sumAfter, sumTogether} {
		for i := range g.Items {
			drawSigns(&signs, omega[i*k:(i+1)*k])
		}
		f.setProbe(g, half, omega, f.norms(g, column))
	}
}

// drawSigns sets numbers to 1 or -1.
func drawSigns(r *rng.Rand, dst []float32) {
	bits := uint64(0)
	for i := range dst {
		if i%64 == 0 {
			bits = r.Uint64()
		}
		dst[i] = float32(int(bits&1)*2 - 1)
		bits >>= 1
	}
}

// norms returns by item 1/sqrt(sum + 50) for a column of the sums, and 0 for items that few devices have.
func (f *Features) norms(g *method.Global, column int) []float32 {
	total, stride := g.Value[f.First+featureTotal], g.Stride[f.First+featureTotal]
	counts, step := g.Value[f.First+featureCounts], g.Stride[f.First+featureCounts]
	out := make([]float32, g.Items)
	for i := range out {
		if counts[i*step] > 0 {
			out[i] = float32(1 / math.Sqrt(smoothing+math.Max(0, float64(total[i*stride+column]))))
		}
	}
	return out
}

// setProbe sets one half of the probe, follows or together, to rows of m times their norms. It divides each column
// by its largest number, so that products of devices are as large as their range allows.
func (f *Features) setProbe(g *method.Global, half int, m, norms []float32) {
	k := f.columns(g.Items)
	probe, scale := g.Value[f.First+featureProbe], g.Value[f.First+featureState][1+half*k:][:k]
	clear(scale)
	for i, d := range norms {
		row := probe[i*2*k+half*k:][:k]
		vec.ScaleTo(d, m[i*k:(i+1)*k], row)
		for c, x := range row {
			scale[c] = max(scale[c], x, -x)
		}
	}
	for i := range norms {
		for c, x := range probe[i*2*k+half*k:][:k] {
			if scale[c] > 0 {
				probe[i*2*k+half*k+c] = x / scale[c]
			}
		}
	}
}

// rows returns one half of a table, with rows multiplied by their norms and columns by the scale of the probe.
func (f *Features) rows(g *method.Global, slot, half int, norms []float32) []float32 {
	k := f.columns(g.Items)
	table, scale := g.Value[f.First+slot], g.Value[f.First+featureState][1+half*k:][:k]
	out := make([]float32, g.Items*k)
	for i, d := range norms {
		row := out[i*k : (i+1)*k]
		for c, x := range table[i*2*k+half*k:][:k] {
			row[c] = float32(float32(x*scale[c]) * d)
		}
	}
	return out
}

// endProducts makes the products an orthonormal basis, which is the probe of the third pass.
func (f *Features) endProducts(g *method.Global) {
	k := f.columns(g.Items)
	for half, column := range []int{sumBefore, sumTogether} {
		norms := f.norms(g, column)
		y := f.rows(g, featureGather, half, norms)
		f.setProbe(g, half, orthonormal(y, g.Items, k), norms)
	}
}

// endFeatures computes the features, and clears the probe: with the basis Q of the columns of A, and the products
// W = A'Q, A is Q W'. If
// W'W = Z S² Z', then A is U S V' with U = Q Z and V = W Z / S. For together, which is symmetric, V is U after one
// more multiplication, up to the signs of columns.
func (f *Features) endFeatures(g *method.Global) {
	rows := f.norms(g, sumBefore)
	basis := make([]float32, len(rows)) // undoes the norms in the probe
	for i, d := range rows {
		if d > 0 {
			basis[i] = 1 / d
		}
	}
	n, k, r := g.Items, f.columns(g.Items), f.rankOf(g.Items)
	old := slices.Clone(g.Value[f.First+featureTable])
	w := f.rows(g, featureGather, 0, f.norms(g, sumAfter))
	left, right := factorMaps(w, n, k, r)
	f.setPart(g, 0, product(f.rows(g, featureProbe, 0, basis), n, k, left, r))
	f.setPart(g, 1, product(w, n, k, right, r))
	w = f.rows(g, featureGather, 1, f.norms(g, sumTogether))
	_, right = factorMaps(w, n, k, r)
	f.setPart(g, 2, product(w, n, k, right, r))
	f.normaliseRows(g)
	f.align(g, old)
	clear(g.Value[f.First+featureProbe])
}

// factorMaps returns Z sqrt(S) and Z / sqrt(S) for the r largest S, with W'W = Z S² Z'.
func factorMaps(w []float32, n, k, r int) (left, right []float32) {
	values, vectors := learn.Eigen(gram(w, n, k), k)
	left, right = make([]float32, k*r), make([]float32, k*r)
	for c := range min(r, k) {
		if !(values[c] > tinyShare*values[0]) {
			break
		}
		root := math.Sqrt(math.Sqrt(values[c]))
		for i, x := range vectors[c] {
			left[i*r+c], right[i*r+c] = float32(x*root), float32(x/root)
		}
	}
	return left, right
}

// setPart writes r of the 3r features of each item, divided by their standard deviation over the items that enough
// devices have.
func (f *Features) setPart(g *method.Global, part int, m []float32) {
	r := f.rankOf(g.Items)
	table, stride := g.Value[f.First+featureTable], g.Stride[f.First+featureTable]
	counts, step := g.Value[f.First+featureCounts], g.Stride[f.First+featureCounts]
	sum, square, n := 0.0, 0.0, 0.0
	for i := range g.Items {
		if counts[i*step] == 0 {
			continue
		}
		n += float64(r)
		for _, x := range m[i*r : (i+1)*r] {
			sum += float64(x)
			square += float64(float64(x) * float64(x))
		}
	}
	unit := 0.0
	if v := square - float64(sum*sum)/n; v > 0 && n > 1 {
		unit = 1 / math.Sqrt(v/(n-1))
	}
	for i := range g.Items {
		vec.ScaleTo(float32(unit), m[i*r:(i+1)*r], table[i*stride+part*r:][:r])
	}
}

// normaliseRows scales the features of each item to the length sqrt(3r). Items that few devices have get zeros.
func (f *Features) normaliseRows(g *method.Global) {
	wide := f.Width(g.Items)
	table, stride := g.Value[f.First+featureTable], g.Stride[f.First+featureTable]
	counts, step := g.Value[f.First+featureCounts], g.Stride[f.First+featureCounts]
	for i := range g.Items {
		row, square := table[i*stride:][:wide], 0.0
		for _, x := range row {
			square += float64(float64(x) * float64(x))
		}
		unit := math.Sqrt(float64(wide)) / math.Max(math.Sqrt(square), 1e-6)
		if counts[i*step] == 0 {
			unit = 0
		}
		vec.Scale(float32(unit), row)
	}
}

// tinyShare is the share of the largest eigenvalue of a Gram matrix below which one is a rounding error.
const tinyShare = 1e-10

// orthonormal returns an orthonormal basis of the columns of an n by k matrix, which it overwrites. Columns that
// depend on others become zero. One step divides by the square root of the Gram matrix; further steps remove its
// rounding errors.
func orthonormal(y []float32, n, k int) []float32 {
	for range 3 {
		values, vectors := learn.Eigen(gram(y, n, k), k)
		root := make([]float32, k*k)
		for c, v := range values {
			if !(v > tinyShare*values[0]) {
				break
			}
			unit := 1 / math.Sqrt(v)
			for i, x := range vectors[c] {
				root[i*k+c] = float32(x * unit)
			}
		}
		y = product(y, n, k, root, k)
	}
	return y
}

// blockRows is the number of rows that are multiplied at a time.
const blockRows = 256

// gram returns y'y for an n by k matrix. Blocks of rows are added up in float64, so that the error does not grow
// with the number of items.
func gram(y []float32, n, k int) []float64 {
	out, block := make([]float64, k*k), make([]float32, k*k)
	room := make([]float32, vec.GemmRoom(blockRows))
	for from := 0; from < n; from += blockRows {
		rows := min(blockRows, n-from)
		part := vec.Rows(y[from*k:(from+rows)*k], k)
		clear(block)
		vec.Gemm(k, k, rows, part.T(), part, room, vec.Rows(block, k))
		for i, x := range block {
			out[i] += float64(x)
		}
	}
	return out
}

// product returns the product of an n by k matrix and a k by r matrix.
func product(y []float32, n, k int, m []float32, r int) []float32 {
	out, room := make([]float32, n*r), make([]float32, vec.GemmRoom(k))
	vec.Gemm(n, r, k, vec.Rows(y, k), vec.Rows(m, r), room, vec.Rows(out, r))
	return out
}
