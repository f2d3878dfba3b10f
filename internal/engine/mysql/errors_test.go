package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
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
	for want, errs := range map[string]string{ // numbers with SQLSTATE; a warning has none
		"duplicate key," + refused:               "1062/23000",
		"row outside every partition," + refused: "1526/HY000",
		refused: "1264/22003 1264/ 1265/01000 1292/22007 1366/HY000 1366/22007 1406/22001 1048/23000 3819/HY000 4025/23000 1690/22003 3140/22032 " +
			"1411/HY000 1416/22003 1452/23000 1748/HY000 1118/42000 1525/HY000 1591/HY000 1300/HY000 1644/45000 1644/HY000 " +
			"30001/45000 9999/22999 9999/23001", // a SIGNAL with its own number; unknown numbers
		// A column without a value; an ambiguous or unknown column; syntax; number of
		// columns; privileges; read-only; interrupted; the storage engine; unknown.
		"":                     "1364/HY000 1052/23000 1054/42S22 1064/42000 1136/21S01 1142/42000 1290/HY000 1317/70100 1105/HY000 1030/HY000 1792/25006 9999/HY000 9999/",
		"deadlock":             "1213/40001",
		"lock wait timeout":    "1205/HY000 1205/45000", // by a trigger that raises it
		"disk full":            "1114/HY000 1021/HY000",
		"no such table":        "1146/42S02",
		"table exists":         "1050/42S01",
		"connection lost":      "1053/08S01 1927/70100 4031/HY000",
		"server not reachable": "1040/08004",
	} {
		for _, text := range strings.Fields(errs) {
			number, state, _ := strings.Cut(text, "/")
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			e := &mysql.MySQLError{Number: uint16(n), Message: "text"}
			copy(e.SQLState[:], state)
			err = classify(fmt.Errorf("insert: %w", e))
			if got := classesOf(err); got != want {
				t.Errorf("%s is %q, want %q", text, got, want)
			}
			if errors.Is(err, engine.ErrRefused) && engine.Retryable(err) {
				t.Errorf("%s is refused and can be tried again", text)
			}
			if again := classify(err); classesOf(again) != want || again.Error() != err.Error() {
				t.Errorf("%s, twice classified, is %q, %v", text, classesOf(again), again)
			}
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {errors.New("other"), ""}, {context.Canceled, ""}, {context.DeadlineExceeded, ""},
		{&mysql.MySQLError{Number: 1005, Message: "Can't create table `d`.`t` (errno: 135 \"No more room in record file\")"}, "disk full"},
		{&mysql.MySQLError{Number: 1005, Message: "Can't create table `d`.`t` (errno: 150 \"Foreign key constraint is incorrectly formed\")"}, ""},
		{&mysql.MySQLError{Number: 3, Message: "Error writing file '/tmp/x.MAD' (Errcode: 28 \"No space left on device\")"}, "disk full"},
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
		{1044, "Access denied for user 'u'@'localhost' to database 'd'", "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE TEMPORARY TABLES, ALTER, DROP, INDEX, TRIGGER, LOCK TABLES, CREATE VIEW, SHOW VIEW, EVENT ON `d`.* TO 'u'@'localhost'"},
		{1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation", "GRANT one of SUPER ON *.*"},
		{1142, "anything else", "a GRANT to"},
		{1064, "You have an error in your SQL syntax", ""},
	} {
		err := classify(&mysql.MySQLError{Number: c.number, Message: c.message})
		var hint *engine.HintError
		if got := errors.As(err, &hint); got != (c.want != "") {
			t.Errorf("%s: hinted %v", c.message, got)
		} else if got && !strings.Contains(hint.Hint, c.want) {
			t.Errorf("%s: %s", c.message, hint.Hint)
		}
	}
}
