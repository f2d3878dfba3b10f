package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"
)

const (
	extension = ".parquet"
	// maxName leaves room in the 255 bytes of a file's name for its other parts.
	maxName = 180
)

// Path returns the file of a period: DIR/TABLE/PERIOD.parquet, with special
// characters escaped as in a URL.
func Path(dir, table, period string) string {
	return filepath.Join(dir, escape(table), escape(period)+extension)
}

// escape converts names to file names. Different names become different file names.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-' && i > 0, c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	out := b.String()
	if len(out) > maxName {
		return fmt.Sprintf("%s%%%016X", out[:maxName-20], xxhash.Sum64String(name))
	}
	if out == "" {
		return "%"
	}
	return out
}

func tempPattern(path string) string {
	return "." + filepath.Base(path) + ".*.part"
}

// removeLeft removes what a crash left of earlier writes of the same file.
func removeLeft(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+filepath.Base(path)+".") && strings.HasSuffix(e.Name(), ".part") {
			if err := ignoreMissing(os.Remove(filepath.Join(filepath.Dir(path), e.Name()))); err != nil {
				return err
			}
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// makeFolder creates a folder and its parents, and syncs their entries.
func makeFolder(path string) error {
	if st, err := os.Stat(path); err == nil {
		if !st.IsDir() {
			return fmt.Errorf("%s is not a directory", path)
		}
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes the entries of a folder survive a power loss.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
