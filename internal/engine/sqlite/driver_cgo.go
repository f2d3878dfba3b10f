//go:build cgo

package sqlite

import (
	"database/sql/driver"
	"errors"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// With cgo, SQLite is the C code that github.com/mattn/go-sqlite3 includes.
// driver_pure.go and native_pure.go are the equivalents without cgo.

// A connection is a connection of the driver.
type connection = sqlite3.SQLiteConn

// newDriver returns the driver.
func newDriver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// version returns SQLite's version.
func version() string {
	v, _, _ := sqlite3.Version()
	return v
}

// openConnection opens the file of a URL with driver options.
func openConnection(url string) (*connection, error) {
	if err := giveHandles(); err != nil {
		return nil, err
	}
	c, err := (&sqlite3.SQLiteDriver{}).Open(url)
	if err != nil {
		return nil, err
	}
	return c.(*sqlite3.SQLiteConn), nil
}

// registerFunctions adds the functions that AsText, RowHash and Carry use.
func registerFunctions(conn *connection) error {
	return errors.Join(
		conn.RegisterFunc("rowmill_text", textOf, true),
		conn.RegisterFunc("rowmill_carry", carried, true),
		conn.RegisterFunc("rowmill_row", func(values ...any) []byte { return appendRow(nil, values) }, true),
		conn.RegisterAggregator("rowmill_hash", func() *rowHash { return &rowHash{} }, true),
	)
}

// codesOf returns the codes of an SQLite error; ok is false for any other error.
func codesOf(err error) (c codes, ok bool) {
	var own *failure
	if errors.As(err, &own) {
		return own.codes, true
	}
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return codes{}, false
	}
	c = codes{int(e.ExtendedCode), e.SystemErrno}
	if c.primary() != int(e.Code) {
		c.result = int(e.Code)
	}
	return c, true
}
