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

	"github.com/rowmill/rowmill/rolling"
)

// extensionAside is that of files replaced by a newer one with other contents.
const extensionAside = ".old"

func asideName(path string) string {
	return fmt.Sprintf("%s.%s%s", strings.TrimSuffix(path, extension), time.Now().UTC().Format("20060102T150405.000000"), extensionAside)
}

// Supersede removes or renames the other files of the database's table within a
// period, so that a reader of all files counts no row twice. It removes a file with
// the same rows, and the files of periods that were later merged, if together they
// contain exactly the rows of the new file. The new file must have been read back.
// Any other file is kept as .old, and returned. Existing .old files are not changed.
func Supersede(dir, table string, p rolling.Period, f File) (kept []string, err error) {
	whole, err := Look(f.Path)
	if err != nil {
		return nil, err
	}
	parts, err := List(dir, table)
	if err != nil {
		return nil, err
	}
	parts = slices.DeleteFunc(parts, func(i Info) bool {
		return i.Problem != "" || filepath.Base(i.Path) == filepath.Base(f.Path) || i.Target != whole.Target || i.From < p.From || i.To > p.To
	})
	if len(parts) == 0 {
		return nil, nil
	}
	together := makeUp(parts, whole)
	for _, old := range parts {
		if together || old.From == p.From && old.To == p.To && sameRows(old, whole) {
			if err := ignoreMissing(os.Remove(old.Path)); err != nil {
				return kept, fmt.Errorf("remove the archives that %s replaces: %w", f.Path, err)
			}
			continue
		}
		aside := asideName(old.Path)
		if _, err := os.Lstat(aside); !errors.Is(err, os.ErrNotExist) {
			return kept, errors.Join(fmt.Errorf("keep %s as %s: that name is taken", old.Path, aside), err)
		}
		if err := os.Rename(old.Path, aside); err != nil {
			return kept, fmt.Errorf("keep the archive that %s supersedes: %w", f.Path, err)
		}
		kept = append(kept, aside)
	}
	return kept, syncFolder(filepath.Dir(f.Path))
}

func sameRows(a, b Info) bool {
	return a.Rows == b.Rows && a.Sum == b.Sum && len(a.columns) == len(b.columns)
}

// makeUp reports whether files of parts of a period, none of which overlap, together contain the
// rows of a file of the whole. Checksums of rows are additive.
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
