//go:build !linux && !darwin

package coordinator

func diskSpace(string) (free, size uint64, ok bool) { return 0, 0, false }

func maxFiles() (uint64, bool) { return 0, false }
