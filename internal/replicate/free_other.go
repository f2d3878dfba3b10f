//go:build !linux

package replicate

// freeBytes returns -1: unknown. A full disk shows when a chunk is written.
func freeBytes(string) int64 { return -1 }
