package sqlite

import (
	"errors"
	"math"
	"sync/atomic"
	"syscall"
	"time"
)

// Inserts and queries call SQLite directly, because the drivers take each value as an
// interface: that takes longer than the insert. native_cgo.go and native_pure.go have the
// calls, for the C code and for its translation to Go.

// A stmt is a prepared statement. Its method run executes it several times, each time with the next
// of the bound values, in the format of appendBound. run returns the number of rows that a query
// has returned, or that another statement has changed; rows changed by triggers don't count. close
// may be called after the connection was closed.
type stmt struct {
	db handle
	p  pointer
}

func (h handle) prepare(sql string) (stmt, error) {
	s, _, err := h.prepareFirst(sql)
	return s, err
}

// exec executes one statement given as text, which must not contain a NUL, and returns
// the number of rows that it has changed.
func (h handle) exec(sql []byte) (int64, error) {
	if len(sql) >= math.MaxInt32 {
		return 0, errors.New("a statement of more than 2 GB")
	}
	return h.execute(sql)
}

// A stopper interrupts statements of the connections that it is attached to: while SQLite executes
// a statement, it calls a function that reads the stopper's flag. free may be called once no
// connection has the stopper.
type stopper struct{ flag *int32 }

// SetDeadline sets the flag, or clears it if t is the zero time.
func (s *stopper) SetDeadline(t time.Time) error {
	var v int32
	if !t.IsZero() {
		v = 1
	}
	atomic.StoreInt32(s.flag, v)
	return nil
}

// Figures of sqlite3_db_status, by SQLite's numbers (sqlite3.h, SQLITE_DBSTATUS_*). A handle's
// method status reads them, and returns NaN for a figure that this SQLite doesn't have.
const (
	statusCacheUsed  = 1
	statusCacheHit   = 7
	statusCacheMiss  = 8
	statusCacheWrite = 9
	statusCacheSpill = 12
)

// Result codes of SQLite (sqlite3.h). The lowest byte of an extended code is its primary code.
const (
	codeError      = 1
	codeRow        = 100
	codeDone       = 101
	codeBusy       = 5
	codeLocked     = 6
	codeIOErr      = 10
	codeFull       = 13
	codeCantOpen   = 14
	codeTooBig     = 18
	codeConstraint = 19
	codeMismatch   = 20
	codeNotADB     = 26

	codePrimaryKey = codeConstraint | 6<<8
	codeUnique     = codeConstraint | 8<<8
	codeRowID      = codeConstraint | 10<<8
)

// codes are the codes of an SQLite error: its extended result code, and the
// operating system's error if that was the cause.
type codes struct {
	result int
	errno  syscall.Errno
}

func (c codes) primary() int { return c.result & 0xff }

// A failure is an SQLite error with its codes and text.
type failure struct {
	codes
	text string
}

func (f *failure) Error() string { return f.text }
