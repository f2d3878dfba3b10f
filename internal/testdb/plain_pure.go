//go:build !cgo

package testdb

import _ "modernc.org/sqlite" // the plain client

// SQLiteDriver is the database/sql name of an SQLite client that does not use rowmill's code.
const SQLiteDriver = "sqlite"
