//go:build !cgo

package testdb

import _ "modernc.org/sqlite" // the plain client

// SQLiteDriver is the name by which database/sql knows a client of SQLite that
// is none of rowmill's.
const SQLiteDriver = "sqlite"
