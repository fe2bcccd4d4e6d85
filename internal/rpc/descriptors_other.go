//go:build !unix && !js

package rpc

// maxDescriptors returns 0: the number of file descriptors that the process may have is unknown.
func maxDescriptors() int { return 0 }
