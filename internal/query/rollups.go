package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/query/rollup"
	"github.com/rowmill/rowmill/rolling"
)

// Rollups describes the roll-ups of tables.
type Rollups interface {
	// RolledTable returns a table with its roll-ups, nil if it has none.
	RolledTable(ctx context.Context, t *engine.TableParts) (*engine.RolledTable, error)
}

// useRollups makes the pieces of a plan if roll-ups answer a part of the query exactly. Otherwise
// it makes none, and sets p.NoRollup to the reason.
func (r *Runner) useRollups(ctx context.Context, s *engine.Session, p *plan.Plan) error {
	if r.o.Rollups == nil || r.o.NoRollups || !p.Table.Period || len(r.nodes) > 1 {
		return nil
	}
	if p.InUnion {
		p.NoRollup = "a set operation reads rows"
		return nil
	}
	t, err := r.o.Rollups.RolledTable(ctx, p.Table)
	if err != nil && ctx.Err() == nil && !isBug(err) { // such as a missing privilege: rows answer the query instead
		p.NoRollup = "the state of the roll-ups can't be read: " + err.Error()
		return nil
	}
	if err != nil || t == nil {
		return err
	}
	why := ""
	switch {
	case t.Why != "":
		why = t.Why
	case p.OnlyCounts:
		why = "some versions of the server count in another way where a query has counts alone"
	case p.Merge.Kind == plan.Concatenate || p.Merge.Rows:
		why = "its pieces return rows, and not groups"
	default:
		why, err = r.chooseLevels(ctx, s, p, t)
	}
	p.NoRollup, p.Changed = why, t.Changed
	return err
}

// chooseLevels uses the roll-ups, here called levels, that answer the query. For each range of
// time, it takes the level with the longest buckets.
func (r *Runner) chooseLevels(ctx context.Context, s *engine.Session, p *plan.Plan, t *engine.RolledTable) (why string, err error) {
	u, why := rollup.New(r.nodes[0].Reader, p, t)
	if why != "" {
		return why, nil
	}
	var found []*rollup.Level
	for i := range t.Levels {
		l, not := u.Level(&t.Levels[i])
		if not != "" {
			why = t.Levels[i].Name + ": " + not
			continue
		}
		found = append(found, l)
	}
	slices.SortStableFunc(found, func(a, b *rollup.Level) int { return cmp.Compare(b.Every.Span().Length(), a.Every.Span().Length()) })
	var used []rolling.Period
	for _, l := range found {
		ranges := u.Without(l, used)
		if len(ranges) == 0 {
			continue
		}
		text := u.Text(l, ranges)
		cols, err := r.nodes[0].DescribeQuery(ctx, s, text)
		if err != nil {
			if ctx.Err() != nil {
				return "", err
			}
			why = fmt.Sprintf("%s: the server doesn't describe its query: %v", l.Name, err)
			continue
		}
		if not := u.Differs(l, cols); not != "" {
			why = l.Name + ": " + not
			continue
		}
		p.Rollups = append(p.Rollups, plan.RollupUse{Name: l.Name, Every: l.Every, Ranges: ranges, Proof: l.Proof(p.Table.Database, ranges)})
		p.Pieces = append(p.Pieces, plan.Piece{Query: text, Rollup: l.Name, Rows: -1})
		used = rollup.Joined(append(used, ranges...))
	}
	if len(p.Rollups) == 0 {
		return cmp.Or(why, "none of its buckets lies in the time that is asked for"), nil
	}
	rows := partRows(p.Table)
	whole, cut := u.Rest(used, rows)
	if list := append(slices.Clip(cut), joinParts(rows, whole)); len(whole) > 0 && fewRows(list) {
		cut = list
	} else if len(whole) > 0 {
		cut = append(cut, groupParts(p.Table, whole, r.parallel(r.nodes[0].Reader))...)
	}
	p.Pieces = append(p.Pieces, cut...)
	p.SameRows = u.SameRows(used)
	return "", nil
}

// proveRollups makes sure that in the snapshots of a run's sessions, the roll-ups that a plan reads
// have exactly the rows of the table.
func (x *execution) proveRollups(run *nodeRun) error {
	for _, s := range run.sessions {
		for _, u := range x.p.Rollups {
			if err := proveRollup(x.ctx, s.Session, u); err != nil {
				return err
			}
		}
	}
	if x.p.SameRows == nil {
		return nil
	}
	why, err := x.p.SameRows(x.ctx, run.sessions[0].Session)
	switch {
	case why != "":
		return merge.Inexact(why)
	case err != nil && x.ctx.Err() == nil && !errors.Is(err, engine.ErrConnectionLost):
		return merge.Inexact("it can't be proven that the roll-ups have the rows of their partitions: " + err.Error())
	}
	return err
}

// proveRollup makes sure that in the snapshot of a session, the roll-up has exactly the rows of the
// table.
func proveRollup(ctx context.Context, s *engine.Session, u plan.RollupUse) error {
	holds := false
	err := s.Text(ctx, u.Proof, nil, func(values [][]byte) error {
		holds = len(values) > 0
		for _, v := range values {
			holds = holds && string(v) == "1"
		}
		return nil
	})
	if err == nil && !holds {
		return merge.Inexact("rows of the time that roll-up " + u.Name + " stands for have changed meanwhile")
	}
	if err != nil && ctx.Err() == nil {
		return merge.Inexact("it can't be proven that roll-up " + u.Name + " is up to date: " + err.Error())
	}
	return err
}
