package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A Batch is rows of a table that were sent together.
type Batch struct {
	Table string
	// ID is the batch's within its table: the same rows of the same source have
	// the same, whenever they are sent.
	ID string
	// Lower and Upper are the lowest and the highest position of its rows.
	Lower, Upper int64
	// Sent rows are those inserted, those left out because their key was there,
	// and those rejected.
	Sent, Inserted, Duplicate, Rejected int64
	// Touched are the ranges in which its rows lie, where that is known better
	// than from Lower to Upper. Roll-ups look at all of each.
	Touched []rolling.Period
}

// Note writes batches into the ledger, in the transaction of x: that of their
// rows, so that either is there only with the other. It returns
// engine.ErrDuplicateKey for one that is in the ledger already.
//
// Where the table has roll-ups it also notes for them where rows were written:
// whether they have taken those rows in can't be known before the commit, so
// every batch is noted, also one that isn't late. A note waits for nobody.
func Note(ctx context.Context, s *Store, x Exec, batches ...Batch) error {
	rolled := map[string]bool{}
	for _, b := range batches {
		_, err := s.exec(ctx, x, "INSERT INTO rowmill_ledger (table_name, batch, lower_pos, upper_pos, sent, inserted, duplicate, rejected, at_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			b.Table, b.ID, b.Lower, b.Upper, b.Sent, b.Inserted, b.Duplicate, b.Rejected, time.Now().UnixMicro())
		if err != nil {
			return fmt.Errorf("note batch %s of %s: %w", b.ID, b.Table, err)
		}
		if b.Inserted == 0 {
			continue
		}
		if _, known := rolled[b.Table]; !known {
			// A statement of its own: INSERT ... SELECT would lock what it reads.
			var n int64
			err := x.QueryRowContext(ctx, s.db.Bind("SELECT COUNT(*) FROM rowmill_rollups WHERE table_name = ?"), b.Table).Scan(&n)
			if err != nil {
				return fmt.Errorf("note batch %s of %s: %w", b.ID, b.Table, s.db.Classify(err))
			}
			rolled[b.Table] = n > 0
		}
		if !rolled[b.Table] {
			continue
		}
		ranges := b.Touched
		if ranges == nil {
			ranges = []rolling.Period{{From: b.Lower, To: b.Upper + 1}}
		}
		for _, r := range ranges {
			if err := s.Touch(ctx, x, b.Table, b.ID, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Touch notes for a table's roll-ups that rows have changed within a range, in
// the transaction of x, which is that of the change. The writer's name is for
// people.
func (s *Store) Touch(ctx context.Context, x Exec, table, writer string, r rolling.Period) error {
	// A key of its own: no transaction waits for another that notes the same.
	writer = fmt.Sprintf("%.150s#%016x", writer, rand.Uint64())
	_, err := s.exec(ctx, x, "INSERT INTO rowmill_touched (table_name, lower_pos, upper_pos, writer) VALUES (?, ?, ?, ?)", table, r.From, r.To-1, writer)
	if err != nil {
		return fmt.Errorf("note changed rows of %s: %w", table, err)
	}
	return nil
}

// Noted returns what the ledger has of a batch, or nil.
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
