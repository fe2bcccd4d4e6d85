package vec

// The kernels below work on an arena: rows of stride floats, addressed by number. The stride is
// a multiple of Lanes; the padding after a row's length is 0.

func row(arena []float32, stride int, r uint32) []float32 {
	o := int(r) * stride
	return arena[o : o+stride : o+stride]
}

// Dots sets dst[x] to v . row(rd[x]) + bias.
func Dots(arena []float32, stride int, rd []uint32, v []float32, bias float32, dst []float32) {
	if len(v) != stride || len(rd) != len(dst) || stride%Lanes != 0 {
		panic(badLength)
	}
	if dotsSIMD(arena, stride, rd, v, bias, dst) {
		return
	}
	if stride == 32 {
		w := (*[32]float32)(v)
		for x, r := range rd {
			o := int(r) * 32
			dst[x] = dot32((*[32]float32)(arena[o:o+32]), w) + bias
		}
		return
	}
	for x, r := range rd {
		dst[x] = dotAny(row(arena, stride, r), v) + bias
	}
}

// DotsAll sets dst[i] to v . row(i) + bias for the first len(dst) rows.
func DotsAll(arena []float32, stride int, v []float32, bias float32, dst []float32) {
	if len(v) != stride || stride%Lanes != 0 {
		panic(badLength)
	}
	if dotsAllSIMD(arena, stride, v, bias, dst) {
		return
	}
	if stride == 32 {
		w := (*[32]float32)(v)
		for i := range dst {
			dst[i] = dot32((*[32]float32)(arena[i*32:i*32+32]), w) + bias
		}
		return
	}
	for i := range dst {
		dst[i] = dotAny(arena[i*stride:(i+1)*stride], v) + bias
	}
}

// WSum adds to dst the sum of g[x]*row(rd[x]). It accumulates even x and odd x separately and
// then adds the two.
func WSum(arena []float32, stride int, rd []uint32, g, dst []float32) {
	if len(dst) != stride || len(rd) != len(g) || stride%Lanes != 0 {
		panic(badLength)
	}
	if wsumSIMD(arena, stride, rd, g, dst) {
		return
	}
	if stride == 32 {
		wsum32(arena, rd, g, (*[32]float32)(dst))
		return
	}
	for o := 0; o < stride; o += Lanes {
		var even, odd [Lanes]float32
		for x, r := range rd {
			a := (*[Lanes]float32)(arena[int(r)*stride+o:])
			s := &even
			if x&1 == 1 {
				s = &odd
			}
			for l := range s {
				s[l] += float32(g[x] * a[l])
			}
		}
		d := (*[Lanes]float32)(dst[o:])
		for l := range d {
			d[l] += even[l] + odd[l]
		}
	}
}

func wsum32(arena []float32, rd []uint32, g []float32, dst *[32]float32) {
	var even, odd [32]float32
	x := 0
	for ; x+4 <= len(rd); x += 4 {
		a := (*[32]float32)(arena[int(rd[x])*32:])
		b := (*[32]float32)(arena[int(rd[x+1])*32:])
		c := (*[32]float32)(arena[int(rd[x+2])*32:])
		d := (*[32]float32)(arena[int(rd[x+3])*32:])
		ga, gb, gc, gd := g[x], g[x+1], g[x+2], g[x+3]
		for l := range even {
			even[l] = float32(even[l]+float32(ga*a[l])) + float32(gc*c[l])
			odd[l] = float32(odd[l]+float32(gb*b[l])) + float32(gd*d[l])
		}
	}
	for ; x < len(rd); x++ {
		a := (*[32]float32)(arena[int(rd[x])*32:])
		s := &even
		if x&1 == 1 {
			s = &odd
		}
		for l := range s {
			s[l] += float32(g[x] * a[l])
		}
	}
	for l := range dst {
		dst[l] += even[l] + odd[l]
	}
}

// Scat subtracts g[x]*v from row(wr[x]), in the order of x.
func Scat(arena []float32, stride int, wr []uint32, g, v []float32) {
	if len(v) != stride || len(wr) != len(g) || stride%Lanes != 0 {
		panic(badLength)
	}
	if scatSIMD(arena, stride, wr, g, v) {
		return
	}
	if stride == 32 {
		w := (*[32]float32)(v)
		for x, r := range wr {
			o := int(r) * 32
			d, s := (*[32]float32)(arena[o:o+32]), g[x]
			for l := 0; l < 32; l += 4 {
				d[l] -= float32(s * w[l])
				d[l+1] -= float32(s * w[l+1])
				d[l+2] -= float32(s * w[l+2])
				d[l+3] -= float32(s * w[l+3])
			}
		}
		return
	}
	for x, r := range wr {
		Axpy(-g[x], v, row(arena, stride, r))
	}
}

// Spread adds g[x]*v to row(wr[x]), in the order of x: the gradient of rows that were multiplied
// by v. It negates g for Scat and restores it.
func Spread(arena []float32, stride int, wr []uint32, g, v []float32) {
	Scale(-1, g)
	Scat(arena, stride, wr, g, v)
	Scale(-1, g)
}

// Gather copies the rows src to consecutive rows from dst on.
func Gather(arena []float32, stride int, src []uint32, dst uint32) {
	if gatherSIMD(arena, stride, src, dst) {
		return
	}
	for k, r := range src {
		copy(row(arena, stride, dst+uint32(k)), row(arena, stride, r))
	}
}

// ScaleRows sets row to[x] of dst to s times row from[x] of src. The destination rows must be
// distinct and must not overlap the source rows.
func ScaleRows(s float32, src []float32, from []uint32, stride int, dst []float32, to []uint32) {
	if len(from) != len(to) || stride%Lanes != 0 {
		panic(badLength)
	}
	if scaleRowsSIMD(s, src, from, stride, dst, to) {
		return
	}
	for x, r := range from {
		ScaleTo(s, row(src, stride, r), row(dst, stride, to[x]))
	}
}

// ScaleEach multiplies row at[x] of dst by s[x], for every x.
func ScaleEach(s []float32, at []uint32, stride int, dst []float32) {
	if len(s) != len(at) || stride%Lanes != 0 {
		panic(badLength)
	}
	if scaleEachSIMD(s, at, stride, dst) {
		return
	}
	for x, r := range at {
		Scale(s[x], row(dst, stride, r))
	}
}

// Fold adds the difference between consecutive row k from loc on and s*row(item[k]) to
// row(dst+item[k]).
func Fold(arena []float32, stride int, item []uint32, s float32, loc, dst uint32) {
	if stride%Lanes != 0 {
		panic(badLength)
	}
	if foldSIMD(arena, stride, item, s, loc, dst) {
		return
	}
	for k, r := range item {
		base := row(arena, stride, r)
		now, d := row(arena, stride, loc+uint32(k)), row(arena, stride, dst+r)
		if len(base) != len(now) || len(base) != len(d) {
			panic(badLength)
		}
		for l, b := range base {
			d[l] += now[l] - float32(s*b)
		}
	}
}

// Merge adds the shards' slices to dst in order and clears them. Shard s is acc[s*step :
// s*step+len(dst)].
func Merge(acc []float32, step, shards int, dst []float32) {
	n := mergeSIMD(acc, step, shards, dst)
	for s := range shards {
		a := acc[s*step+n : s*step+len(dst)]
		for i, v := range a {
			dst[n+i] += v
		}
		clear(a)
	}
}
