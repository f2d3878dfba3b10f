package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// A reader reads the rows of a table, or of one period, in the order of the primary
// key. It reads them in chunks, so that no statement delays a change of the table for
// long.
type reader struct {
	db   engine.Keeper
	from string // an item of a FROM clause
	// columns are the columns to read. key is the primary key; it may be empty, or
	// have columns that are not among columns.
	columns, key []engine.SchemaColumn
	chunk        int // rows of the first chunk; 0 means firstChunk
}

const (
	// firstChunk rows take some milliseconds; later chunks grow and shrink.
	firstChunk = 2000
	maxChunk   = 100_000
	// chunkTime is the maximum duration of a chunk: a fraction of the seconds for
	// which a change of the table waits for its lock.
	chunkTime = 300 * time.Millisecond
)

// each passes the texts of each row to fn, nil for NULL. They are valid until fn
// returns.
func (r *reader) each(ctx context.Context, fn func(row []sql.RawBytes) error) error {
	list := make([]string, 0, len(r.columns)+len(r.key))
	for _, c := range r.columns {
		list = append(list, r.expression(c))
	}
	at := make([]int, len(r.key))
	for i, k := range r.key {
		at[i] = slices.IndexFunc(r.columns, func(c engine.SchemaColumn) bool { return c.Name == k.Name })
		if at[i] < 0 {
			at[i] = len(list)
			list = append(list, r.expression(k))
		}
	}
	// Qualified, because PostgreSQL names the text of a column like the column, and
	// ORDER BY would then sort by the text.
	q := "SELECT " + strings.Join(list, ", ") + " FROM " + r.from + " AS r"
	if !r.chunked() {
		_, err := r.run(ctx, q, nil, len(list), func(row []sql.RawBytes) error { return fn(row[:len(r.columns)]) })
		return err
	}
	order := make([]string, len(r.key))
	for i, k := range r.key {
		order[i] = r.quote(k)
	}
	tail := " ORDER BY " + strings.Join(order, ", ")
	chunk := r.chunk
	if chunk == 0 {
		chunk = firstChunk
	}
	var last [][]byte
	for {
		where, args, err := r.after(last)
		if err != nil {
			return err
		}
		begin := time.Now()
		next := make([][]byte, len(r.key))
		n, err := r.run(ctx, q+where+tail+fmt.Sprintf(" LIMIT %d", chunk), args, len(list), func(row []sql.RawBytes) error {
			for i := range r.key {
				if row[at[i]] == nil {
					return fmt.Errorf("column %s of the primary key is NULL in a row", r.key[i].Name)
				}
				next[i] = append(next[i][:0], row[at[i]]...)
			}
			return fn(row[:len(r.columns)])
		})
		if err != nil {
			return err
		}
		if n < chunk {
			return nil
		}
		last = next
		switch took := time.Since(begin); {
		case r.chunk > 0:
		case took > chunkTime && chunk > 100:
			chunk /= 2
		case took < chunkTime/3:
			chunk = min(chunk*2, maxChunk)
		}
	}
}

func (r *reader) quote(c engine.SchemaColumn) string { return "r." + r.db.Dialect().Quote(c.Name) }

// expression returns the select expression for a column. Bytes are read unchanged.
func (r *reader) expression(c engine.SchemaColumn) string {
	if c.Kind == value.Bytes {
		return r.quote(c)
	}
	return r.db.Words().AsText(c)
}

// chunked reports whether rows can be read from a given key on. This requires a key
// whose columns compare as they sort.
func (r *reader) chunked() bool {
	return len(r.key) > 0 && !slices.ContainsFunc(r.key, func(k engine.SchemaColumn) bool { return k.Null || !k.SortsByValue() })
}

var number = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// after returns the condition for rows after a key. Numbers are written as literals,
// because MySQL compares a number with a bound text as binary floating point.
func (r *reader) after(last [][]byte) (string, []any, error) {
	if last == nil {
		return "", nil, nil
	}
	var args []any
	is := func(i int, op string) (string, error) {
		k := r.key[i]
		left := r.quote(k) + " " + op + " "
		switch k.Kind {
		case value.Int, value.Decimal:
			if !number.Match(last[i]) {
				return "", fmt.Errorf("column %s of the primary key has %q, which is not a number", k.Name, last[i])
			}
			return left + string(last[i]), nil
		case value.Bytes:
			args = append(args, append([]byte{}, last[i]...))
		default:
			args = append(args, string(last[i]))
		}
		return left + "?", nil
	}
	// a >= 1 AND (a > 1 OR (a = 1 AND (b > 2 OR ...))): every planner recognises the
	// first part as a range of the key.
	var build func(i int) (string, error)
	build = func(i int) (string, error) {
		greater, err := is(i, ">")
		if err != nil || i == len(r.key)-1 {
			return greater, err
		}
		equal, err := is(i, "=")
		if err != nil {
			return "", err
		}
		rest, err := build(i + 1)
		return "(" + greater + " OR (" + equal + " AND " + rest + "))", err
	}
	if len(r.key) == 1 {
		cond, err := build(0)
		return " WHERE " + cond, args, err
	}
	lead, err := is(0, ">=")
	if err != nil {
		return "", nil, err
	}
	cond, err := build(0)
	return " WHERE " + lead + " AND " + cond, args, err
}

// run runs a query and returns the number of rows.
func (r *reader) run(ctx context.Context, q string, args []any, width int, fn func([]sql.RawBytes) error) (n int, err error) {
	// Placeholders are bound only if there are arguments, because the literals and
	// names in q must not be searched for question marks.
	if len(args) > 0 {
		q = r.db.Bind(q)
	}
	rows, err := r.db.SQL().QueryContext(ctx, q, args...)
	if err != nil {
		return 0, r.db.Classify(err)
	}
	defer func() { err = errors.Join(err, r.db.Classify(rows.Close())) }()
	row := make([]sql.RawBytes, width)
	into := make([]any, width)
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
		if err := fn(row); err != nil {
			return n, err
		}
		n++
	}
	return n, r.db.Classify(rows.Err())
}

// columnsOf returns the columns of a schema with these names, in the order of names.
func columnsOf(s *engine.Schema, names []string) ([]engine.SchemaColumn, error) {
	out := make([]engine.SchemaColumn, len(names))
	for i, n := range names {
		c := s.Column(n)
		if c == nil {
			return nil, fmt.Errorf("table %s has no column %s", s.Name, n)
		}
		out[i] = *c
	}
	return out, nil
}

// restorable refuses values that an untyped engine would not restore from their text.
func (r *reader) restorable(ctx context.Context) error {
	words, untyped := r.db.Words().(engine.UntypedWords)
	if !untyped {
		return nil
	}
	list := make([]string, len(r.columns))
	for i, c := range r.columns {
		list[i] = "MAX(" + words.Unrestorable(c, r.quote(c)) + ")"
	}
	// Each condition is a column of its own, because the depth of expressions is
	// limited.
	found := make([]sql.NullInt64, len(list))
	into := make([]any, len(list))
	for i := range found {
		into[i] = &found[i]
	}
	row := r.db.SQL().QueryRowContext(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+r.from+" AS r")
	if err := row.Scan(into...); err != nil {
		return r.db.Classify(err)
	}
	var names []string
	for i, n := range found {
		if n.Int64 != 0 {
			names = append(names, r.columns[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return engine.Hinted(fmt.Errorf("column %s has values of another storage class than its type's, which a file can't restore", strings.Join(names, ", ")),
		"UPDATE with CAST to the column's type")
}
