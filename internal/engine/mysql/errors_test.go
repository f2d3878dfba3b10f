package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// classesOf returns the names of an error's classes.
func classesOf(err error) string {
	var out string
	for _, c := range []error{engine.ErrDuplicateKey, engine.ErrDeadlock, engine.ErrLockTimeout, engine.ErrConnectionLost, engine.ErrUnreachable,
		engine.ErrNoPartition, engine.ErrDiskFull, engine.ErrTableExists, engine.ErrNoTable, engine.ErrRefused, engine.ErrUnsupported} {
		if errors.Is(err, c) {
			out += "," + c.Error()
		}
	}
	if out == "" {
		return ""
	}
	return out[1:]
}

// TestClassify: refused rows are distinguished from errors of the server, the
// connection or the statement.
func TestClassify(t *testing.T) {
	t.Parallel()
	const refused = "rows refused"
	for _, c := range []struct {
		number      uint16
		state, want string
	}{
		{1062, "23000", "duplicate key," + refused},
		{1526, "HY000", "row outside every partition," + refused},
		{1264, "22003", refused},
		{1264, "", refused}, // a warning
		{1265, "01000", refused},
		{1292, "22007", refused},
		{1366, "HY000", refused},
		{1366, "22007", refused},
		{1406, "22001", refused},
		{1048, "23000", refused},
		{3819, "HY000", refused},
		{4025, "23000", refused},
		{1690, "22003", refused},
		{3140, "22032", refused},
		{1411, "HY000", refused},
		{1416, "22003", refused},
		{1452, "23000", refused},
		{1748, "HY000", refused},
		{1118, "42000", refused},
		{1525, "HY000", refused},
		{1591, "HY000", refused},
		{1300, "HY000", refused},
		{1644, "45000", refused},
		{1644, "HY000", refused},
		{30001, "45000", refused}, // a SIGNAL with its own number
		{9999, "22999", refused},
		{9999, "23001", refused},

		{1364, "HY000", ""}, // a column of the table has no value
		{1052, "23000", ""}, // ambiguous column
		{1064, "42000", ""}, // syntax
		{1054, "42S22", ""}, // unknown column
		{1136, "21S01", ""}, // number of columns
		{1142, "42000", ""}, // privileges
		{1290, "HY000", ""}, // read-only
		{1317, "70100", ""}, // interrupted
		{1105, "HY000", ""}, // anything
		{1030, "HY000", ""}, // the storage engine
		{1792, "25006", ""}, // read-only transaction
		{9999, "HY000", ""}, // unknown
		{9999, "", ""},      // unknown, without a state
		{1213, "40001", "deadlock"},
		{1205, "HY000", "lock wait timeout"},
		{1205, "45000", "lock wait timeout"}, // a trigger that raises it
		{1114, "HY000", "disk full"},
		{1021, "HY000", "disk full"},
		{1146, "42S02", "no such table"},
		{1050, "42S01", "table exists"},
		{1053, "08S01", "connection lost"},
		{1927, "70100", "connection lost"},
		{1040, "08004", "server not reachable"},
	} {
		e := &mysql.MySQLError{Number: c.number, Message: "text"}
		copy(e.SQLState[:], c.state)
		err := classify(fmt.Errorf("insert: %w", e))
		if got := classesOf(err); got != c.want {
			t.Errorf("%d (%s) is %q, want %q", c.number, c.state, got, c.want)
		}
		if errors.Is(err, engine.ErrRefused) && engine.Retryable(err) {
			t.Errorf("%d (%s) is refused and can be tried again", c.number, c.state)
		}
		if again := classify(err); classesOf(again) != c.want || again.Error() != err.Error() {
			t.Errorf("%d, twice classified, is %q, %v", c.number, classesOf(again), again)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {errors.New("other"), ""}, {context.Canceled, ""}, {context.DeadlineExceeded, ""},
		{mysql.ErrPktTooLarge, refused}, {mysql.ErrInvalidConn, "connection lost"}, {io.EOF, "connection lost"},
	} {
		if got := classesOf(classify(c.err)); got != c.want {
			t.Errorf("%v is %q, want %q", c.err, got, c.want)
		}
	}
}

// TestDenied: the servers' errors about missing privileges get the GRANT as a hint.
func TestDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number        uint16
		message, want string
	}{
		{1142, "CREATE command denied to user 'u'@'localhost' for table 'readings'", "GRANT CREATE ON DATABASE.* TO 'u'@'localhost'"},
		{1142, "SELECT, INSERT command denied to user 'u'@'%' for table `d`.`readings`", "GRANT SELECT, INSERT ON `d`.* TO 'u'@'%'"},
		{1044, "Access denied for user 'u'@'localhost' to database 'd'", "GRANT ... ON `d`.* TO 'u'@'localhost'"},
		{1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation", "GRANT one of SUPER ON *.*"},
		{1142, "anything else", "a GRANT to"},
		{1064, "You have an error in your SQL syntax", ""},
	} {
		err := classify(&mysql.MySQLError{Number: c.number, Message: c.message})
		var hint *engine.HintError
		if got := errors.As(err, &hint); got != (c.want != "") {
			t.Errorf("%s: hinted %v", c.message, got)
		} else if got && (!strings.Contains(hint.Hint, c.want) || !strings.Contains(hint.Hint, "docs/operations.md")) {
			t.Errorf("%s: %s", c.message, hint.Hint)
		}
	}
}
