//go:build cgo

package testdb

import _ "github.com/mattn/go-sqlite3" // the plain client

// SQLiteDriver is the name by which database/sql knows a client of SQLite that
// is none of rowmill's.
const SQLiteDriver = "sqlite3"
