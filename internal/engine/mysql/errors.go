package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// classes maps the server's error numbers to the error classes of package engine.
var classes = map[uint16]error{
	1062: engine.ErrDuplicateKey,
	1213: engine.ErrDeadlock,
	1205: engine.ErrLockTimeout,
	1969: engine.ErrLockTimeout, // MariaDB: max_statement_time
	3024: engine.ErrLockTimeout, // MySQL: max_execution_time
	1526: engine.ErrNoPartition,
	1114: engine.ErrDiskFull, // the table is full
	1021: engine.ErrDiskFull,
	1050: engine.ErrTableExists,
	1146: engine.ErrNoTable,
	1053: engine.ErrConnectionLost, // server shutdown in progress
	1927: engine.ErrConnectionLost, // MariaDB: connection was killed
	1158: engine.ErrConnectionLost, // errors of network packets
	1159: engine.ErrConnectionLost,
	1160: engine.ErrConnectionLost,
	1161: engine.ErrConnectionLost,
	1040: engine.ErrUnreachable, // too many connections
	1286: engine.ErrUnsupported, // unknown storage engine
	1148: engine.ErrUnsupported, // LOAD DATA LOCAL is disabled
	3948: engine.ErrUnsupported, // the same in MySQL 8.0
	4166: engine.ErrUnsupported, // the same in MariaDB
}

// refusals are the error numbers of refused rows: of errors, and of the warnings
// that INSERT IGNORE makes of them, which have no SQLSTATE. A column without a
// default (1364) isn't included: that is a mismatch with the table's definition.
var refusals = map[uint16]bool{
	1022: true, // duplicate key
	1048: true, // NULL
	1062: true, // duplicate key
	1118: true, // row too large
	1153: true, // packet too large
	1169: true, // unique constraint
	1216: true, // foreign key
	1217: true,
	1263: true, // NULL
	1264: true, // out of range
	1265: true, // truncated
	1292: true, // incorrect value
	1300: true, // invalid character string
	1365: true, // division by zero
	1366: true, // incorrect value
	1367: true, // illegal value
	1406: true, // too long
	1411: true, // incorrect value for a function
	1416: true, // geometry
	1441: true, // time out of range
	1451: true, // foreign key
	1452: true,
	1525: true, // incorrect value
	1526: true, // no partition
	1557: true, // foreign key, duplicate
	1586: true, // duplicate key
	1591: true, // no partition
	1644: true, // SIGNAL
	1690: true, // out of range
	1748: true, // row not in the partition
	1761: true, // foreign key, duplicate
	1762: true,
	1859: true, // duplicate key
	1977: true, // MariaDB: characters that the column can't hold
	3140: true, // JSON
	3141: true,
	3144: true,
	3819: true, // MySQL: CHECK
	3854: true, // MySQL: characters that the column can't hold
	4025: true, // MariaDB: CHECK
}

// rowsRefused reports whether the error is caused by the rows: by their values,
// keys or constraints, or by a trigger.
func rowsRefused(e *mysql.MySQLError) bool {
	if refusals[e.Number] {
		return true
	}
	if e.Number == 1052 { // an ambiguous column; its SQLSTATE has the class of key errors
		return false
	}
	class := string(e.SQLState[:2])
	return class == "22" || class == "23" || string(e.SQLState[:]) == "45000"
}

// badConnection is the text of an unexported error of the driver, which Close
// returns for a lost connection.
const badConnection = "bad connection"

// classify wraps an error with its class.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		class, ok := classes[server.Number]
		if ok {
			err = engine.Classed(class, err)
		}
		if rowsRefused(server) && (!ok || class == engine.ErrDuplicateKey || class == engine.ErrNoPartition) {
			return engine.Classed(engine.ErrRefused, err)
		}
		if ok {
			return err
		}
		if strings.Contains(server.Message, "No space left on device") {
			return engine.Classed(engine.ErrDiskFull, err)
		}
		return denied(server, err)
	}
	if errors.Is(err, mysql.ErrPktTooLarge) { // it has not been sent
		return engine.Classed(engine.ErrRefused, err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var network net.Error
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, sql.ErrConnDone) ||
		errors.As(err, &network) || err.Error() == badConnection {
		return engine.Classed(engine.ErrConnectionLost, err)
	}
	return err
}

// allPrivileges is a hint to the list of all privileges that rowmill needs.
const allPrivileges = "docs/operations.md, Privileges, has all that rowmill needs"

var (
	commandDenied  = regexp.MustCompile("^(.+) command denied to user ('.*'@'.*') for (?:table|column) (?:`([^`]+)`\\.)?")
	databaseDenied = regexp.MustCompile("user ('.*'@'.*') to database '(.*)'")
	needed         = regexp.MustCompile(`you need (?:\(at least one of\) )?the (.+) privilege\(?s?\)? for`)
)

// denied adds the required GRANT to the error of a missing privilege.
func denied(server *mysql.MySQLError, err error) error {
	switch server.Number {
	case 1142, 1143: // ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR
		if m := commandDenied.FindStringSubmatch(server.Message); m != nil {
			on := "DATABASE"
			if m[3] != "" {
				on = dialect{}.Quote(m[3])
			}
			return engine.Hinted(err, "GRANT %s ON %s.* TO %s; %s", m[1], on, m[2], allPrivileges)
		}
	case 1044: // ER_DBACCESS_DENIED_ERROR
		if m := databaseDenied.FindStringSubmatch(server.Message); m != nil {
			return engine.Hinted(err, "GRANT ... ON %s.* TO %s; %s", dialect{}.Quote(m[2]), m[1], allPrivileges)
		}
	case 1227: // ER_SPECIFIC_ACCESS_DENIED_ERROR
		if m := needed.FindStringSubmatch(server.Message); m != nil {
			return engine.Hinted(err, "GRANT one of %s ON *.* TO the target's user; %s", m[1], allPrivileges)
		}
	default:
		return err
	}
	return engine.Hinted(err, "a GRANT to the target's user; %s", allPrivileges)
}
