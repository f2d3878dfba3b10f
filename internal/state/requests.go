package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A Request asks the process that keeps a table for work that is due, at once.
type Request struct {
	Table string
	Work  string // drop, seal or rollup
	By    string // the process that asks
	// TakenBy is the process that has found the request, "" while none has.
	TakenBy string
	At      time.Time // when it was taken or, before that, asked for
	Done    bool
	Error   string // why the work failed, once it is done; "" if it succeeded
}

// requests records requests for work that is due.
type requests struct{ *database }

// Ask records a request. If an earlier request for the same work is not done, Ask returns that
// request and records nothing. But it replaces a request that no process has taken within the time
// untaken: the process that made that request was killed.
func (s requests) Ask(ctx context.Context, table, work string, untaken time.Duration) (other *Request, err error) {
	if err := s.Ensure(ctx); err != nil {
		return nil, err
	}
	other, err = s.Request(ctx, table, work)
	if err != nil || other != nil && !other.Done && (other.TakenBy != "" || time.Since(other.At) < untaken) {
		return other, err
	}
	return nil, s.within(ctx, func(tx *sql.Tx) error {
		if err := s.run(ctx, tx, "ask for "+work+" of "+table, "DELETE FROM rowmill_requests WHERE table_name = ? AND work = ?", table, work); err != nil {
			return err
		}
		err := s.insert(ctx, tx, "rowmill_requests (table_name, work, by_whom, taken_by, at_us, done, error)", []any{table, work, engine.Process(), "", time.Now().UnixMicro(), 0, ""})
		return because("ask for "+work+" of "+table, err)
	})
}

// Request returns the request for a work, nil if there is none.
func (s requests) Request(ctx context.Context, table, work string) (*Request, error) {
	all, err := s.requests(ctx, "table_name = ? AND work = ?", table, work)
	if len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// Requests returns the requests for all tables that are not done.
func (s requests) Requests(ctx context.Context) ([]Request, error) {
	return s.requests(ctx, "done = 0")
}

func (s requests) requests(ctx context.Context, where string, args ...any) ([]Request, error) {
	out, err := list(ctx, s.database, "requests", func(r *sql.Rows, q *Request) error {
		return r.Scan(&q.Table, &q.Work, &q.By, &q.TakenBy, micros{&q.At}, &q.Done, &q.Error)
	}, "SELECT table_name, work, by_whom, taken_by, at_us, done, error FROM rowmill_requests WHERE "+where, args...)
	if errors.Is(err, engine.ErrNoTable) { // an earlier version has made the tables
		return nil, nil
	}
	return out, err
}

// Take records that this process does what is asked. It reports whether the request is still there.
func (s requests) Take(ctx context.Context, table, work string) (bool, error) {
	n, err := s.exec(ctx, s.DB(), "UPDATE rowmill_requests SET taken_by = ?, at_us = ? WHERE table_name = ? AND work = ? AND done = 0", engine.Process(), time.Now().UnixMicro(), table, work)
	return n > 0, because(fmt.Sprintf("take the request for %s of %s", work, table), err)
}

// Answer records that a request is done, or why it failed. The process that asked removes it.
func (s requests) Answer(ctx context.Context, table, work string, failed error) error {
	text := ""
	if failed != nil {
		text = failed.Error()
	}
	return s.run(ctx, s.DB(), fmt.Sprintf("answer the request for %s of %s", work, table), "UPDATE rowmill_requests SET done = 1, error = ? WHERE table_name = ? AND work = ?", text, table, work)
}

// Withdraw removes a request of this process.
func (s requests) Withdraw(ctx context.Context, table, work string) error {
	return s.run(ctx, s.DB(), fmt.Sprintf("withdraw the request for %s of %s", work, table),
		"DELETE FROM rowmill_requests WHERE table_name = ? AND work = ? AND by_whom = ?", table, work, engine.Process())
}
