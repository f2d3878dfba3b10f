package state

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// Parts are the partitions whose rows a table's roll-ups have.
type Parts struct {
	// IDs has an ID by partition, as in engine.PartIdentities.
	IDs map[string]string
	// Columns has an ID by column, as in engine.PartIdentities.
	Columns map[string]string
	Compared
}

// Compared describes the last comparison of a table's partitions with the recorded ones.
type Compared struct {
	// Alters is PartIdentities.Alters, and Definition PartsWritten.Definition, at the time of the
	// comparison. At is that time by the server's clock.
	Alters, Definition string
	At                 int64
}

// ofColumn is the prefix of the names under which the identities of columns are recorded. They are
// in the same table as the identities of partitions, whose names have no prefix.
const ofColumn = "column "

// ColumnKey is the name by which PutParts records what identifies a column.
func ColumnKey(column string) string { return ofColumn + column }

// defined separates the two texts of Compared where they are stored.
const defined = " defined "

func (c Compared) text() string {
	if c.Definition == "" {
		return c.Alters
	}
	return c.Alters + defined + c.Definition
}

// identities records what identifies the partitions that roll-ups have read.
type identities struct{ *database }

// Parts returns the recorded partitions of a table, nil if none were recorded yet. The error is
// engine.ErrNoTable if an earlier version created rowmill's tables, without rowmill_parts.
func (s identities) Parts(ctx context.Context, table string) (*Parts, error) {
	p := &Parts{IDs: map[string]string{}, Columns: map[string]string{}}
	begun := false
	type line struct {
		name, identity string
		at             int64
	}
	lines, err := list(ctx, s.database, "partitions of "+table, func(r *sql.Rows, l *line) error { return r.Scan(&l.name, &l.identity, &l.at) },
		"SELECT name, identity, at_us FROM rowmill_parts WHERE table_name = ?", table)
	for _, l := range lines {
		if name, ok := strings.CutPrefix(l.name, ofColumn); ok {
			p.Columns[name] = l.identity
		} else if l.name == "" {
			p.At, begun = l.at, true
			p.Alters, p.Definition, _ = strings.Cut(l.identity, defined)
		} else {
			p.IDs[l.name] = l.identity
		}
	}
	if err != nil || !begun {
		return nil, err
	}
	return p, nil
}

// Redefine changes the definition of the last comparison, was, unless a later one is recorded.
func (s identities) Redefine(ctx context.Context, x Exec, table string, was Compared, definition string) error {
	now := was
	now.Definition = definition
	return s.run(ctx, x, "the definition of "+table, "UPDATE rowmill_parts SET identity = ? WHERE table_name = ? AND name = '' AND identity = ?", now.text(), table, was.text())
}

// PutParts records the comparison c, and the IDs of the partitions in put in place of older IDs. It
// removes the records of the partitions in gone. All this is in x's transaction.
func (s identities) PutParts(ctx context.Context, x Exec, table string, put map[string]string, gone []string, c Compared) error {
	const what = "partitions of "
	rows := [][]any{{table, "", c.text(), c.At}}
	for name, id := range put {
		gone = append(gone, name)
		rows = append(rows, []any{table, name, id, time.Now().UnixMicro()})
	}
	for _, name := range append(gone, "") {
		if err := s.run(ctx, x, what+table, "DELETE FROM rowmill_parts WHERE table_name = ? AND name = ?", table, name); err != nil {
			return err
		}
	}
	for len(rows) > 0 {
		n := min(len(rows), notedAtATime)
		if err := s.insert(ctx, x, "rowmill_parts (table_name, name, identity, at_us)", rows[:n]...); err != nil {
			return because(what+table, err)
		}
		rows = rows[n:]
	}
	return nil
}

// ForgetParts removes the records of a table's partitions.
func (s identities) ForgetParts(ctx context.Context, x Exec, table string) error {
	return s.run(ctx, x, "partitions of "+table, "DELETE FROM rowmill_parts WHERE table_name = ?", table)
}
