package postgres

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// onConflictUpdate returns the end of an INSERT that replaces some columns of the row with the same
// primary key, if their values differ. Rows are compared as text: every type has a text, but not
// every type has an operator for equality.
func (d dialect) onConflictUpdate(t *engine.Table, set []engine.Column) string {
	var to, there, sent []string
	for _, c := range set {
		name := d.Quote(c.Name)
		to = append(to, name+" = excluded."+name)
		there, sent = append(there, d.Quote(t.Name)+"."+name), append(sent, "excluded."+name)
	}
	return fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET %s WHERE ROW(%s)::text IS DISTINCT FROM ROW(%s)::text",
		d.list(t.PrimaryKey), strings.Join(to, ", "), strings.Join(there, ", "), strings.Join(sent, ", "))
}

// update updates the rows that an Insert has skipped, and then releases the Insert's savepoint. It
// sends the inserted rows, too: they have the same values already, so that only skipped rows
// change. The server refuses to change a row twice in a statement, so rows with one key are in
// different statements. If only the server regards two keys as equal, it refuses both rows
// (cardinality_violation), together with the other rows of the Insert.
func (l *loader) update(e *encoder, b *engine.Batch, from, to int, more bool, ack *engine.Ack) error {
	if ack.Skipped > 0 {
		for _, rows := range e.rounds(b, from, to) {
			n, err := l.updateRows(e.update, b, rows)
			if err != nil {
				return err
			}
			ack.Updated += n
		}
		ack.Skipped -= ack.Updated
	}
	if more {
		return l.Conn.run(strings.TrimPrefix(loadRelease, "; "))
	}
	return nil
}

// rounds divides rows so that those with the same key are in different rounds, in order.
func (e *encoder) rounds(b *engine.Batch, from, to int) (out [][]int) {
	before := make(map[string]int, to-from)
	var key []byte
	for row := from; row < to; row++ {
		key = key[:0]
		for _, c := range e.key {
			key = append(b.Columns[c].AppendText(key, row), 0)
		}
		n := before[string(key)]
		before[string(key)] = n + 1
		if n == len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], row)
	}
	return out
}

// updateRows sends rows in as few statements as possible, and returns how many were changed.
func (l *loader) updateRows(e *encoder, b *engine.Batch, rows []int) (int64, error) {
	var r reply
	for len(rows) > 0 {
		var start int
		l.buf, start = beginMessage(l.buf[:0], 'Q')
		l.buf = append(l.buf, e.prefix...)
		n := 0
		for ; n < len(rows) && (n == 0 || len(l.buf) < e.limit); n++ {
			if n > 0 {
				l.buf = append(l.buf, ',')
			}
			l.buf = e.appendRow(l.buf, b, rows[n])
		}
		l.buf = append(append(l.buf, e.suffix...), 0)
		endMessage(l.buf, start)
		if len(l.buf) > l.longest {
			return 0, engine.Classed(engine.ErrRefused, fmt.Errorf("a statement of %d bytes, more than PostgreSQL takes", len(l.buf)))
		}
		if err := l.Conn.exchange(l.buf, &r); err != nil {
			return 0, err
		}
		rows = rows[n:]
	}
	return r.rows, nil
}
