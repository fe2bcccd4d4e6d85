//go:build purego || !amd64

package vec

// wide is for AVX-512.
var wide = false

// The kernels that only amd64 has. On other platforms the Go twins do this work.

func foldSIMD([]float32, int, []uint32, float32, uint32, uint32) bool { return false }
func gatherSIMD([]float32, int, []uint32, uint32) bool                { return false }
func sumSIMD([]float32, *[Lanes]float32) int                          { return 0 }
func skipSIMD([]float32, float32) int                                 { return 0 }
func scaleSIMD(float32, []float32, []float32) int                     { return 0 }
func reluSIMD([]float32) int                                          { return 0 }
func reluBackSIMD(_, _ []float32) int                                 { return 0 }
func adamSIMD(_ []float32, _, _, _, _ float32, _, _, _ []float32) int { return 0 }
func countSIMD([]float32, float32) (below, equal, n int)              { return 0, 0, 0 }
func equalInFoursSIMD([]uint32) int                                   { return 0 }
func drawSIMD(*Stream, uint32, uint32, []uint64, int, []uint32) bool  { return false }

func resolveSIMD([]uint32, []int32, uint32, []uint32, []float32, []uint32, []uint32) int { return 0 }

func repeatsSIMD(_ []uint32, _ []int32, _ []uint32, end int) (n, newEnd int) { return 0, end }

func pullSIMD(_, _ []float32, _ int, _ []uint32, _, _, _ []float32, _ *PullRates, _ *[3 * Lanes]float32) bool {
	return false
}

func scaleRowsSIMD(float32, []float32, []uint32, int, []float32, []uint32) bool { return false }

func scaleEachSIMD([]float32, []uint32, int, []float32) bool { return false }

func largestSIMD([]float32) (m uint32, n int)           { return 0, 0 }
func packSIMD(int, float32, []float32, []uint32) bool   { return false }
func unpackSIMD(int, float32, []uint32, []float32) bool { return false }

func maxSIMD([]float32, *[Lanes]float32) int                    { return 0 }
func expsSIMD(_, _ float32, _ []float32, _ *[Lanes]float32) int { return 0 }
func softmaxBackSIMD(_, _ float32, _, _ []float32) int          { return 0 }
func geluSIMD(_, _ []float32) int                               { return 0 }
func geluBackSIMD(_, _ []float32) int                           { return 0 }
func mulSIMD(_, _ []float32) int                                { return 0 }
func mulAddSIMD(_, _, _ []float32) int                          { return 0 }
func decaySIMD(float32, []float32, []float32, []float32) int    { return 0 }
func shiftSIMD(_, _ float32, _, _ []float32) int                { return 0 }

func roofSIMD(int, *[2 * Lanes]float32) int { return 0 }

func turnSIMD(int, []float32, int, []float32) int { return 0 }

func features(on bool) string {
	if on {
		return "NEON"
	}
	return "pure Go"
}
