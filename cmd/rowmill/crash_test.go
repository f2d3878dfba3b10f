package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	// crashVariable makes the test binary, run as rowmill, kill itself at the N-th
	// point that its changes of several steps pass.
	crashVariable = "ROWMILL_TEST_CRASH_AT"
	// crashLogVariable names a file in which successive processes record the points that they pass.
	// Each kills itself at a point that is passed for the first or for the third time.
	crashLogVariable = "ROWMILL_TEST_CRASH_LOG"
)

// crashPoint returns a function that kills this process at a point, as kill -9 would.
// It returns nil if neither variable is set.
func crashPoint() func(string) {
	n, _ := strconv.Atoi(os.Getenv(crashVariable)) // 0 if unset
	log := os.Getenv(crashLogVariable)
	if n < 1 && log == "" {
		return nil
	}
	var mu sync.Mutex
	passed := 0
	return func(point string) {
		mu.Lock()
		defer mu.Unlock()
		passed++
		kill := passed == n
		if log != "" {
			times, err := notePoint(log, point)
			if err != nil {
				panic(err)
			}
			kill = times == 1 || times == 3
		}
		if kill {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // does not return
			select {}
		}
	}
}

// notePoint adds a point to the log, and returns how often it has been passed.
func notePoint(log, point string) (times int, err error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, point); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(log)
	for line := range strings.Lines(string(text)) {
		if line == point+"\n" {
			times++
		}
	}
	return times, err
}
