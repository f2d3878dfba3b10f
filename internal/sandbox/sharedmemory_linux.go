package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removeSharedMemory removes the segment of System V shared memory by which a
// killed PostgreSQL server reserved its data directory. No server of the
// directory may be running. Otherwise the kernel would keep these 56 bytes
// forever, and it has room for only 4096 segments.
func removeSharedMemory(dataDir string) error {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was shut down
	}
	if err != nil {
		return err
	}
	key, id, ok := parsePostmaster(string(text))
	if !ok {
		return nil // killed before it had one
	}
	var segment unix.SysvShmDesc
	// The id may have been reused. The key was derived from the directory, and
	// the segment must not be in use.
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &segment); err != nil || segment.Perm.Key != key || segment.Nattch > 0 {
		return nil
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}

// parsePostmaster parses the key and the id of the segment in the seventh line
// of postmaster.pid.
func parsePostmaster(text string) (key int32, id int, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) < 7 {
		return 0, 0, false
	}
	fields := strings.Fields(lines[6])
	if len(fields) != 2 {
		return 0, 0, false
	}
	// The server prints the key as an unsigned number.
	k, err1 := strconv.ParseUint(fields[0], 10, 32)
	id, err2 := strconv.Atoi(fields[1])
	return int32(uint32(k)), id, err1 == nil && err2 == nil
}
