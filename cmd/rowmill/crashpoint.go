package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// crashVariable makes the process kill itself, as kill -9 would, at the N-th
// point that changes of several steps pass: how tests prove that any of them
// may be the last.
const crashVariable = "ROWMILL_TEST_CRASH_AT"

// crashPoint returns what passes the points, or nil outside of tests.
func crashPoint() func(string) {
	n, err := strconv.Atoi(os.Getenv(crashVariable))
	if err != nil || n < 1 {
		return nil
	}
	var passed atomic.Int64
	return func(string) {
		if passed.Add(1) == int64(n) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it does not return
			select {}
		}
	}
}
