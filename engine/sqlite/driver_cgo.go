//go:build cgo

package sqlite

import (
	"database/sql/driver"
	"errors"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// With cgo, SQLite is C code that github.com/mattn/go-sqlite3 has with it.
// driver_pure.go and native_pure.go are the same without cgo.

// A connection is one of the driver.
type connection = sqlite3.SQLiteConn

// newDriver returns the driver.
func newDriver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// version returns SQLite's version.
func version() string {
	v, _, _ := sqlite3.Version()
	return v
}

// openConnection opens a file, named by a URL with the driver's options.
func openConnection(url string) (*connection, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open(url)
	if err != nil {
		return nil, err
	}
	return c.(*sqlite3.SQLiteConn), nil
}

// registerFunctions adds the functions that AsText and RowHash use.
func registerFunctions(conn *connection) error {
	return errors.Join(
		conn.RegisterFunc("rowmill_text", textOf, true),
		conn.RegisterFunc("rowmill_row", func(values ...any) []byte { return appendRow(nil, values) }, true),
		conn.RegisterAggregator("rowmill_hash", func() *rowHash { return &rowHash{} }, true),
	)
}

// codesOf returns what SQLite's error says; ok is false for any other.
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
