package vec

import "math"

// Pack writes a row as whole numbers of 8 or 16 bits, four or two to a word with the
// first in the lowest bits, and returns the unit: number q stands for q*unit. The
// unit is the largest size in the row over 127 or 32767, numbers are rounded to the
// nearest, halves to even. A row that holds NaN or an infinity has the unit NaN; one
// of nothing but numbers too small to be told apart has the unit 0. The row is a
// multiple of Lanes long.
func Pack(bits int, row []float32, dst []uint32) (unit float32) {
	if len(row)%Lanes != 0 || bits != 8 && bits != 16 || len(dst)*32 != len(row)*bits {
		panic(badLength)
	}
	top := float32(int32(1)<<(bits-1) - 1)
	m := Largest(row)
	per := top / m
	switch {
	case m-m != 0:
		per, unit = 0, m-m
	case per > math.MaxFloat32: // or m is 0
		per = 0
	default:
		unit = m / top
	}
	if per == 0 {
		clear(dst)
		return unit
	}
	if packSIMD(bits, per, row, dst) {
		return unit
	}
	const magic = 12582912 // adding it rounds to the nearest integer
	each := 32 / bits
	mask := uint32(1)<<bits - 1
	for i := range dst {
		w := uint32(0)
		for k, v := range row[i*each : (i+1)*each] {
			q := math.Float32bits(float32(v*per)+magic) - math.Float32bits(magic)
			w |= q & mask << (k * bits)
		}
		dst[i] = w
	}
	return unit
}

// Unpack sets dst to the row that Pack has written, with another unit.
func Unpack(bits int, unit float32, row []uint32, dst []float32) {
	if len(dst)%Lanes != 0 || bits != 8 && bits != 16 || len(row)*32 != len(dst)*bits {
		panic(badLength)
	}
	if unpackSIMD(bits, unit, row, dst) {
		return
	}
	each := 32 / bits
	for i, w := range row {
		for k := range each {
			q := int32(w<<(32-bits-k*bits)) >> (32 - bits)
			dst[i*each+k] = float32(q) * unit
		}
	}
}

// Largest is the largest size of a number in x, NaN if one is, 0 if there is none.
func Largest(x []float32) float32 {
	m, n := largestSIMD(x)
	for _, v := range x[n:] {
		m = max(m, math.Float32bits(v)&^(1<<31)) // sizes are ordered as their bits are
	}
	return math.Float32frombits(m)
}
