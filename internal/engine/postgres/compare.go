package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// comparedRows is the highest number of rows that one statement of Compare sends.
const comparedRows = 500

// Compare implements engine.LoaderConn. It sends the rows as a list of values, which the server
// converts to the columns' types. The server compares stored and sent rows as text, which every
// type has. The subquery's LIMIT makes the server look up each row by its key.
func (l *loader) Compare(_ context.Context, t *engine.Table, cols []engine.SchemaColumn, b *engine.Batch, from, to int, fn func(engine.Compared)) error {
	if err := l.begun(); err != nil {
		return err
	}
	e, d, c := l.encoder(t), l.db.dialect, engine.NewComparison(t)
	stored := func(i int) string { return "t." + d.Quote(cols[i].Name) }
	c.Equal = func(i int) string { return fmt.Sprintf("%s = x.c%d", stored(i), i) }
	c.Text = func(i int) string { return stored(i) + "::text" }
	c.Short = func(i int) string { return fmt.Sprintf("left(%s::text, %d)", stored(i), engine.MostStored) }
	c.Differ = func(i int) string {
		as := "::text"
		if cols[i].Kind == value.Decimal {
			as = "" // as numbers: their texts may differ in the zeros at the end, as 1.0 and 1.00 do
		}
		return fmt.Sprintf("CAST(x.c%d AS %s)%s IS DISTINCT FROM %s%s", i, cols[i].Native, as, stored(i), as)
	}
	head := "SELECT x.n, " + c.Results(len(cols)) + " FROM (VALUES (-1"
	names := ""
	for i, col := range cols {
		head += ", CAST(NULL AS " + col.Native + ")" // the types
		names += fmt.Sprintf(", c%d", i)
	}
	tail := ") AS x(n" + names + ") CROSS JOIN LATERAL (SELECT * FROM " + e.table + " AS t WHERE " + c.On() + " LIMIT 1) AS t"
	for row := from; row < to; {
		var start int
		l.buf, start = beginMessage(l.buf[:0], 'Q')
		l.buf = append(append(l.buf, head...), ')')
		for end := min(row+comparedRows, to); row < end && len(l.buf) < e.limit; row++ {
			l.buf = append(l.buf, ", ("...)
			l.buf = strconv.AppendInt(l.buf, int64(row), 10)
			at := len(l.buf)
			l.buf = e.appendRow(l.buf, b, row)
			l.buf[at] = ',' // in place of the parenthesis
		}
		l.buf = append(append(l.buf, tail...), 0)
		endMessage(l.buf, start)
		if e.err != nil {
			return fmt.Errorf("%w: %w", errUnsent, e.err)
		}
		err := l.Conn.texts(l.buf, func(values [][]byte) error {
			n, err := strconv.Atoi(string(values[0]))
			if err != nil {
				return err
			}
			found, err := c.Read(n, values[1:])
			if err == nil {
				fn(found)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// texts sends messages and passes each row of the reply to fn as text; nil is NULL. The values are
// valid until fn returns.
func (c *wire) texts(messages []byte, fn func(values [][]byte) error) error {
	if err := c.send(messages); err != nil {
		return err
	}
	var r reply
	var values [][]byte
	for {
		kind, body, err := c.message()
		if err == nil && kind == 'D' {
			if values, err = dataRow(values[:0], body); err == nil {
				err = fn(values)
			}
		} else if err == nil {
			err = r.take(kind, body)
		}
		if err == nil && kind != 'Z' {
			continue
		}
		if c.tx = r.tx; r.err != nil {
			return r.err
		}
		return err
	}
}

// dataRow appends the values of a DataRow message.
func dataRow(dst [][]byte, body []byte) ([][]byte, error) {
	if len(body) < 2 {
		return dst, errProtocol
	}
	n := int(binary.BigEndian.Uint16(body))
	for body = body[2:]; n > 0; n-- {
		if len(body) < 4 {
			return dst, errProtocol
		}
		size := int32(binary.BigEndian.Uint32(body))
		if body = body[4:]; size < 0 {
			dst = append(dst, nil)
			continue
		}
		if int(size) > len(body) {
			return dst, errProtocol
		}
		dst, body = append(dst, body[:size:size]), body[size:]
	}
	return dst, nil
}

func (words) Differs(c engine.SchemaColumn, a, b string) string {
	if c.Kind == value.Decimal {
		return a + " IS DISTINCT FROM " + b
	}
	return a + "::text IS DISTINCT FROM " + b + "::text"
}
