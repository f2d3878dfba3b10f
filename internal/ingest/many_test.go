package ingest

import (
	"context"
	"errors"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestInterruptedBetweenSources: a load that is interrupted when one source is loaded and the next
// isn't begun is no complete load.
func TestInterruptedBetweenSources(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	m := Many{
		Options: Options{Sending: lane.Sending{DB: testdb.Open(t, "sqlite").(engine.Keeper), Reading: format.Reading{Table: &engine.Table{}}}},
		Bad:     func(string) string { return "" },
		Done:    func(Outcome) { interrupt() },
	}
	outcomes, _, sum, err := m.Run(ctx, []string{"a.csv", "b.csv", "c.csv"})
	if len(outcomes) != 1 || sum.NotBegun != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d outcomes, %d sources not begun, %v", len(outcomes), sum.NotBegun, err)
	}
}
