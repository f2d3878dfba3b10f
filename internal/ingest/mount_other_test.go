//go:build !linux

package ingest

import "errors"

func mountTmpfs(string, int) error { return errors.New("this needs Linux") }

func unmount(string) error { return nil }
