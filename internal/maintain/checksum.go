package maintain

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// sums computes checksums of rows.
type sums struct{ *table }

func (t *Table) sums() sums { return sums{t} }

// checksum returns the sum of the rows of a FROM clause, within a period if one is given.
func (t sums) checksum(ctx context.Context, from string, within *rolling.Period) (engine.Checksum, error) {
	where := "1 = 1"
	if within != nil {
		where = t.within(*within)
	}
	return engine.ReadChecksum(ctx, t.DB, t.State.DB(), t.DB.Words().RowHash(t.columns()), from, where)
}

func (t sums) periodChecksum(ctx context.Context, p rolling.Partition) (engine.Checksum, error) {
	defer t.gate.read()()
	return t.checksum(ctx, t.DB.Words().From(t.Table, p), nil)
}

func (t sums) within(p rolling.Period) string {
	w, by := t.DB.Words(), t.DB.Dialect().Quote(t.Table.By)
	return fmt.Sprintf("%s >= %s AND %s < %s", by, w.Literal(t.Table, p.From), by, w.Literal(t.Table, p.To))
}
