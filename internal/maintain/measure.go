package maintain

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A sum is the number of a set's rows and a checksum that does not depend on their
// order.
type sum struct {
	Rows int64
	Hash string
}

// sumOf returns the sum of the rows of a FROM clause, limited to a period if one is
// given.
func (t *Table) sumOf(ctx context.Context, x state.Exec, from string, within *rolling.Period) (sum, error) {
	q := "SELECT COUNT(*), " + t.DB.Words().RowHash(t.columns()) + " FROM " + from
	if within != nil {
		q += " WHERE " + t.within(*within)
	}
	var s sum
	if err := x.QueryRowContext(ctx, q).Scan(&s.Rows, &s.Hash); err != nil {
		return s, fmt.Errorf("sum up %s: %w", from, t.DB.Classify(err))
	}
	return s, nil
}

// sumOfPeriod returns the sum of a period of the table.
func (t *Table) sumOfPeriod(ctx context.Context, p rolling.Partition) (sum, error) {
	defer t.gate.read()()
	return t.sumOf(ctx, t.State.DB(), t.DB.Words().From(t.Table, p), nil)
}

// sumLike returns the sum of the rows of a FROM clause, computed in the same way as
// the recorded sum noted, for comparison with it. fresh is the result of sumOf at
// the same moment. The two differ if noted was computed with another checksum
// function than the current one; fresh is the one to record.
func (t *Table) sumLike(ctx context.Context, x state.Exec, from, noted string) (like, fresh sum, err error) {
	words := t.DB.Words()
	same, err := words.RowHashLike(noted, t.columns())
	if err != nil {
		return like, fresh, fmt.Errorf("compare %s with what was noted of it: %w", from, err)
	}
	now := words.RowHash(t.columns())
	if same == now {
		like, err = t.sumOf(ctx, x, from, nil)
		return like, like, err
	}
	err = x.QueryRowContext(ctx, "SELECT COUNT(*), "+same+", "+now+" FROM "+from).Scan(&like.Rows, &like.Hash, &fresh.Hash)
	if err != nil {
		return like, fresh, fmt.Errorf("sum up %s: %w", from, t.DB.Classify(err))
	}
	fresh.Rows = like.Rows
	return like, fresh, nil
}

// within returns the condition that a row's position lies in the period.
func (t *Table) within(p rolling.Period) string {
	w, by := t.DB.Words(), t.DB.Dialect().Quote(t.Table.By)
	return fmt.Sprintf("%s >= %s AND %s < %s", by, w.Literal(t.Table, p.From), by, w.Literal(t.Table, p.To))
}

// columns returns the columns of the table that can be written.
func (t *Table) columns() []engine.SchemaColumn {
	var out []engine.SchemaColumn
	for _, c := range t.Schema.Columns {
		if !c.Generated {
			out = append(out, c)
		}
	}
	return out
}

// key returns the columns of the primary key.
func (t *Table) key() []engine.SchemaColumn {
	var out []engine.SchemaColumn
	for _, name := range t.Schema.PrimaryKey {
		out = append(out, *t.Schema.Column(name))
	}
	return out
}

// quoted lists columns, each after a prefix such as "o.".
func (t *Table) quoted(prefix string, cols []engine.SchemaColumn) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = prefix + t.DB.Dialect().Quote(c.Name)
	}
	return strings.Join(names, ", ")
}

// sameKey returns the condition that rows of two tables have the same primary key.
func (t *Table) sameKey(a, b string) string {
	var terms []string
	for _, c := range t.key() {
		q := t.DB.Dialect().Quote(c.Name)
		terms = append(terms, a+q+" = "+b+q)
	}
	return strings.Join(terms, " AND ")
}

// reach calls Reached, with which tests end the process, before or after a step.
func (t *Table) reach(point string) {
	if t.Reached != nil {
		t.Reached(point)
	}
}
