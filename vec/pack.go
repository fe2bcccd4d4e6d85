package vec

import "math"

// Pack encodes a row as integers of 8 or 16 bits, four or two per word with the first in the
// lowest bits, and returns the unit: integer q represents q*unit. The unit is the largest
// magnitude in the row divided by 127 or 32767. Pack rounds to the nearest integer, ties to
// even. The unit is NaN if the row contains NaN or an infinity, and 0 if all numbers are 0 or
// too small to encode. The length of the row must be a multiple of Lanes.
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
	const magic = 12582912 // adding 1.5 * 2^23 rounds to the nearest integer
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

// Unpack sets dst to the row that Pack encoded, for the given unit.
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

// Largest returns the largest magnitude in x: NaN if x contains NaN, and 0 if x is empty.
func Largest(x []float32) float32 {
	m, n := largestSIMD(x)
	for _, v := range x[n:] {
		m = max(m, math.Float32bits(v)&^(1<<31)) // bits of magnitudes have the same order as the magnitudes
	}
	return math.Float32frombits(m)
}
