//go:build !linux

package disk

import (
	"errors"
	"os"
	"syscall"
)

var errDiskLinux = errors.New("bench disk needs Linux")

func onDisk(string) error { return errDiskLinux }

func freeBytes(string) (int64, error) { return 0, errDiskLinux }

func reserve(*os.File, int64) error { return errDiskLinux }

func allocated(os.FileInfo) int64 { return 0 }

func withParent() *syscall.SysProcAttr { return nil }
