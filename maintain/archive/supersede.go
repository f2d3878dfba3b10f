package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowmill/rowmill/rolling"
)

// Supersede removes the files of a table that a newer one stands for: those of
// periods within its bounds, which were merged since, and what it was before
// late rows came. The new one must have been read back. A file with more rows
// than the new one has is left, and returned: rows were deleted since, and
// whether they are to be lost is for a person to say.
func Supersede(dir, table string, p rolling.Period, f File) (left []string, err error) {
	folder := filepath.Join(dir, escape(table))
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list archives of %s: %w", table, err)
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if strings.HasPrefix(e.Name(), ".") || path == f.Path || filepath.Ext(e.Name()) != extension && filepath.Ext(e.Name()) != ".old" {
			continue
		}
		old, err := Look(path)
		if err != nil || old.Table != table || old.From < p.From || old.To > p.To {
			continue
		}
		if old.Rows > f.Rows {
			left = append(left, path)
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return left, fmt.Errorf("remove an archive of what %s holds: %w", f.Path, err)
		}
	}
	return left, syncFolder(folder)
}
