package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/engine"
)

// classes maps the server's error numbers to the contract's classes.
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
	1158: engine.ErrConnectionLost, // errors of the connection's packets
	1159: engine.ErrConnectionLost,
	1160: engine.ErrConnectionLost,
	1161: engine.ErrConnectionLost,
	1040: engine.ErrUnreachable, // too many connections
	1286: engine.ErrUnsupported, // unknown storage engine
	1148: engine.ErrUnsupported, // not allowed: LOAD DATA LOCAL
	3948: engine.ErrUnsupported, // the same in MySQL 8.0
	4166: engine.ErrUnsupported, // the same in MariaDB
}

// badConnection is the text of an error that the driver keeps to itself, and
// gives to who closes a connection that was lost.
const badConnection = "bad connection"

// classify marks an error with its class.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		if class, ok := classes[server.Number]; ok {
			return engine.Classed(class, err)
		}
		if strings.Contains(server.Message, "No space left on device") {
			return engine.Classed(engine.ErrDiskFull, err)
		}
		return denied(server, err)
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
