//go:build !unix

package probe

// processCPU is not implemented for this operating system.
func processCPU() (float64, bool) { return 0, false }
