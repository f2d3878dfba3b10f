package sqlite

import "syscall"

// Result codes of SQLite (sqlite3.h). The lowest byte of an extended code is its
// primary code.
const (
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

// Figures of sqlite3_db_status, by SQLite's numbers (sqlite3.h, SQLITE_DBSTATUS_*).
const (
	statusCacheUsed  = 1
	statusCacheHit   = 7
	statusCacheMiss  = 8
	statusCacheWrite = 9
	statusCacheSpill = 12
)
