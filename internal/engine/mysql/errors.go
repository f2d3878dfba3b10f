package mysql

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

// classes maps the server's error numbers to the error classes of package engine.
var classes = numbered(map[error][]uint16{
	engine.ErrDuplicateKey: {1062},
	engine.ErrDeadlock:     {1213},
	// 1969 is max_statement_time in MariaDB, 3024 is max_execution_time in MySQL.
	engine.ErrLockTimeout: {1205, 1969, 3024},
	engine.ErrNoPartition: {1526},
	engine.ErrAltered:     {1412, 1735, 1747}, // 1735: no such partition; 1747: no partitions
	engine.ErrDiskFull:    {1021, 1114},       // 1114: the table is full
	engine.ErrNoMemory:    {1037, 1038, 1041}, // 1038: sort_buffer_size is too small
	engine.ErrTableExists: {1050},
	engine.ErrNoTable:     {1146},
	// Server shutdown in progress; MariaDB: connection was killed; errors of network packets; MySQL:
	// closed after wait_timeout; Galera: the node is not ready.
	engine.ErrConnectionLost: {1053, 1927, 1158, 1159, 1160, 1161, 4031, 1047},
	engine.ErrUnreachable:    {1040}, // too many connections
	// Unknown storage engine; LOAD DATA LOCAL is disabled, also in MySQL 8.0 and in MariaDB.
	engine.ErrUnsupported: {1286, 1148, 3948, 4166},
})

// refusals are the error numbers of refused rows. INSERT IGNORE turns these errors into warnings,
// which have the same number and no SQLSTATE. Error 1364, for a column without a default, isn't
// among them, because it is the table's definition that is at fault.
var refusals = numbered(map[string][]uint16{
	"key that exists":       {1022, 1062, 1169, 1586, 1859},
	"NULL":                  {1048, 1263},
	"foreign key":           {1216, 1217, 1451, 1452, 1557, 1761, 1762},
	"CHECK":                 {3819, 4025}, // MySQL's and MariaDB's
	"SIGNAL":                {1644},
	"partition":             {1526, 1591, 1748},
	"too long":              {1118, 1153, 1406}, // a row, a packet, a value
	"out of range":          {1264, 1441, 1690},
	"truncated":             {1265},
	"incorrect value":       {1292, 1365, 1366, 1367, 1411, 1416, 1525},
	"invalid characters":    {1300, 1977, 3854}, // also characters that the column can't hold
	"invalid JSON document": {3140, 3141, 3144},
})

func numbered[K comparable](of map[K][]uint16) map[uint16]K {
	out := map[uint16]K{}
	for k, numbers := range of {
		for _, n := range numbers {
			out[n] = k
		}
	}
	return out
}

// rowsRefused reports whether rows have caused the error: by their values, keys or constraints, or
// by a trigger.
func rowsRefused(e *mysql.MySQLError) bool {
	if refusals[e.Number] != "" {
		return true
	}
	if e.Number == 1052 { // an ambiguous column; its SQLSTATE has the class of key errors
		return false
	}
	class := string(e.SQLState[:2])
	return class == "22" || class == "23" || string(e.SQLState[:]) == "45000"
}

// badConnection is the text of an error that the driver doesn't export. Closing a lost connection
// returns this error.
const badConnection = "bad connection"

// errCreateTable is any failure of the storage engine to create a table.
const errCreateTable = 1005

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
		if strings.Contains(server.Message, "(provider status: ") { // Galera: the node lost the other nodes while it committed
			return engine.Classed(engine.ErrConnectionLost, err)
		}
		if strings.Contains(server.Message, "No space left on device") || server.Number == errCreateTable && strings.Contains(server.Message, "(errno: 135 ") {
			return engine.Classed(engine.ErrDiskFull, err) // 135 is InnoDB's: no more room in a file, or for one
		}
		if slices.Contains([]uint16{1044, 1142, 1143, errPrivilege}, server.Number) {
			return denied(server, err)
		}
	}
	if errors.Is(err, mysql.ErrPktTooLarge) { // it has not been sent
		return engine.Classed(engine.ErrRefused, err)
	}
	if errors.Is(err, mysql.ErrInvalidConn) || engine.Disconnected(err) || err.Error() == badConnection {
		return engine.Classed(engine.ErrConnectionLost, err)
	}
	return err
}

// allPrivileges is a hint to the list of all privileges that rowmill needs.
const allPrivileges = "docs/privileges.md has all that rowmill needs"

var (
	commandDenied  = regexp.MustCompile("^(.+) command denied to user ('.*'@'.*') for (?:table|column) (?:`([^`]+)`\\.)?")
	databaseDenied = regexp.MustCompile("user ('.*'@'.*') to database '(.*)'")
	needed         = regexp.MustCompile(`you need (?:\(at least one of\) )?the (.+) privilege\(?s?\)? for`)
)

// denied adds the required GRANT to an error about a missing privilege.
func denied(server *mysql.MySQLError, err error) error {
	err = engine.Classed(engine.ErrDenied, err)
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
			return engine.Hinted(err, "GRANT %s ON %s.* TO %s", engine.KeepRights, dialect{}.Quote(m[2]), m[1])
		}
	case 1227: // ER_SPECIFIC_ACCESS_DENIED_ERROR
		if m := needed.FindStringSubmatch(server.Message); m != nil {
			return engine.Hinted(err, "GRANT one of %s ON *.* TO the target's user; %s", m[1], allPrivileges)
		}
	}
	return engine.Hinted(err, "a GRANT to the target's user; %s", allPrivileges)
}
