package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Counts are the numbers of rows sent, and of their outcomes: inserted, skipped
// because the key exists, or rejected.
type Counts struct {
	Sent, Inserted, Duplicate, Rejected int64
}

// Add adds other counts.
func (c *Counts) Add(o Counts) {
	c.Sent += o.Sent
	c.Inserted += o.Inserted
	c.Duplicate += o.Duplicate
	c.Rejected += o.Rejected
}

// A Batch is a group of rows of a table that were sent together.
type Batch struct {
	Table string
	// ID is unique within the table: the same rows of the same source have the same
	// ID, whenever they are sent.
	ID string
	// Lower and Upper are the lowest and the highest position of its rows.
	Lower, Upper int64
	Counts
	// Touched are the ranges in which its rows lie, if known more precisely than
	// from Lower to Upper. Roll-ups re-examine each range completely.
	Touched []rolling.Period
	// Extents are the ranges in which its rows lie, with the minimum number inserted
	// in each; nil means Inserted rows from Lower to Upper. They are not stored in
	// the ledger.
	Extents []Extent
}

// Tables for notes, in the form in which their rows are inserted.
var (
	ledgerTable = &engine.Table{Name: "rowmill_ledger", Columns: []engine.Column{
		{Name: "table_name", Type: engine.Varchar}, {Name: "batch", Type: engine.Varchar},
		{Name: "lower_pos", Type: engine.Int64}, {Name: "upper_pos", Type: engine.Int64},
		{Name: "sent", Type: engine.Int64}, {Name: "inserted", Type: engine.Int64}, {Name: "duplicate", Type: engine.Int64},
		{Name: "rejected", Type: engine.Int64}, {Name: "at_us", Type: engine.Int64}}}
	touchedTable = &engine.Table{Name: "rowmill_touched", Columns: []engine.Column{
		{Name: "table_name", Type: engine.Varchar}, {Name: "lower_pos", Type: engine.Int64}, {Name: "upper_pos", Type: engine.Int64},
		{Name: "writer", Type: engine.Varchar}}}
	rollupsOf = &engine.Table{Name: "rowmill_rollups", Columns: []engine.Column{{Name: "table_name", Type: engine.Varchar}}}
	sourceOf  = &engine.Table{Name: "rowmill_sources", Columns: []engine.Column{{Name: "table_name", Type: engine.Varchar}, {Name: "source", Type: engine.Varchar}}}
)

// Before reads the information that the transaction of a source's rows needs before
// it records the batch: whether the table has roll-ups, and whether the source is
// still known. A file that is not known is refused with ErrForgotten: the rows are
// in a table that was recreated, and the next load of the file starts from the
// beginning.
//
// It is called after the rows are inserted. From then on their table can't be
// dropped, and its sources are removed only if the table does not exist, so the
// result is valid until the commit.
func Before(ctx context.Context, l engine.Loader, f *Source) (rolled bool, err error) {
	rows := []engine.Rows{{Table: rollupsOf, Batch: engine.NewBatch(rollupsOf.Columns)}, {Table: sourceOf, Batch: engine.NewBatch(sourceOf.Columns)}}
	fill(rows[0].Batch, f.Table)
	fill(rows[1].Batch, f.Table, f.Key)
	has, err := l.Has(ctx, rows...)
	switch {
	case err != nil:
		return false, fmt.Errorf("what is known of %s: %w", f.Path, err)
	case f.Kind == FileSource && !has[1]:
		return false, ErrForgotten
	}
	return has[0], nil
}

