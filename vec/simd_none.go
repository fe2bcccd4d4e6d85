//go:build purego || !amd64

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
func foldSIMD([]float32, int, []uint32, float32, uint32, uint32) bool       { return false }
func sumSIMD([]float32, *[Lanes]float32) int                                { return 0 }
func skipSIMD([]float32, float32) int                                       { return 0 }
func adamSIMD(_ []float32, _, _, _, _ float32, _, _, _ []float32) int       { return 0 }

func gemmTile(int, int, []float32, int, int, []float32, int, []float32, int) bool { return false }

func drawSIMD(*Stream, uint32, uint32, []uint64, int, []uint32) bool { return false }

func resolveSIMD([]uint32, []int32, uint32, []uint32, []float32, []uint32, []uint32) int { return 0 }

func gatherSIMD([]float32, int, []uint32, uint32) bool { return false }
