package state

import (
	"context"
	"errors"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// leading stands in the column lane for a process that keeps all lanes of a table.
const leading = "all"

// leaders records which process leads each table.
type leaders struct{ *database }

// Beat records that this process leads a table.
func (s leaders) Beat(ctx context.Context, table string) error {
	now := time.Now().UnixMicro()
	n, err := s.exec(ctx, s.DB(), "UPDATE rowmill_leaders SET by_whom = ?, at_us = ? WHERE table_name = ? AND lane = ?", engine.Process(), now, table, leading)
	if err == nil && n == 0 {
		err = s.insert(ctx, s.DB(), "rowmill_leaders (table_name, lane, by_whom, at_us)", []any{table, leading, engine.Process(), now})
		if errors.Is(err, engine.ErrDuplicateKey) { // the row exists; the UPDATE was in the same microsecond, and the server counts only changed rows
			err = nil
		}
	}
	return because("record the leader of "+table, err)
}

// Beats records that this process still leads the tables for which it has called Beat, except
// tables that another process has taken over since. It returns how many tables this process leads.
func (s leaders) Beats(ctx context.Context) (int64, error) {
	n, err := s.exec(ctx, s.DB(), "UPDATE rowmill_leaders SET at_us = ? WHERE by_whom = ? AND lane = ?", time.Now().UnixMicro(), engine.Process(), leading)
	return n, because("record the leader of tables", err)
}

// Leader returns the process that last recorded that it leads a table, and when it did so.
func (s leaders) Leader(ctx context.Context, table string) (by string, at time.Time, err error) {
	_, err = s.one(ctx, s.DB(), "leaders of "+table, []any{&by, micros{&at}},
		"SELECT by_whom, at_us FROM rowmill_leaders WHERE table_name = ? ORDER BY at_us DESC LIMIT 1", table)
	return by, at, err
}
