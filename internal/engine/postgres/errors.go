package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

// classes maps SQLSTATE codes to the error classes of package engine:
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
var classes = map[string]error{
	"23505": engine.ErrDuplicateKey,
	"40P01": engine.ErrDeadlock,
	"40001": engine.ErrDeadlock, // serialization_failure: retried like a deadlock
	"55P03": engine.ErrLockTimeout,
	"57014": engine.ErrLockTimeout, // statement_timeout, or canceled by another session
	"53100": engine.ErrDiskFull,
	"53200": engine.ErrNoMemory,
	"42P07": engine.ErrTableExists,
	"42P01": engine.ErrNoTable,
	"57P01": engine.ErrConnectionLost, // admin_shutdown
	"57P02": engine.ErrConnectionLost, // crash_shutdown
	"57P05": engine.ErrConnectionLost, // idle_session_timeout
	"25P03": engine.ErrConnectionLost, // idle_in_transaction_session_timeout
	"57P03": engine.ErrUnreachable,    // cannot_connect_now
	"53300": engine.ErrUnreachable,    // too_many_connections
	"0A000": engine.ErrUnsupported,
}

// refused reports whether an error is about the values of rows: a value that is
// malformed or out of range (class 22), a violated constraint (23, 44), an
// error raised by a trigger, or a row too long for a page or an index.
func refused(server *pgconn.PgError) bool {
	switch server.Code[:min(2, len(server.Code))] {
	case "22", "23", "44":
		return true
	}
	switch server.Code {
	case "P0001", "54000", "21000": // raise_exception, program_limit_exceeded, cardinality_violation
		return true
	}
	return false
}

// classify adds the error class to an error.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		if refused(server) {
			err = engine.Classed(engine.ErrRefused, err)
		}
		switch class, ok := classes[server.Code]; {
		case ok:
			return engine.Classed(class, err)
		case strings.HasPrefix(server.Code, "08"): // connection_exception
			return engine.Classed(engine.ErrConnectionLost, err)
		case server.Code == "23514" && server.ConstraintName == "":
			// A check_violation that names no constraint is about a partition's bounds.
			return engine.Classed(engine.ErrNoPartition, err)
		case server.Code == "42501": // insufficient_privilege
			return denied(server, err)
		}
		return err
	}
	if errors.Is(err, errZeroByte) || errors.Is(err, errNumber) {
		return engine.Classed(engine.ErrRefused, err)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return engine.Classed(engine.ErrUnreachable, err)
	}
	// The error of pgconn for a connection that it has closed has no type.
	if engine.Disconnected(err) || errors.Is(err, errProtocol) || strings.Contains(err.Error(), "conn closed") {
		return engine.Classed(engine.ErrConnectionLost, err)
	}
	return err
}

var (
	permissionDenied = regexp.MustCompile(`^permission denied for (schema|table|view|database|sequence) (\S+)$`)
	mustOwn          = regexp.MustCompile(`^must be owner of (table|relation|view|sequence|function) (\S+)$`)
)

// denied adds the statement that grants a missing privilege to its error.
func denied(server *pgconn.PgError, err error) error {
	grant := "a GRANT"
	if m := permissionDenied.FindStringSubmatch(server.Message); m != nil {
		rights := map[string]string{"schema": "USAGE, CREATE", "database": "CONNECT, CREATE", "sequence": "USAGE"}[m[1]]
		grant = fmt.Sprintf("GRANT %s ON %s %s", cmp.Or(rights, "SELECT"), strings.Replace(m[1], "view", "table", 1), m[2])
	} else if m := mustOwn.FindStringSubmatch(server.Message); m != nil {
		grant = fmt.Sprintf("ALTER %s %s OWNER", strings.Replace(m[1], "relation", "TABLE", 1), m[2])
	}
	return engine.Hinted(engine.Classed(engine.ErrDenied, err), "%s TO the target's user; docs/privileges.md has all that rowmill needs", grant)
}
