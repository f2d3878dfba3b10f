package mysql

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/engine"
)

// INSERT IGNORE turns all errors of rows into warnings: a row whose key is
// there is left out, which is asked for; a row that fits no partition is left
// out too, and a bad value is bent, which is not. The warnings tell which it
// was, so that they are read where rows are missing, and of a statement of
// several rows always.

const (
	// mostWarnings is how many warnings a session can keep, and so how many
	// rows a statement that skips some may have.
	mostWarnings    = 65535
	allWarnings     = "SET SESSION max_error_count = 65535"
	allWarningQuery = "SHOW WARNINGS"
	// duplicateKey is the number of the warning of a row that is skipped.
	duplicateKey = 1062
)

// rowLimit is how many rows a statement may have.
func (e *encoder) rowLimit() int {
	if e.ignore {
		return mostWarnings
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
	warnings, err := c.warnings(allWarningQuery)
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
		return 0, unexplained(sent, affected, duplicates)
	}
	return missing, nil
}

// unexplained is the error for rows that no warning accounts for.
func unexplained(sent int, affected, duplicates int64) error {
	err := fmt.Errorf("insert ignore: the server took %d of %d rows and warned of %d duplicates", affected, sent, duplicates)
	if duplicates == mostWarnings {
		err = engine.Hinted(err, "smaller batches: a server keeps %d warnings", mostWarnings)
	}
	// It is no error of the server's, but makes this one of a connection that
	// is in order.
	return errors.Join(err, &mysql.MySQLError{Message: "duplicates that can't be counted"})
}
