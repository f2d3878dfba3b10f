package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// Backup writes a copy of a target's database to file, which must not exist. The copy shows one
// moment, and lacks the space that deleted rows have left. Others may read and write the database
// meanwhile, and its journal mode stays as it is.
func Backup(ctx context.Context, t engine.Target, file string) error {
	if _, _, err := optionsOf(t); err != nil {
		return err
	}
	if _, err := os.Stat(t.Path); err != nil {
		return err
	}
	db := &database{path: t.Path}
	c, err := db.connect(ctx, []string{fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout)})
	if err != nil {
		return err
	}
	if _, err = c.Exec("VACUUM INTO '"+strings.ReplaceAll(file, "'", "''")+"'", nil); err != nil {
		err = fmt.Errorf("back up %s: %w", t.Path, classify(err))
	}
	return errors.Join(err, c.Close())
}
