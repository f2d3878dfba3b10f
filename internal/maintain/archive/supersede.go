package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// extensionAside is the extension of files that a newer file with other contents has replaced.
const extensionAside = ".old"

func asideName(path string) string {
	return fmt.Sprintf("%s.%s%s", strings.TrimSuffix(path, extension), time.Now().UTC().Format("20060102T150405.000000"), extensionAside)
}

// Supersede removes or renames the older files within the period of a new file, so that a reader of
// all files counts no row twice. It removes a file with the same rows, and the files of merged
// periods if together they have exactly the rows of the new file. It renames any other file to .old
// and returns its new path. The new file must have been read back.
func Supersede(dir string, whole Info) (kept []string, err error) {
	parts, err := List(dir, whole.Table)
	if err != nil {
		return nil, err
	}
	parts = slices.DeleteFunc(parts, func(i Info) bool {
		return i.Problem != "" || filepath.Base(i.Path) == filepath.Base(whole.Path) || i.Target != whole.Target || i.From < whole.From || i.To > whole.To
	})
	if len(parts) == 0 {
		return nil, nil
	}
	together := makeUp(parts, whole)
	for _, old := range parts {
		if together || old.Partition().Period == whole.Partition().Period && sameRows(old, whole) {
			if err := ignoreMissing(os.Remove(old.Path)); err != nil {
				return kept, fmt.Errorf("remove the archives that %s replaces: %w", whole.Path, err)
			}
			continue
		}
		aside := asideName(old.Path)
		if _, err := os.Lstat(aside); !errors.Is(err, os.ErrNotExist) {
			return kept, errors.Join(fmt.Errorf("keep %s as %s: that name is taken", old.Path, aside), err)
		}
		if err := os.Rename(old.Path, aside); err != nil {
			return kept, fmt.Errorf("keep the archive that %s supersedes: %w", whole.Path, err)
		}
		kept = append(kept, aside)
	}
	return kept, syncFolder(filepath.Dir(whole.Path))
}

func sameRows(a, b Info) bool {
	return a.Rows == b.Rows && a.Sum == b.Sum && len(a.columns) == len(b.columns)
}

// makeUp compares the files of parts of a period with whole, the file of the entire period. It
// reports whether the parts don't overlap and together have exactly the rows of whole. The
// checksums of the parts can be added up.
func makeUp(parts []Info, whole Info) bool {
	var rows int64
	var a, b uint64
	for i, p := range parts {
		for _, q := range parts[:i] {
			if p.Partition().Overlaps(q.Partition().Period) {
				return false
			}
		}
		x, y, ok := p.hashes()
		if !ok || len(p.columns) != len(whole.columns) {
			return false
		}
		rows, a, b = rows+p.Rows, a+x, b+y
	}
	x, y, ok := whole.hashes()
	return ok && rows == whole.Rows && a == x && b == y
}

func (i *Info) hashes() (a, b uint64, ok bool) {
	if len(i.Sum) != 32 {
		return 0, 0, false
	}
	a, errA := strconv.ParseUint(i.Sum[:16], 16, 64)
	b, errB := strconv.ParseUint(i.Sum[16:], 16, 64)
	return a, b, errA == nil && errB == nil
}
