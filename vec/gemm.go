package vec

// Mat is a matrix in the caller's memory: element (i, j) is Data[i*Row+j*Col].
type Mat struct {
	Data     []float32
	Row, Col int
}

// Rows returns a matrix whose rows lie stride floats apart.
func Rows(data []float32, stride int) Mat { return Mat{data, stride, 1} }

// T returns the transpose, without a copy.
func (m Mat) T() Mat { return Mat{m.Data, m.Col, m.Row} }

// panel is the number of columns that Gemm processes at a time.
const panel = 16

// GemmRoom returns the number of floats of scratch memory that Gemm needs for an inner dimension
// k.
func GemmRoom(k int) int { return panel * k }

// Gemm adds the product of a (m by k) and b (k by n) to c, whose Col must be 1. Each element of
// c is one sum in the order of k, so the result does not depend on the tiling. room must hold at
// least GemmRoom(k) floats.
func Gemm(m, n, k int, a, b Mat, room []float32, c Mat) {
	if c.Col != 1 || len(room) < GemmRoom(k) || !a.holds(m, k) || !b.holds(k, n) || !c.holds(m, n) {
		panic(badLength)
	}
	if !simd || m == 0 || n == 0 || k == 0 {
		gemmTwin(m, n, k, a, b, c)
		return
	}
	for j := 0; j < n; j += panel {
		wide := min(panel, n-j)
		bp, rowB := b.Data[j*b.Col:], b.Row
		if b.Col != 1 || wide < panel {
			pack(k, wide, Mat{bp, b.Row, b.Col}, room)
			bp, rowB = room, panel
		}
		if wide == panel {
			tiles(m, k, a, bp, rowB, c.Data[j:], c.Row)
			continue
		}
		narrow(m, wide, k, a, bp, rowB, c.Data[j:], c.Row)
	}
}

// maxTile is the largest number of rows of a tile.
const maxTile = 24

// narrow processes the last columns, using tiles of full width.
func narrow(m, wide, k int, a Mat, b []float32, rowB int, c []float32, rowC int) {
	var tile [maxTile * panel]float32
	for i, rows := 0, 0; i < m; i += rows {
		rows = tileRows(m - i)
		for r := range rows {
			copy(tile[r*panel:], c[(i+r)*rowC:][:wide])
		}
		gemmTile(rows, k, a.Data[i*a.Row:], a.Row, a.Col, b, rowB, tile[:], panel)
		for r := range rows {
			copy(c[(i+r)*rowC:][:wide], tile[r*panel:])
		}
	}
}

// tiles processes one panel of columns.
func tiles(m, k int, a Mat, b []float32, rowB int, c []float32, rowC int) {
	for i, rows := 0, 0; i < m; i += rows {
		rows = tileRows(m - i)
		gemmTile(rows, k, a.Data[i*a.Row:], a.Row, a.Col, b, rowB, c[i*rowC:], rowC)
	}
}

// pack copies k rows of the first wide columns of b to the rows of a panel, padded with zeros.
func pack(k, wide int, b Mat, dst []float32) {
	if b.Row == 1 && wide == panel { // transposed: reads consecutive memory
		done := turnSIMD(k, b.Data, b.Col, dst)
		for j := range panel {
			for p := done; p < k; p++ {
				dst[p*panel+j] = b.Data[j*b.Col+p]
			}
		}
		return
	}
	for p := range k {
		row := dst[p*panel : (p+1)*panel]
		for j := range wide {
			row[j] = b.Data[p*b.Row+j*b.Col]
		}
		clear(row[wide:])
	}
}

func (m Mat) holds(rows, cols int) bool {
	return rows == 0 || cols == 0 || m.Row >= 0 && m.Col >= 0 && (rows-1)*m.Row+(cols-1)*m.Col < len(m.Data)
}

func gemmTwin(m, n, k int, a, b, c Mat) {
	for i := range m {
		row := c.Data[i*c.Row:][:n]
		for p := range k {
			s := a.Data[i*a.Row+p*a.Col]
			if b.Col == 1 {
				for j, x := range b.Data[p*b.Row:][:n] {
					row[j] += float32(s * x)
				}
				continue
			}
			for j := range row {
				row[j] += float32(s * b.Data[p*b.Row+j*b.Col])
			}
		}
	}
}
