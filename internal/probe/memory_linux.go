package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Footprint is what a server's processes hold now.
type Footprint struct {
	// PSSBytes is their memory, of which each part that several share is counted once.
	PSSBytes int64
	// OpenFiles counts their file descriptors, Processes themselves.
	OpenFiles, Processes int
}

// ReadFootprint reads the process of a server and those that it has started.
func ReadFootprint(pid int) (f Footprint, err error) {
	if err := f.add(pid, true); err != nil {
		return f, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return f, nil
}

// add adds a process and its children. One of them may end meanwhile.
func (f *Footprint) add(pid int, first bool) error {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	kib, err := readNumbers(filepath.Join(dir, "smaps_rollup"), "Pss:", 1)
	if err != nil {
		if first {
			return err
		}
		return nil
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil && first {
		return err
	}
	f.PSSBytes += int64(kib[0]) * 1024
	f.OpenFiles += len(files)
	f.Processes++
	tasks, err := filepath.Glob(filepath.Join(dir, "task", "*", "children"))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		text, err := os.ReadFile(t)
		if err != nil {
			continue // a thread that has ended
		}
		for _, child := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				if err := f.add(n, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