// Rows returns the rows to insert in the transaction of the batch's rows, so that
// both are committed or neither. The first is the batch's line of the ledger, which
// is refused with engine.ErrDuplicateKey if the batch is already in the ledger. If
// the table has roll-ups (see Rolled), the others are the ranges that they must
// re-examine. Whether the roll-ups already include those rows is unknown before the
// commit, so every batch is noted, also one that isn't late. Inserting a note never
// waits for another transaction.
func (b *Batch) Rows(rolled bool) []engine.Rows {
	line := engine.Rows{Table: ledgerTable, Batch: engine.NewBatch(ledgerTable.Columns)}
	fill(line.Batch, b.Table, b.ID, b.Lower, b.Upper, b.Sent, b.Inserted, b.Duplicate, b.Rejected, time.Now().UnixMicro())
	out := []engine.Rows{line}
	if !rolled || b.Inserted == 0 {
		return out
	}
	ranges := b.Touched
	if ranges == nil {
		ranges = []rolling.Period{{From: b.Lower, To: b.Upper + 1}}
	}
	notes := engine.Rows{Table: touchedTable, Batch: engine.NewBatch(touchedTable.Columns)}
	for _, r := range ranges {
		fill(notes.Batch, b.Table, r.From, r.To-1, writerKey(b.ID))
	}
	return append(out, notes)
}

// fill appends a row of texts and integers.
func fill(b *engine.Batch, values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case string:
			b.Columns[i].AppendBytes([]byte(v))
		case int64:
			b.Columns[i].Ints = append(b.Columns[i].Ints, v)
		}
	}
	b.EndRow()
}

// writerKey makes a writer's name unique, so that no transaction waits for another
// that notes the same range.
func writerKey(writer string) string { return fmt.Sprintf("%.150s#%016x", writer, rand.Uint64()) }

// Rolled reports whether a table has roll-ups. Call it outside the transaction of
// the rows, because INSERT ... SELECT would lock the rows it reads.
func (s *Store) Rolled(ctx context.Context, x Exec, table string) (bool, error) {
	var n int64
	err := x.QueryRowContext(ctx, s.db.Bind("SELECT COUNT(*) FROM rowmill_rollups WHERE table_name = ?"), table).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("roll-ups of %s: %w", table, s.db.Classify(err))
	}
	return n > 0, nil
}

// Note records a batch in the ledger, in the transaction of x, with the rows of
// Rows.
func Note(ctx context.Context, s *Store, x Exec, b Batch) error {
	rolled, err := s.Rolled(ctx, x, b.Table)
	if err != nil {
		return err
	}
	for _, rows := range b.Rows(rolled) {
		if err := s.insert(ctx, x, rows); err != nil {
			return fmt.Errorf("note batch %s of %s: %w", b.ID, b.Table, err)
		}
	}
	return nil
}

// insert inserts rows of texts and integers.
func (s *Store) insert(ctx context.Context, x Exec, r engine.Rows) error {
	names := make([]string, len(r.Table.Columns))
	for i, c := range r.Table.Columns {
		names[i] = c.Name
	}
	q := fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", r.Table.Name, strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1))
	args := make([]any, len(names))
	for row := range r.Batch.Rows() {
		for i := range args {
			if v := &r.Batch.Columns[i]; v.Type == engine.Varchar {
				args[i] = string(v.Value(row))
			} else {
				args[i] = v.Ints[row]
			}
		}
		if _, err := s.exec(ctx, x, q, args...); err != nil {
			return err
		}
	}
	return nil
}

// Touch notes for a table's roll-ups that rows in a range have changed, in the
// transaction of x, which must be that of the change. The writer's name is for
// information only.
func (s *Store) Touch(ctx context.Context, x Exec, table, writer string, r rolling.Period) error {
	notes := engine.Rows{Table: touchedTable, Batch: engine.NewBatch(touchedTable.Columns)}
	fill(notes.Batch, table, r.From, r.To-1, writerKey(writer))
	if err := s.insert(ctx, x, notes); err != nil {
		return fmt.Errorf("note changed rows of %s: %w", table, err)
	}
	return nil
}

// Noted returns the ledger's line of a batch, or nil.
func (s *Store) Noted(ctx context.Context, x Exec, table, id string) (*Batch, error) {
	b := Batch{Table: table, ID: id}
	err := x.QueryRowContext(ctx, s.db.Bind("SELECT lower_pos, upper_pos, sent, inserted, duplicate, rejected FROM rowmill_ledger WHERE table_name = ? AND batch = ?"), table, id).
		Scan(&b.Lower, &b.Upper, &b.Sent, &b.Inserted, &b.Duplicate, &b.Rejected)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger of %s: %w", table, s.db.Classify(err))
	}
	return &b, nil
}
