package mysql

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

// INSERT IGNORE turns all errors of rows into warnings: a row whose key is
// there is left out, which is asked for; a row that fits no partition is left
// out too, and a bad value is bent, which is not. The warnings tell which it
// was, so that they are read where rows are missing, and of a statement of
// several rows always.

const (
	// mostWarnings is how many warnings a session can keep at most, and so how
	// many rows a statement that skips some may have.
	mostWarnings    = 65535
	allWarnings     = "SET SESSION max_error_count = 65535"
	keptWarnings    = "SELECT @@SESSION.max_error_count"
	allWarningQuery = "SHOW WARNINGS"
	// duplicateKey is the number of the warning of a row that is skipped.
	duplicateKey = 1062
)

// keepWarnings has the connection keep as many warnings as it may. Newer MySQL
// lets only some accounts change how many: the others have the server's default,
// of 1024, and send as few rows in a statement.
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

// rowLimit is how many rows a statement may have.
func (e *encoder) rowLimit() int {
	if e.ignore {
		return e.warnings
	}
	return math.MaxInt
}

// skipped returns how many rows the last statement has left out of those sent,
// because their keys were there. It fails where another reason can't be
// excluded; then the batch must be rolled back. A single row is a transaction
// by itself, of which nothing is left when it was left out.
func (w *writer) skipped(sent int, affected int64) (int64, error) {
	if sent == 1 && affected == 1 {
		return 0, nil
	}
	return w.conn.skipped(sent, affected)
}

// skipped returns how many rows the last statement, of several that were sent,
// has left out because their keys were there. It fails where a row was left out
// or bent for another reason.
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
			// The first warning gives the error its class.
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
	// It is no error of the server's, but makes this one of a connection that
	// is in order.
	return errors.Join(err, &mysql.MySQLError{Message: "duplicates that can't be counted"})
}
