//go:build !linux

package experiment

import "context"

// syncDisk does nothing: only Linux syncs a single filesystem.
func syncDisk(context.Context) error { return nil }
