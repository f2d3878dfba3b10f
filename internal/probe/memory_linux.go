package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// A Footprint is the memory and the files of a server's processes.
type Footprint struct {
	// PSSBytes is their memory; memory that several processes share is counted once.
	PSSBytes int64
	// OpenFiles is the number of their file descriptors, Processes the number of processes.
	OpenFiles, Processes int
}

// ReadFootprint reads the process of a server and its child processes.
func ReadFootprint(pid int) (f Footprint, err error) {
	proc := hostSystem().proc
	first := filepath.Join(proc, strconv.Itoa(pid))
	if err = f.add(first); err != nil {
		return f, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	children, err := readChildren(first)
	for _, child := range children {
		_ = f.add(filepath.Join(proc, strconv.Itoa(int(child)))) // it may have ended
	}
	return f, err
}

// add adds a process.
func (f *Footprint) add(dir string) error {
	kib, err := readNumbers(filepath.Join(dir, "smaps_rollup"), "Pss:", 1)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return err
	}
	f.PSSBytes += int64(kib[0]) * 1024
	f.OpenFiles += len(files)
	f.Processes++
	return nil
}
