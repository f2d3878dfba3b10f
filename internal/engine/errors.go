package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
)

// Classes of errors. Engines assign a class to each of a server's errors, so that callers use
// errors.Is and never a server's error codes.
var (
	// ErrDuplicateKey: a row with that key exists.
	ErrDuplicateKey = errors.New("duplicate key")
	// ErrDeadlock: the server rolled the transaction back to end a deadlock.
	ErrDeadlock = errors.New("deadlock")
	// ErrLockTimeout: a lock was not granted in the permitted time.
	ErrLockTimeout = errors.New("lock wait timeout")
	// ErrConnectionLost: the connection broke; whether the last statement was executed is unknown.
	ErrConnectionLost = errors.New("connection lost")
	// ErrUnreachable: no connection could be made.
	ErrUnreachable = errors.New("server not reachable")
	// ErrNoPartition: a row lies outside every period.
	ErrNoPartition = errors.New("row outside every partition")
	// ErrAltered: a table was altered after the transaction's snapshot. A new transaction may succeed.
	ErrAltered = errors.New("table altered")
	// ErrDiskFull: the server has no disk space left.
	ErrDiskFull = errors.New("disk full")
	// ErrNoMemory: the server lacks memory for the statement, or may not use more.
	ErrNoMemory = errors.New("out of memory")
	// ErrTableExists: the table exists already.
	ErrTableExists = errors.New("table exists")
	// ErrNoTable: the table does not exist.
	ErrNoTable = errors.New("no such table")
	// ErrDiffers: a table can't become a period of a table that has other columns or indexes.
	ErrDiffers = errors.New("definitions differ")
	// ErrWritten: other clients have written rows that a change expected to stay as they were.
	ErrWritten = errors.New("rows were written")
	// ErrRefused: the server refuses the rows themselves, and would refuse them again.
	ErrRefused = errors.New("rows refused")
	// ErrDenied: the account lacks a privilege.
	ErrDenied = errors.New("privilege missing")
	// ErrUnsupported: the engine, or this server's build of it, lacks the feature.
	ErrUnsupported = errors.New("not supported")
)

// Retryable reports whether the same batch may be sent again, after
// Writer.Reset. After ErrConnectionLost the batch may have been committed.
func Retryable(err error) bool {
	return errors.Is(err, ErrDeadlock) || errors.Is(err, ErrLockTimeout) || errors.Is(err, ErrConnectionLost)
}

// Classed wraps err with a class, for errors.Is, without changing its text.
func Classed(class, err error) error {
	if err == nil || class == nil {
		return err
	}
	return &classed{class, err}
}

type classed struct{ class, err error }

func (e *classed) Error() string   { return e.err.Error() }
func (e *classed) Unwrap() []error { return []error{e.class, e.err} }

// Disconnected reports whether an error of the network or a driver means that the connection is
// lost. The end of a context doesn't count.
func Disconnected(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || slices.ContainsFunc([]error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed},
		func(lost error) bool { return errors.Is(err, lost) })
}

// A HintError carries a hint about the next step for the user.
type HintError struct {
	Err error
	// Hint is a sentence without "Try:".
	Hint string
}

func (e *HintError) Error() string { return e.Err.Error() }

// Unwrap returns the error without its hint.
func (e *HintError) Unwrap() error { return e.Err }

// Hinted adds a hint to an error.
func Hinted(err error, format string, args ...any) error {
	return &HintError{err, fmt.Sprintf(format, args...)}
}

// HintOf returns the hint of an error, "" if it has none.
func HintOf(err error) string {
	var hint *HintError
	if errors.As(err, &hint) {
		return hint.Hint
	}
	return ""
}

// About adds to an error what has failed. It leaves the error of an ended ctx unchanged.
func About(ctx context.Context, err error, what string) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// FirstWords shortens a statement for an error message.
func FirstWords(statement string) string {
	const most = 80
	statement = strings.Join(strings.Fields(statement), " ")
	if len(statement) > most {
		statement = strings.ToValidUTF8(statement[:most], "") + "..."
	}
	return statement
}
