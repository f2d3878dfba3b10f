//go:build cgo

package testdb

import _ "github.com/mattn/go-sqlite3" // the plain client

// SQLiteDriver is the database/sql name of an SQLite client that does not use rowmill's code.
const SQLiteDriver = "sqlite3"
