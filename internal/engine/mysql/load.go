package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// LOAD DATA LOCAL is the fastest way to send rows, but it implies IGNORE: the server skips rows and
// changes values with a warning. It also replaces a NULL for a NOT NULL column by another value,
// sometimes without a warning. So rowmill sends no such NULL by LOAD DATA, uses LOAD DATA only for
// columns whose values the server converts like the literals of an INSERT, and reads the warnings.

// A source is the stream of a connection's LOAD DATA statements. On an encrypted connection, the
// driver executes these statements, and finds the stream by the source's name.
type source struct {
	name      string
	stream    stream
	statement []byte
}

// open registers the source with the driver, until close.
func (s *source) open() {
	s.name = fmt.Sprintf("rowmill-%d", sources.Add(1))
	mysql.RegisterReaderHandler(s.name, func() io.Reader { return &s.stream })
}

func (s *source) close() {
	if s.name != "" {
		mysql.DeregisterReaderHandler(s.name)
	}
}

// load sends rows [from, to) of b, and returns the number that the server has inserted.
func (s *source) load(c *conn, e *encoder, b *engine.Batch, from, to int) (affected int64, err error) {
	s.stream = stream{enc: e, batch: b, row: from, to: to, buf: s.stream.buf[:0]}
	if !c.wrapped {
		s.statement = append(append(s.statement[:0], emptyHead[:]...), e.load(s.name)...)
		return c.sendData(s.statement, func() []byte {
			s.stream.buf = s.stream.fill(append(s.stream.buf[:0], emptyHead[:dataHead]...))
			return s.stream.buf
		})
	}
	c.warned = -1 // the driver doesn't report the number
	res, err := c.run(e.load(s.name))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// A loadable says whether LOAD DATA may send a batch.
type loadable struct {
	columns bool   // its columns can be sent
	notNull []bool // for each column: no NULL can be sent
}

// loadable reads the columns of a table on the server.
func (c *conn) loadable(table string, cols []engine.Column) (loadable, error) {
	s, err := c.describe(table)
	l := loadable{columns: err == nil, notNull: make([]bool, len(cols))}
	given := map[*engine.SchemaColumn]bool{}
	for i, col := range cols {
		have := s.Find(col.Name)
		if have == nil || !sameByLoad(col.Type, have.Type) {
			l.columns = false
			break
		}
		given[have] = true
		l.notNull[i] = !have.Null && !have.Auto
	}
	for i := range s.Columns {
		// MySQL itself fills a column that has no default and isn't sent, and doesn't report it.
		if c := &s.Columns[i]; !given[c] && !c.Null && !c.Auto && !c.Generated && c.Default == "" {
			l.columns = false
		}
	}
	return l, err
}

// describe reads the columns of a table in the connection's transaction, which may have locked the
// table. On another connection, the read could wait for DDL that waits for this transaction.
func (c *conn) describe(table string) (*engine.Schema, error) {
	s := &engine.Schema{Name: table}
	rows, err := c.conn.(driver.QueryerContext).QueryContext(context.Background(), "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, EXTRA, "+
		"IF(COLUMN_DEFAULT IS NULL, '', 'default') "+
		"FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = "+quoteText(table), nil)
	if err != nil {
		return s, err
	}
	return s, engine.EachDriverRow(rows, func(values []driver.Value) error {
		text := func(i int) string { p, _ := values[i].([]byte); return string(p) }
		c := engine.SchemaColumn{Name: text(0), Native: text(1), Type: typeOf(text(1)), Null: text(2) == "YES", Default: text(4)}
		setExtra(&c, strings.ToLower(text(3)))
		s.Columns = append(s.Columns, c)
		return nil
	})
}

// sameByLoad reports whether LOAD DATA converts values of type v, for a column of type column, as
// the server converts literals. LOAD DATA passes all values as text; literal numbers aren't text.
func sameByLoad(v engine.Type, column value.Type) bool {
	switch v {
	case engine.Int32, engine.Int64: // for other columns, a literal number is a member's index, or digits of a date
		return column.Kind == value.Int && column.Logical != value.Year || column.Kind == value.Decimal || column.Kind == value.Float
	case engine.Float32, engine.Float64: // a literal for a decimal is a decimal or a double by its form
		return column.Kind == value.Float
	case engine.Binary: // sent in hexadecimal digits
		return column.Kind == value.Bytes && column.Logical != value.Spatial
	}
	switch column.Kind {
	case value.Int, value.Float, value.Decimal, value.Time, value.Text:
		return true
	}
	return column.Logical == value.Clock || column.Logical == value.UUID
}

// fits reports whether rows [from, to) of b have NULL only where the table accepts it, and only
// valid UTF-8. If a value ended within a character, MySQL would read the separator behind the value
// as the rest of that character.
func (l *loadable) fits(b *engine.Batch, from, to int) bool {
	if !l.columns {
		return false
	}
	for c, notNull := range l.notNull {
		v := &b.Columns[c]
		if notNull && v.HasNull(from, to) {
			return false
		}
		if v.Type != engine.Varchar && v.Type != engine.Char && v.Type != engine.Decimal {
			continue
		}
		for row := from; row < to; row++ {
			if !utf8.Valid(v.Value(row)) {
				return false
			}
		}
	}
	return true
}

// loaded checks the server's answer to a LOAD DATA of sent rows. With ignore, it returns how many
// of them the server skipped because their key exists; without ignore, a skipped row is an error.
func (c *conn) loaded(sent int, affected int64, ignore bool) (skipped int64, err error) {
	if ignore {
		return c.skipped(sent, affected)
	}
	if affected == int64(sent) && c.warned == 0 {
		return 0, nil
	}
	warnings, err := c.listWarnings(warningsQuery)
	if err == nil && (affected != int64(sent) || len(warnings) > 0) {
		err = refused("load data", affected, sent, warnings)
	}
	return 0, err
}
