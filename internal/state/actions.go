package state

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// An Action is a completed or failed operation.
type Action struct {
	At     time.Time
	Table  string
	Action string // create, rollup, seal, rebuild, archive, drop, ...
	Detail string
	Took   time.Duration
	Error  string
	// Locked reports that it failed because a lock was not granted.
	Locked bool
	By     string // host and process; Log fills it in
}

// For each table, the last keepActions actions are kept. At most trimActions are removed at a time.
const keepActions, trimActions = 1000, 10000

// actions is the log of actions.
type actions struct{ *database }

// Log records an action of this process. The log is for users: nothing depends on it.
func (s actions) Log(ctx context.Context, a Action) error {
	err := s.insert(ctx, s.DB(), "rowmill_actions (table_name, at_us, serial, action, detail, took_us, error, locked, by_whom)",
		[]any{a.Table, a.At.UnixMicro(), time.Now().UnixNano()%1e9*10000 + int64(os.Getpid()%10000), a.Action, a.Detail, a.Took.Microseconds(), a.Error, bit(a.Locked), engine.Process()})
	return because("log of "+a.Table, err)
}

// Actions returns the last n actions of a table, newest first.
func (s actions) Actions(ctx context.Context, table string, n int) ([]Action, error) {
	return s.actions(ctx, table, fmt.Sprintf("WHERE table_name = ? ORDER BY at_us DESC, serial DESC LIMIT %d", n))
}

// ActionsSince returns all actions of a table after a time, newest first.
func (s actions) ActionsSince(ctx context.Context, table string, since time.Time) ([]Action, error) {
	return s.actions(ctx, table, "WHERE table_name = ? AND at_us > ? ORDER BY at_us DESC, serial DESC", since.UnixMicro())
}

// LatestActions returns the last successful and the last failed action of each kind, newest first.
func (s actions) LatestActions(ctx context.Context, table string) ([]Action, error) {
	return s.actions(ctx, table, "JOIN (SELECT action AS kind, MAX(at_us) AS newest FROM rowmill_actions WHERE table_name = ? GROUP BY action, CASE WHEN error = '' THEN 0 ELSE 1 END) m "+
		"ON kind = action AND newest = at_us WHERE table_name = ? ORDER BY at_us DESC, serial DESC", table)
}

func (s actions) actions(ctx context.Context, table, which string, args ...any) ([]Action, error) {
	return list(ctx, s.database, "log of "+table, func(r *sql.Rows, a *Action) error {
		var took int64
		err := r.Scan(micros{&a.At}, &a.Action, &a.Detail, &took, &a.Error, &a.Locked, &a.By)
		a.Table, a.Took = table, time.Duration(took)*time.Microsecond
		return err
	}, "SELECT at_us, action, detail, took_us, error, locked, by_whom FROM rowmill_actions "+which, append([]any{table}, args...)...)
}

// TrimActions removes a table's oldest actions if the log has more than keepActions.
func (s actions) TrimActions(ctx context.Context, table string) error {
	at := func(order string, offset int) (int64, error) {
		pos := int64(math.MaxInt64)
		_, err := s.one(ctx, s.DB(), "log of "+table, []any{&pos},
			fmt.Sprintf("SELECT at_us FROM rowmill_actions WHERE table_name = ? ORDER BY at_us %s LIMIT 1 OFFSET %d", order, offset), table)
		return pos, err
	}
	kept, err := at("DESC", keepActions-1)
	if err != nil || kept == math.MaxInt64 {
		return err
	}
	some, err := at("ASC", trimActions)
	if err != nil {
		return err
	}
	return s.run(ctx, s.DB(), "log of "+table, "DELETE FROM rowmill_actions WHERE table_name = ? AND at_us < ?", table, min(kept, some))
}
