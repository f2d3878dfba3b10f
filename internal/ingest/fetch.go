package ingest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/value"
)

// A fetch reads rows of another server's table as records of text: TSV without a header, with every
// value as the server writes it. The records are then checked and sent like records of a file.
type fetch struct {
	list string // the select list
	want []engine.Column
	// convert has for each column the conversion of its values; nil leaves them unchanged.
	convert []func(dst, text []byte) []byte
}

// newFetch returns the fetch of columns of db. The values of columns[i] are loaded into into[i].
func newFetch(db engine.Keeper, columns []engine.SchemaColumn, into []format.Column) *fetch {
	f := &fetch{}
	var list []string
	for i, c := range columns {
		as, text := engine.Varchar, db.Words().AsText(c)
		// A server with types can return bytes and bits as bytes, which saves a conversion to text.
		if c.Kind == value.Bytes && !db.Capabilities().Untyped {
			as, text = engine.Binary, db.Dialect().Quote(c.Name)
		}
		list = append(list, text)
		f.want = append(f.want, engine.Column{Name: c.Name, Type: as, Null: true})
		f.convert = append(f.convert, conversion(c.Type, into[i].Type))
	}
	f.list = strings.Join(list, ", ")
	return f
}

// conversion returns a function that turns a value's text into another type's; nil changes nothing.
func conversion(from, to value.Type) func(dst, text []byte) []byte {
	switch {
	case from.Logical == value.Bit && to.Kind == value.Bytes && to.Logical != value.Bit:
		return nil
	case from.Logical == value.Bit:
		return func(dst, text []byte) []byte { return appendBits(dst, text, from, to) }
	case from.Logical == value.Bool && (to.Numeric() || to.Logical == value.Bit):
		return func(dst, text []byte) []byte {
			switch string(text) {
			case "t", "true":
				return append(dst, '1')
			case "f", "false":
				return append(dst, '0')
			}
			return append(dst, text...)
		}
	case from.Kind == value.Float:
		return func(dst, text []byte) []byte { return appendFloat(dst, text, from, to) }
	}
	return nil
}

// appendBits appends the bits of a value: as binary digits, or as a number for a numeric column.
func appendBits(dst, text []byte, from, to value.Type) []byte {
	digits := string(text)
	switch {
	case from.Kind == value.Bytes:
		digits = fmt.Sprintf("%0*b", from.Bits, new(big.Int).SetBytes(text))
	case len(text) != from.Bits || len(strings.Trim(digits, "01")) > 0:
		return append(dst, text...) // a number
	}
	switch {
	case to.Logical == value.Bit:
		return append(append(dst, "0b"...), digits...)
	case to.Numeric() || to.Logical == value.Bool:
		n, _ := new(big.Int).SetString(digits, 2) // digits are binary
		return n.Append(dst, 10)
	}
	return append(dst, digits...)
}

// appendFloat appends a floating-point number. A number of 32 bits is written so that a column of
// 64 bits gets the number's exact value, and a column of decimals or text gets its shortest digits.
func appendFloat(dst, text []byte, from, to value.Type) []byte {
	if from.Bits != 32 || to.Kind == value.Float && to.Bits == 32 {
		return append(dst, text...)
	}
	x, err := value.ParseFloat(text, 32)
	switch {
	case err != nil || x != x || x-x != 0: // invalid, NaN or infinite: unchanged
		return append(dst, text...)
	case to.Kind == value.Float:
		return strconv.AppendFloat(dst, float64(float32(x)), 'g', -1, 64)
	}
	return strconv.AppendFloat(dst, x, 'f', -1, 32)
}

func (f *fetch) record(dst []byte, rows *engine.Batch, i int, buf []byte) (out, scratch []byte) {
	for n := range rows.Columns {
		if n > 0 {
			dst = append(dst, '\t')
		}
		v := &rows.Columns[n]
		if v.Null(i) {
			dst = append(dst, `\N`...)
			continue
		}
		text := v.Value(i)
		if convert := f.convert[n]; convert != nil {
			buf = convert(buf[:0], text)
			text = buf
		}
		dst = format.AppendEscaped(dst, text)
	}
	return append(dst, '\n'), buf
}

