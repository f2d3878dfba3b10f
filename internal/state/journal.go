package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A Change is an operation of several steps that is in progress. Its record is written before the
// first step and after each step. So after a crash, any process that finds the record can continue
// the operation. If the crash came between a step and the record of the step, the step is run
// again: each step first checks whether it is done.
type Change struct {
	Table string
	// ID is unique within the table, such as "seal p20261120": there is one change
	// of each kind per period.
	ID   string
	Kind string
	// Step is the next step.
	Step string
	// Data is the input of the steps, as JSON.
	Data    json.RawMessage
	Started time.Time
	// Tries counts how often the current step has failed; Error is the last error.
	Tries int
	Error string
}

// Load reads the change's data into v.
func (c *Change) Load(v any) error {
	return because("journal of "+c.Table+": "+c.ID, json.Unmarshal(c.Data, v))
}

// DropKind is the kind of a change that drops a period.
const DropKind = "drop"

// A Dropping is the part of a DropKind change's data that other packages may read.
type Dropping struct {
	Part rolling.Partition
}

// Drops returns the partition that a change drops; false if it is of another kind.
func (c *Change) Drops() (rolling.Partition, bool) {
	var d Dropping
	if c.Kind != DropKind || c.Load(&d) != nil {
		return rolling.Partition{}, false
	}
	return d.Part, true
}

// A journal records changes in progress.
type journal struct{ *database }

// Begin records a change, before its first step. If a change with its ID is already in progress,
// Begin reads the change in progress into c instead, and returns false.
func (s journal) Begin(ctx context.Context, c *Change, data any) (bool, error) {
	old, err := s.Change(ctx, c.Table, c.ID)
	if err != nil {
		return false, err
	}
	if old != nil {
		*c = *old
		return false, nil
	}
	if c.Data, err = json.Marshal(data); err != nil {
		return false, err
	}
	c.Started = time.Now()
	now := c.Started.UnixMicro()
	err = s.insert(ctx, s.DB(), "rowmill_journal ("+changeColumns+", updated_us)", []any{c.Table, c.ID, c.Kind, c.Step, string(c.Data), now, 0, "", now})
	return err == nil, because(fmt.Sprintf("journal of %s: begin %s", c.Table, c.ID), err)
}

// Advance records, in the transaction of x, the change's step and, unless it is nil, its data.
func (s journal) Advance(ctx context.Context, x Exec, c *Change, step string, data any) error {
	if data != nil {
		p, err := json.Marshal(data)
		if err != nil {
			return err
		}
		c.Data = p
	}
	n, err := s.exec(ctx, x, "UPDATE rowmill_journal SET step = ?, data = ?, updated_us = ?, tries = 0, error = ''"+begun,
		append([]any{step, string(c.Data), time.Now().UnixMicro()}, c.begun()...)...)
	if err != nil {
		return because(c.name(), err)
	}
	if n == 0 {
		return fmt.Errorf("%s is gone: another process has ended it", c.name())
	}
	c.Step, c.Tries, c.Error = step, 0, ""
	return nil
}

// Failed records that the current step has failed.
func (s journal) Failed(ctx context.Context, c *Change, cause error) error {
	c.Tries++
	return s.Waits(ctx, c, cause.Error())
}

// Waits records why the current step waits; "" if it continues.
func (s journal) Waits(ctx context.Context, c *Change, why string) error {
	c.Error = why
	return s.run(ctx, s.DB(), c.name(), "UPDATE rowmill_journal SET tries = ?, error = ?, updated_us = ?"+begun,
		append([]any{c.Tries, c.Error, time.Now().UnixMicro()}, c.begun()...)...)
}

// End removes a completed change, in the transaction of x.
func (s journal) End(ctx context.Context, x Exec, c *Change) error {
	return s.run(ctx, x, fmt.Sprintf("journal of %s: end %s", c.Table, c.ID), "DELETE FROM rowmill_journal"+begun, c.begun()...)
}

// begun is the condition that selects the change c, also by the time when it began. If this process
// has lost its lock, another process may have begun a change with the same ID since. The condition
// excludes that change.
const begun = " WHERE table_name = ? AND id = ? AND started_us = ?"

func (c *Change) begun() []any { return []any{c.Table, c.ID, c.Started.UnixMicro()} }

const changeColumns = "table_name, id, kind, step, data, started_us, tries, error"

// Change returns the change with that ID, or nil.
func (s journal) Change(ctx context.Context, table, id string) (*Change, error) {
	all, err := s.changes(ctx, table, " AND id = ?", id)
	if len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// Changes returns the changes in progress, oldest first.
func (s journal) Changes(ctx context.Context, table string) ([]Change, error) {
	return s.changes(ctx, table, " ORDER BY started_us, id")
}

func (s journal) changes(ctx context.Context, table, which string, args ...any) ([]Change, error) {
	return list(ctx, s.database, "journal of "+table, func(r *sql.Rows, c *Change) error {
		var data string
		err := r.Scan(&c.Table, &c.ID, &c.Kind, &c.Step, &data, micros{&c.Started}, &c.Tries, &c.Error)
		c.Data = json.RawMessage(data)
		return err
	}, "SELECT "+changeColumns+" FROM rowmill_journal WHERE table_name = ?"+which, append([]any{table}, args...)...)
}

func (c *Change) name() string { return fmt.Sprintf("journal of %s: %s", c.Table, c.ID) }
