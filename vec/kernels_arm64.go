//go:build !purego

package vec

// The kernels of kernels_arm64.s. They do not keep their pointers.

//go:noescape
func dots32Asm(arena *float32, rd *uint32, n int, v *float32, bias float32, dst *float32)

//go:noescape
func dotsAll32Asm(arena *float32, n int, v *float32, bias float32, dst *float32)

//go:noescape
func wsumRowsAsm(arena *float32, stride int, rd *uint32, gs *float32, n int, dst *float32)

//go:noescape
func scatRowsAsm(arena *float32, stride int, wr *uint32, gs *float32, n int, v *float32)

//go:noescape
func bceGradAsm(y *float32, scale float32, n int, dst *float32)

//go:noescape
func axpyAsm(s float32, x *float32, n int, dst *float32)

//go:noescape
func addAsm(x *float32, n int, dst *float32)

//go:noescape
func mergeAsm(acc *float32, step int, shards int, n int, dst *float32)

//go:noescape
func gemm6x16Asm(k int, a *float32, rowA int, colA int, b *float32, rowB int, c *float32, rowC int)

//go:noescape
func gemm1x16Asm(k int, a *float32, rowA int, colA int, b *float32, rowB int, c *float32, rowC int)
