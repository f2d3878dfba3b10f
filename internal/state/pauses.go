package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A Pause stops a policy of a table until a time. It ends by itself.
type Pause struct {
	// Policy is a lane of maintenance, "adopt", or "all".
	Policy string
	Until  time.Time
	Reason string
	By     string // the process that set it
}

// PauseAll is the policy of a pause of all policies.
const PauseAll = "all"

// String says until when it lasts, and why.
func (p *Pause) String() string {
	text := "paused until " + p.Until.UTC().Format(time.DateTime)
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// pauses records pauses of policies.
type pauses struct{ *database }

// Pauses returns the pauses of a table that have not ended.
func (s pauses) Pauses(ctx context.Context, table string) ([]Pause, error) {
	pauses, err := list(ctx, s.database, "pauses of "+table, func(r *sql.Rows, p *Pause) error {
		return r.Scan(&p.Policy, micros{&p.Until}, &p.Reason, &p.By)
	}, "SELECT policy, until_us, reason, by_whom FROM rowmill_pauses WHERE table_name = ? AND until_us > ? ORDER BY policy", table, time.Now().UnixMicro())
	if errors.Is(err, engine.ErrNoTable) { // an earlier version has made the tables
		return nil, nil
	}
	return pauses, err
}

// Paused returns the pause that stops a policy at present; if several do, the one that ends last;
// nil if none does.
func Paused(pauses []Pause, policy string) (of *Pause) {
	for i := range pauses {
		p := &pauses[i]
		if (p.Policy == policy || p.Policy == PauseAll) && p.Until.After(time.Now()) && (of == nil || p.Until.After(of.Until)) {
			of = p
		}
	}
	return of
}

// Pause pauses a policy of a table, in place of an earlier pause of it.
func (s pauses) Pause(ctx context.Context, table string, p Pause) error {
	if err := s.Ensure(ctx); err != nil {
		return err
	}
	return s.within(ctx, func(tx *sql.Tx) error {
		if _, err := s.resume(ctx, tx, table, p.Policy); err != nil {
			return err
		}
		err := s.insert(ctx, tx, "rowmill_pauses (table_name, policy, until_us, reason, by_whom)", []any{table, p.Policy, p.Until.UnixMicro(), p.Reason, engine.Process()})
		return because("pause "+table, err)
	})
}

// Resume ends the pause of a policy of a table, and returns how many pauses it has ended. If policy
// is PauseAll, it ends all pauses of the table.
func (s pauses) Resume(ctx context.Context, table, policy string) (int64, error) {
	n, err := s.resume(ctx, s.DB(), table, policy)
	if errors.Is(err, engine.ErrNoTable) {
		return 0, nil
	}
	return n, err
}

func (s pauses) resume(ctx context.Context, x Exec, table, policy string) (int64, error) {
	q, args := "DELETE FROM rowmill_pauses WHERE table_name = ?", []any{table}
	if policy != PauseAll {
		q, args = q+" AND policy = ?", append(args, policy)
	}
	n, err := s.exec(ctx, x, q, args...)
	return n, because(fmt.Sprintf("resume %s of %s", policy, table), err)
}
