package maintain

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// A ClockFile is the path of a file with the present time, e.g. 2026-03-29T01:00:00Z. It is a clock
// for tests: whoever writes the file decides how fast time passes.
type ClockFile string

// Read returns the time in the file.
func (f ClockFile) Read() (time.Time, error) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	if err != nil {
		return at, fmt.Errorf("%s holds no time: %w", string(f), err)
	}
	return at, nil
}

// Now returns a function that reads the file at each call. It may be called from several
// goroutines. While the file can't be read, it returns the time read last.
func (f ClockFile) Now() func() time.Time {
	var mu sync.Mutex
	var last time.Time
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if at, err := f.Read(); err == nil { // the file may be incomplete at this moment
			last = at
		}
		return last
	}
}
