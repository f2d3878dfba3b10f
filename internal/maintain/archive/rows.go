package archive

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// A reader reads the rows of a table, or of one period, in the order of the primary key. It reads
// in chunks, none of which delays a change of the table for long.
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
	// chunkTime is the most that a chunk should take: a fraction of a change's wait for its lock.
	chunkTime = 300 * time.Millisecond
)

// each passes the texts of each row to fn, nil for NULL, valid until fn returns.
func (r *reader) each(ctx context.Context, fn func(row []sql.RawBytes) error) error {
	var list []string
	for _, c := range r.columns {
		if c.Kind == value.Bytes { // bytes are read unchanged, not as text
			list = append(list, r.quote(c))
		} else {
			list = append(list, r.db.Words().AsText(c))
		}
	}
	// The columns are qualified by r. Otherwise ORDER BY could mean a column of the SELECT list:
	// PostgreSQL gives the text of a column the name of the column, and would sort by the text.
	from := " FROM " + r.from + " AS r"
	keys, err := engine.NewKeys(r.db, r.key)
	if err != nil || slices.ContainsFunc(r.key, func(k engine.SchemaColumn) bool { return k.Null || !k.SortsByValue() }) {
		_, err := r.run(ctx, "SELECT "+strings.Join(list, ", ")+from, nil, len(list), fn)
		return err
	}
	at, order := make([]int, len(r.key)), make([]string, len(r.key))
	for i, k := range r.key {
		order[i] = r.quote(k)
		text := r.db.Words().KeyText(k)
		if at[i] = slices.Index(list, text); at[i] < 0 {
			at[i], list = len(list), append(list, text)
		}
	}
	chunk := cmp.Or(r.chunk, firstChunk)
	var last []string
	for {
		where, args, err := keys.Range(last, nil)
		if err != nil {
			return err
		}
		begin := time.Now()
		q := fmt.Sprintf("SELECT %s%s WHERE %s ORDER BY %s LIMIT %d", strings.Join(list, ", "), from, where, strings.Join(order, ", "), chunk)
		next := make([][]byte, len(r.key))
		n, err := r.run(ctx, q, args, len(list), func(row []sql.RawBytes) error {
			for i := range r.key {
				if row[at[i]] == nil {
					return fmt.Errorf("column %s of the primary key is NULL in a row", r.key[i].Name)
				}
				next[i] = append(next[i][:0], row[at[i]]...)
			}
			return fn(row[:len(r.columns)])
		})
		if err != nil || n < chunk {
			return err
		}
		last = last[:0]
		for _, text := range next {
			last = append(last, string(text))
		}
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

// run calls fn with each row of query q, and returns the number of rows. Without args, question
// marks in q are not placeholders, because names may contain them.
func (r *reader) run(ctx context.Context, q string, args []any, width int, fn func([]sql.RawBytes) error) (n int, err error) {
	row, into := make([]sql.RawBytes, width), make([]any, width)
	for i := range row {
		into[i] = &row[i]
	}
	err = engine.Each(ctx, r.db, r.db.SQL(), func(rows *sql.Rows) error {
		n++
		if err := rows.Scan(into...); err != nil {
			return err
		}
		return fn(row)
	}, q, args...)
	return n, err
}

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
	// Each condition is a column of its own, because the depth of expressions is limited.
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
