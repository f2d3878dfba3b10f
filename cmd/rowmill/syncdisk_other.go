//go:build !linux

package main

import "context"

// syncDisk does nothing: only Linux syncs a single filesystem.
func syncDisk(context.Context) error { return nil }
