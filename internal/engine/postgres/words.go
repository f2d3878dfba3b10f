package postgres

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// words implements engine.Words.
type words struct{ d dialect }

// From implements engine.Words. Reading a period through its own table locks no
// other period and leaves less to plan.
func (w words) From(t *engine.Table, p rolling.Partition) string {
	return w.d.Quote(childName(t, p))
}

// Literal implements engine.Words.
func (words) Literal(t *engine.Table, pos int64) string { return byLiteral(t, pos) }

// Position implements engine.Words. It is exact: date_part returns a double, which
// represents both the whole seconds and the microseconds of a minute exactly.
func (words) Position(t *engine.Table, expr string) string {
	switch kindOf(t) {
	case byDate:
		return fmt.Sprintf("((%s - DATE '1970-01-01')::bigint * %d)", expr, microsPerDay)
	case byTimestamp, byTimestampTZ:
		return fmt.Sprintf("(date_part('epoch', date_trunc('second', %s))::bigint * 1000000 + date_part('microseconds', %[1]s)::bigint %% 1000000)", expr)
	}
	if t.Epoch > 0 && t.Grid.Axis() == rolling.Time {
		return fmt.Sprintf("((%s)::bigint * %d)", expr, t.Epoch.Microseconds())
	}
	return fmt.Sprintf("(%s)::bigint", expr)
}

// FromPosition implements engine.Words. If the column can't represent the
// position, it is rounded down.
func (words) FromPosition(t *engine.Table, expr string) string {
	floor := func(unit int64) string { return fmt.Sprintf("floor((%s)::numeric / %d)", expr, unit) }
	switch kindOf(t) {
	case byDate:
		return "(DATE '1970-01-01' + " + floor(microsPerDay) + "::integer)"
	case byTimestamp, byTimestampTZ:
		from := "TIMESTAMP '1970-01-01 00:00:00'"
		if kindOf(t) == byTimestampTZ {
			from = "TIMESTAMPTZ '1970-01-01 00:00:00+00'"
		}
		// A whole number of seconds as a double is exact.
		return fmt.Sprintf("(%s + (%s) / 1000000 * INTERVAL '1 second' + (%[2]s) %% 1000000 * INTERVAL '1 microsecond')", from, expr)
	}
	if t.Epoch > 0 && t.Grid.Axis() == rolling.Time {
		return floor(t.Epoch.Microseconds()) + "::" + integerType(t)
	}
	return "(" + expr + ")::" + integerType(t)
}

// AsText implements engine.Words. The session's settings make it exact.
func (w words) AsText(c engine.SchemaColumn) string { return w.d.Quote(c.Name) + "::text" }

// RowHash implements engine.Words. It is the sum of the 64-bit hashes of the
// rows' text.
func (w words) RowHash(cols []engine.SchemaColumn) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = w.d.Quote(c.Name)
	}
	return "COALESCE(sum(hashtextextended(ROW(" + strings.Join(names, ", ") + ")::text, 0)), 0)::text"
}

// RowHashLike implements engine.Words. There is only one hash function.
func (w words) RowHashLike(checksum string, cols []engine.SchemaColumn) (string, error) {
	if engine.HashName(checksum) != "" {
		return "", engine.UnknownHash(checksum)
	}
	return w.RowHash(cols), nil
}

// CreateTemplate implements engine.Words.
//
// Compress affects rows of more than 2 kB, because TOAST processes only those.
// By the time the table is attached, each of their compressible values is
// compressed, with LZ4 if the server has it, and stored in the row. PostgreSQL
// does not compress shorter rows; for them a rebuilt period is smaller only
// because its pages and indexes are fuller.
func (w words) CreateTemplate(t *engine.Table, name string, o engine.Storage) []string {
	return w.d.createTemplate(t, name, o)
}

// Text implements engine.Words.
func (words) Text() string { return "TEXT" }

// Blob implements engine.Words.
func (words) Blob() string { return "BYTEA" }

// OwnTable implements engine.Words.
func (words) OwnTable() string { return "" }
