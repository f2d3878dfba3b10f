package maintain

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Rolled tells queries which buckets of a table's roll-ups are exact. It may be used by several
// goroutines.
type Rolled struct {
	db engine.Keeper

	mu     sync.Mutex
	tables map[string]*rolled
}

// A rolled is a table as it was when its declaration or definition last changed.
type rolled struct {
	revision int64
	created  time.Time
	defined  string
	*Table
}

// NewRolled returns a Rolled of a database.
func NewRolled(db engine.Keeper) *Rolled { return &Rolled{db: db, tables: map[string]*rolled{}} }

// RolledTable returns a table of the database with its roll-ups; nil if it has none.
func (r *Rolled) RolledTable(ctx context.Context, parts *engine.TableParts) (*engine.RolledTable, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	applied, err := state.New(r.db).Declared(ctx, parts.Name)
	if isNoTable(err) || err == nil && applied == nil {
		return nil, nil
	}
	var t *rolled
	if err == nil {
		t, err = r.open(ctx, parts, applied)
	}
	if err != nil {
		return nil, fmt.Errorf("roll-ups of %s: %w", parts.Name, err)
	}
	if t.Rollups == nil || t.Declared.Period.Axis() != rolling.Time {
		return nil, nil
	}
	by := t.Schema.Column(t.Declared.Time)
	out := &engine.RolledTable{Time: *by, Unit: t.Declared.Epoch, Untyped: r.db.Capabilities().Untyped, Columns: t.Schema.Columns,
		Literal: func(pos int64) string { return r.db.Words().Literal(t.Table.Table, pos) }}
	native := strings.ToLower(by.Native)
	out.Zoned = out.Unit == 0 && strings.HasPrefix(native, "timestamp") && !strings.Contains(native, "without time zone")
	if out.Periods, err = r.db.Catalog().Partitions(ctx, t.Table.Table); err == nil {
		err = t.Rollups.Exact(ctx, out, applied)
	}
	if err != nil {
		return nil, fmt.Errorf("roll-ups of %s: %w", parts.Name, err)
	}
	return out, nil
}

func (r *Rolled) open(ctx context.Context, parts *engine.TableParts, applied *state.Declared) (*rolled, error) {
	if t := r.tables[parts.Name]; t != nil && t.revision == applied.Revision && t.created.Equal(applied.Created) && t.defined == parts.Created {
		return t, nil
	}
	d, err := rolling.ParseDeclaration("the declaration in force", []byte(applied.Text))
	if err != nil {
		return nil, err
	}
	t, err := Open(ctx, r.db, d, time.Now)
	if err != nil {
		return nil, err
	}
	opened := &rolled{applied.Revision, applied.Created, parts.Created, t}
	r.tables[parts.Name] = opened
	return opened, nil
}
