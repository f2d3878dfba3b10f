package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A Change is something of several steps that is under way. It is written down
// before its first step and each time a step is done, so that whoever finds
// it after a crash goes on where it stopped. A step may have been done when the
// note that it was is missing: every step looks first.
type Change struct {
	Table string
	// ID is the change's within its table, such as "seal p20261120": there is
	// one change of that kind on that period.
	ID   string
	Kind string
	// Step is the one to do next.
	Step string
	// Data is what the steps need to know, as JSON.
	Data             json.RawMessage
	Started, Updated time.Time
	// Tries counts how often the present step has failed, Error says how last.
	Tries int
	Error string
}

// Load reads the change's data into v.
func (c *Change) Load(v any) error {
	if err := json.Unmarshal(c.Data, v); err != nil {
		return fmt.Errorf("journal of %s: %s: %w", c.Table, c.ID, err)
	}
	return nil
}

// DropKind is the kind of a change that drops a period.
const DropKind = "drop"

// A Dropping is the part of such a change's data that others may read.
type Dropping struct {
	Part rolling.Partition
}

// Drops returns the partition that a change drops; false where it does
// something else.
func (c *Change) Drops() (rolling.Partition, bool) {
	var d Dropping
	if c.Kind != DropKind || c.Load(&d) != nil {
		return rolling.Partition{}, false
	}
	return d.Part, true
}

// Begin writes a change down, before its first step. It returns false where one
// of that ID is under way, and reads that one into c.
func (s *Store) Begin(ctx context.Context, c *Change, data any) (bool, error) {
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
	now := time.Now()
	c.Started, c.Updated = now, now
	_, err = s.exec(ctx, s.DB(), "INSERT INTO rowmill_journal (table_name, id, kind, step, data, started_us, updated_us, tries, error) VALUES (?, ?, ?, ?, ?, ?, ?, 0, '')",
		c.Table, c.ID, c.Kind, c.Step, string(c.Data), now.UnixMicro(), now.UnixMicro())
	if err != nil {
		return false, fmt.Errorf("journal of %s: begin %s: %w", c.Table, c.ID, err)
	}
	return true, nil
}

// Advance notes that the change is at another step, with data if it isn't nil,
// in the transaction of x.
func (s *Store) Advance(ctx context.Context, x Exec, c *Change, step string, data any) error {
	if data != nil {
		p, err := json.Marshal(data)
		if err != nil {
			return err
		}
		c.Data = p
	}
	n, err := s.exec(ctx, x, "UPDATE rowmill_journal SET step = ?, data = ?, updated_us = ?, tries = 0, error = '' WHERE table_name = ? AND id = ?",
		step, string(c.Data), time.Now().UnixMicro(), c.Table, c.ID)
	if err != nil {
		return fmt.Errorf("journal of %s: %s: %w", c.Table, c.ID, err)
	}
	if n == 0 {
		return fmt.Errorf("journal of %s: %s is gone: somebody else has ended it", c.Table, c.ID)
	}
	c.Step, c.Tries, c.Error = step, 0, ""
	return nil
}

// Failed notes that the present step has failed.
func (s *Store) Failed(ctx context.Context, c *Change, cause error) error {
	c.Tries++
	c.Error = cause.Error()
	_, err := s.exec(ctx, s.DB(), "UPDATE rowmill_journal SET tries = ?, error = ?, updated_us = ? WHERE table_name = ? AND id = ?",
		c.Tries, c.Error, time.Now().UnixMicro(), c.Table, c.ID)
	if err != nil {
		return fmt.Errorf("journal of %s: %s: %w", c.Table, c.ID, err)
	}
	return nil
}

// End removes a change that is done, in the transaction of x.
func (s *Store) End(ctx context.Context, x Exec, c *Change) error {
	if _, err := s.exec(ctx, x, "DELETE FROM rowmill_journal WHERE table_name = ? AND id = ?", c.Table, c.ID); err != nil {
		return fmt.Errorf("journal of %s: end %s: %w", c.Table, c.ID, err)
	}
	return nil
}

const journalColumns = "SELECT table_name, id, kind, step, data, started_us, updated_us, tries, error FROM rowmill_journal WHERE table_name = ?"

// Change returns the change of that ID, or nil.
func (s *Store) Change(ctx context.Context, table, id string) (*Change, error) {
	row := s.DB().QueryRowContext(ctx, s.db.Bind(journalColumns+" AND id = ?"), table, id)
	c, err := scanChange(row.Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", table, s.db.Classify(err))
	}
	return c, nil
}

// Changes returns those under way, oldest first.
func (s *Store) Changes(ctx context.Context, table string) ([]Change, error) {
	var out []Change
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		c, err := scanChange(r.Scan)
		if err == nil {
			out = append(out, *c)
		}
		return err
	}, journalColumns+" ORDER BY started_us, id", table)
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", table, err)
	}
	return out, nil
}

func scanChange(scan func(...any) error) (*Change, error) {
	var c Change
	var data string
	var started, updated int64
	if err := scan(&c.Table, &c.ID, &c.Kind, &c.Step, &data, &started, &updated, &c.Tries, &c.Error); err != nil {
		return nil, err
	}
	c.Data = json.RawMessage(data)
	c.Started, c.Updated = time.UnixMicro(started), time.UnixMicro(updated)
	return &c, nil
}
