//go:build purego || !(amd64 || arm64)

package vec

// Without SIMD the Go twins do all the work.
var simd = false

func dotsSIMD([]float32, int, []uint32, []float32, float32, []float32) bool { return false }
func dotsAllSIMD([]float32, int, []float32, float32, []float32) bool        { return false }
func wsumSIMD([]float32, int, []uint32, []float32, []float32) bool          { return false }
func scatSIMD([]float32, int, []uint32, []float32, []float32) bool          { return false }
func bceGradSIMD([]float32, float32, []float32) int                         { return 0 }
func axpySIMD(float32, []float32, []float32) int                            { return 0 }
func addSIMD([]float32, []float32) int                                      { return 0 }
func mergeSIMD([]float32, int, int, []float32) int                          { return 0 }

func tileRows(int) int                                                       { return 1 }
func gemmTile(int, int, []float32, int, int, []float32, int, []float32, int) {}
