//go:build !unix

package probe

// processCPU is not known here.
func processCPU() (float64, bool) { return 0, false }
