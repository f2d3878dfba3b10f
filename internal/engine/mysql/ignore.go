package mysql

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// INSERT IGNORE converts all errors of rows to warnings: a row whose key exists is
// skipped, as intended; but rows outside every partition are skipped, too, and
// invalid values are adjusted. The warnings distinguish these cases. So they are
// read if rows are missing, and always after a statement of several rows.

const (
	// mostWarnings is the largest number of warnings that a session can keep, and
	// so the largest number of rows in an INSERT IGNORE.
	mostWarnings    = 65535
	allWarnings     = "SET SESSION max_error_count = 65535"
	keptWarnings    = "SELECT @@SESSION.max_error_count"
	allWarningQuery = "SHOW WARNINGS"
	// duplicateKey is the warning of a skipped row.
	duplicateKey = 1062
)

// keepWarnings sets the number of warnings that the server keeps for the connection
// to the maximum. In newer MySQL, this needs a privilege: other accounts keep the
// server's value, 1024 by default, and send at most as many rows in a statement.
func (c *conn) keepWarnings() error {
	_, err := c.run(allWarnings)
	if err == nil {
		c.warnings = mostWarnings
		return nil
	}
	if !refusedSetting(err) {
		return err
	}
	kept, err := c.number(keptWarnings)
	if err != nil {
		return err
	}
	if kept == 0 {
		return engine.Hinted(engine.Classed(engine.ErrUnsupported, errors.New("the server keeps no warnings, which tell why a row was left out")),
			"SET PERSIST max_error_count = 1024, or GRANT SESSION_VARIABLES_ADMIN ON *.* TO the target's user")
	}
	c.warnings = int(kept)
	return nil
}

// rowLimit returns the largest number of rows in a statement.
func (e *encoder) rowLimit() int {
	if e.ignore {
		return e.warnings
	}
	return math.MaxInt
}

// skipped returns how many of the rows sent were skipped by the last statement
// because their keys exist. It fails if another reason can't be excluded; then the
// batch must be rolled back. A statement of a single row needs no rollback if the
// row was skipped.
func (w *writer) skipped(sent int, affected int64) (int64, error) {
	if sent == 1 && affected == 1 {
		return 0, nil
	}
	return w.conn.skipped(sent, affected)
}

// skipped returns how many of the rows sent were skipped by the last statement because
// their keys exist. It fails if a row was skipped or changed for another reason.
func (c *conn) skipped(sent int, affected int64) (int64, error) {
	missing := int64(sent) - affected
	if missing == 0 && c.warned == 0 {
		return 0, nil
	}
	warnings, err := c.listWarnings(allWarningQuery)
	if err != nil {
		return 0, err
	}
	duplicates := int64(0)
	for i := range warnings {
		if warnings[i].Number != duplicateKey {
			// The first warning determines the error's class.
			return 0, refused("insert ignore", affected, sent, warnings[i:])
		}
		duplicates++
	}
	if duplicates != missing {
		return 0, c.unexplained(sent, affected, duplicates)
	}
	return missing, nil
}

// unexplained is the error for rows that no warning accounts for.
func (c *conn) unexplained(sent int, affected, duplicates int64) error {
	err := fmt.Errorf("insert ignore: the server took %d of %s and warned of %s", affected, figure.Plural(sent, "row", "rows"), figure.Plural(duplicates, "duplicate", "duplicates"))
	if duplicates == int64(c.warnings) {
		err = engine.Hinted(err, "smaller batches: the session keeps %d warnings", c.warnings)
	}
	// This is not a server error, but its type marks the connection as usable.
	return errors.Join(err, &mysql.MySQLError{Message: "duplicates that can't be counted"})
}
