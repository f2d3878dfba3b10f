//go:build !linux

package spool

import "os"

// syncFile returns when a file or a directory is on disk.
func syncFile(f *os.File, _ bool) error { return f.Sync() }