// errWide is returned for rows that together exceed a limit of bytes.
var errWide = errors.New("the rows of a batch are too many bytes")

// rows returns the records of a query's rows. If the records have more bytes than most, it returns
// errWide and the number of rows that fit. The first row always fits.
func (f *fetch) rows(ctx context.Context, s *engine.Session, most int, query string, args []any) (data []byte, rows int, err error) {
	var buf []byte
	err = s.Query(ctx, f.want, func(b *engine.Batch) error {
		for i := range b.Rows() {
			data, buf = f.record(data, b, i, buf)
			if rows++; rows > 1 && len(data) > most {
				rows--
				return errWide
			}
		}
		return nil
	}, query, args...)
	return data, rows, err
}

// A reader is one connection to the source. All readers of a load share a snapshot.
type reader struct {
	snapshot *snapshot
	session  *engine.Session
}

// ready opens the connection, within the snapshot if there is one.
func (r *reader) ready(ctx context.Context) (err error) {
	if r.session != nil {
		return nil
	}
	if r.session, err = r.snapshot.db.Session(ctx); err != nil {
		return err
	}
	if err = r.snapshot.enter(ctx, r.session); err != nil {
		err = errors.Join(err, r.close())
	}
	return err
}

func (r *reader) close() error {
	if r.session == nil {
		return nil
	}
	s := r.session
	r.session = nil
	return s.Close()
}

// A snapshot is a state of the source. All readers see this state if the server's connections can
// share a snapshot. Otherwise each query sees a state of its own.
type snapshot struct {
	db    engine.Keeper
	mu    sync.Mutex
	owner *engine.Session
	name  string
	// renewed is called if the snapshot was lost with its connection.
	renewed func()
}

// enter begins a transaction of the session that sees the snapshot.
func (s *snapshot) enter(ctx context.Context, session *engine.Session) error {
	if !s.db.Capabilities().SharesSnapshots {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != nil {
		// The connection that holds the snapshot may be lost.
		if _, err := s.owner.Exec(ctx, "SELECT 1"); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			_ = s.owner.Close() // its connection is lost anyway
			s.owner = nil
			s.renewed()
		}
	}
	if s.owner == nil {
		if err := s.take(ctx); err != nil {
			return err
		}
	}
	return session.Begin(ctx, engine.Transaction{ReadOnly: true, Snapshot: s.name})
}

func (s *snapshot) take(ctx context.Context) error {
	owner, err := s.db.Session(ctx)
	if err != nil {
		return err
	}
	if err = owner.Begin(ctx, engine.Transaction{ReadOnly: true, Isolation: sql.LevelRepeatableRead}); err == nil {
		s.name, err = owner.Snapshot(ctx)
	}
	if err != nil {
		return errors.Join(err, owner.Close())
	}
	s.owner = owner
	return nil
}

func (s *snapshot) close() error {
	if s.owner == nil {
		return nil
	}
	return s.owner.Close()
}

// sharedColumns returns the columns to load: the named ones, or all that the table can take.
func sharedColumns(source, into *engine.Schema, named []string) (columns []engine.SchemaColumn, names []string, err error) {
	if named != nil {
		for _, name := range named {
			c := source.Find(name)
			if c == nil {
				return nil, nil, fmt.Errorf("column %q isn't one of the source's table %s, whose columns are %s", name, source.Name, strings.Join(source.Names(), ", "))
			}
			columns, names = append(columns, *c), append(names, name)
		}
		return columns, names, nil
	}
	var lacking []string
	for _, c := range source.Columns {
		switch is := into.Find(c.Name); {
		case is == nil:
			lacking = append(lacking, c.Name)
		case !is.Generated:
			columns, names = append(columns, c), append(names, is.Name)
		}
	}
	if len(lacking) > 0 {
		err := fmt.Errorf("the source's table %s has columns that table %s lacks: %s", source.Name, into.Name, strings.Join(lacking, ", "))
		return nil, nil, engine.Hinted(err, "--columns %s, which leaves them out", strings.Join(names, ","))
	}
	return columns, names, nil
}
