package maintain

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Internals of the package for its tests, which are in package maintain_test because they use
// packages apply and schedule.

const (
	ApplyLock  = applyLock
	MaxActions = maxActions
	StepAttach = stepAttach
	StepCheck  = stepCheck
	TrimEvery  = trimEvery
)

var (
	ErrChanged = errChanged
	OpenNote   = openNote
	PlanChecks = planChecks
	TableOf    = tableOf
)

type (
	Dropping  = dropping
	Restoring = restoring
)

// BareTable returns a table without a declaration.
func BareTable(db engine.Keeper, table *engine.Table) *Table {
	return &Table{DB: db, followed: followed{Table: table}, shared: &shared{}}
}

func (t *Table) SetBreath(d time.Duration) { t.breath = d }

func (t *Table) Copying() *sync.RWMutex { return &t.copying }

func (t *Table) LastFailed(action string) { t.failed.open.Store(action, true) }

func (t *Table) DeclareLease(ctx context.Context, patience time.Duration) (engine.Lease, error) {
	return t.locks().declareLease(ctx, patience)
}

func (t *Table) Find(ctx context.Context, p rolling.Period) (rolling.Partition, error) {
	return t.find(ctx, p)
}

func (t *Table) InTx(ctx context.Context, fn func(*sql.Tx) error) error { return t.inTx(ctx, fn) }

func (t *Table) TriggerState(ctx context.Context) (missing, old []string, err error) {
	return t.guard().triggerState(ctx)
}

func (t *Table) SealRecord(ctx context.Context, p rolling.Period) (*state.Period, error) {
	return t.sealer().sealed(ctx, p)
}

func (t *Table) CreateCopy(ctx context.Context, name string) error {
	return t.rebuilder().createCopy(ctx, name)
}

func (t *Table) PutBack(ctx context.Context, name string) error {
	return t.rebuilder().putBack(ctx, name)
}

func (t *Table) SwapPublished(ctx context.Context, c *state.Change) error {
	return t.publisher().swapPublished(ctx, c, &publishing{}, 0)
}
