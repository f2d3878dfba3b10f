package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// rangesPerSession is how many ranges of a primary key each session gets on average: several, so
// that all sessions end at about the same time even if estimates are wrong, but few, because each
// range is a statement.
const rangesPerSession = 4

// Plan decides how a statement is answered in sessions with the settings st. It returns an error if
// the server refuses the statement.
func (r *Runner) Plan(ctx context.Context, statement string, st engine.State) (*plan.Plan, error) {
	n := r.nodes[0]
	s, err := n.plain.get(ctx, st)
	if err != nil {
		return nil, fmt.Errorf("query: plan: %w", err)
	}
	var p *plan.Plan
	err = engine.Guarded(func() (err error) {
		if p, err = r.plan(ctx, s.Session, statement, st); err == nil && len(p.Branches) == 0 {
			err = r.sample(ctx, s.Session, p)
		}
		return err
	})
	if perr := n.plain.put(ctx, s); err == nil {
		err = perr
	}
	if err != nil {
		return nil, fmt.Errorf("query: plan: %w", err)
	}
	return p, nil
}

func (r *Runner) plan(ctx context.Context, s *engine.Session, statement string, st engine.State) (*plan.Plan, error) {
	p, err := plan.Split(ctx, plan.SessionFacts(r.nodes[0].Reader, s), statement, st, plan.Options{Always: r.o.Always, ByRange: r.o.ByRange, Inexact: r.o.Inexact}, r.soonRefused)
	if err != nil {
		return nil, err
	}
	p.Text, p.State = statement, st
	switch {
	case p.Whole != "":
		return p, nil
	case len(p.Branches) > 0:
		if p.Whole, err = r.fetched(ctx, s, p); err == nil && p.Whole == "" {
			err = r.planBranches(ctx, s, p)
		}
		return p, err
	}
	if err = r.choosePieces(ctx, s, p); err == nil && p.Whole == "" {
		err = r.fetch(ctx, s, p)
	}
	return p, err
}

// choosePieces makes the pieces, or sets p.Whole if it is better to run the statement whole.
func (r *Runner) choosePieces(ctx context.Context, s *engine.Session, p *plan.Plan) error {
	if !r.estimated(p) {
		p.EstimatedRows = -1
		if err := r.countFew(ctx, s, p); err != nil {
			return err
		}
	}
	pieces, why, err := r.shards(ctx, p)
	if err != nil {
		return err
	}
	p.Through = why
	if p.Pieces = pieces; len(pieces) > 0 || p.Whole != "" {
		return nil
	}
	if p.Whole = r.refusal(p); p.Whole != "" {
		return nil
	}
	sessions := r.parallel(r.nodes[0].Reader)
	if len(p.Table.Parts) == 0 {
		p.Pieces, err = r.ranges(ctx, s, p, sessions*rangesPerSession)
	} else {
		if err := r.useRollups(ctx, s, p); err != nil {
			return err
		}
		if len(p.Rollups) > 0 {
			return nil
		}
		if p.Table.Rewritten { // the head may pass on a piece only if its rows are on one server
			rows := partRows(p.Table)
			for i := range p.Parts {
				p.Pieces = append(p.Pieces, joinParts(rows, p.Parts[i:i+1]))
			}
		} else {
			p.Pieces = groupParts(p.Table, p.Parts, sessions)
		}
	}
	if err == nil && p.Whole == "" && len(p.Pieces) < 2 && !((r.o.Always || p.Table.Remote) && len(p.Pieces) == 1) {
		p.Whole = "there is only one piece"
	}
	return err
}

// estimated reports whether the server has an estimate of the rows of some partition that is read.
func (r *Runner) estimated(p *plan.Plan) bool {
	return len(p.Parts) == 0 || slices.ContainsFunc(p.Table.Parts, func(part engine.TablePart) bool { return part.Rows >= 0 && slices.Contains(p.Parts, part.Name) })
}

// countFew counts the rows of a table up to SmallRows, if the server has no estimate of them.
func (r *Runner) countFew(ctx context.Context, s *engine.Session, p *plan.Plan) error {
	n := r.nodes[0]
	if r.o.Always || !n.Capabilities().PeriodTables || len(p.Table.Parts) == 0 {
		return nil
	}
	return s.Text(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) AS few", n.Dialect().Quote(p.Table.Name), plan.SmallRows), nil, func(v [][]byte) error {
		rows, err := strconv.ParseInt(string(v[0]), 10, 64)
		if rows < plan.SmallRows {
			p.EstimatedRows = rows
		}
		return err
	})
}

// soonRefused returns what refusal returns, or "" if that depends on facts which the planner
// doesn't know yet. The planner calls soonRefused before it asks the server for more facts. So
// small queries, of which rowmill serve plans many, are planned at little cost.
func (r *Runner) soonRefused(p *plan.Plan) string {
	if len(r.nodes) > 1 || !r.estimated(p) {
		return ""
	}
	return r.refusal(p)
}

// refusal returns why a query is run whole although it could be split: pieces wouldn't be faster,
// or there are none. It returns "" if the query is to be split.
func (r *Runner) refusal(p *plan.Plan) string {
	switch {
	case len(p.Table.Parts) == 0 && !r.o.ByRange:
		return "table " + p.Table.Name + " has no partitions"
	case len(p.Table.Parts) > 0 && len(p.Parts) == 0:
		return "no partition is left to be read"
	case r.o.Always || p.Table.Remote: // the head may answer the whole query wrongly
		return ""
	case len(p.Table.Parts) > 0 && len(p.Parts) == 1:
		return "only one partition is read: " + p.Parts[0]
	case p.EstimatedRows >= 0 && p.EstimatedRows < plan.SmallRows:
		return fmt.Sprintf("it reads only about %d rows", p.EstimatedRows)
	case p.Parallel > 1 && p.Parallel >= r.parallel(r.nodes[0].Reader):
		return fmt.Sprintf("the server itself uses %d processes for it", p.Parallel)
	}
	return ""
}

// groupParts makes pieces of adjacent partitions for n sessions, each of which takes one piece
// after the other. Pieces become smaller towards the end, so that all sessions end at about the
// same time even if estimates are wrong or cores differ in speed. A piece has 1/(1.5n) of the
// estimated rows that are left, and at least 1/(16n) of all rows: guided self-scheduling
// (Polychronopoulos and Kuck, IEEE Transactions on Computers C-36, 1987).
func groupParts(t *engine.TableParts, parts []string, n int) (out []plan.Piece) {
	rows := partRows(t)
	weight := func(name string) int64 { return 1 + max(0, rows[name]) } // even an empty partition takes time
	var total, sum int64
	for _, name := range parts {
		total += weight(name)
	}
	from, left, sessions := 0, total, int64(n)
	for i, name := range parts {
		w := weight(name)
		if twice := 2*sum + w; i > from && 3*sessions*twice >= 4*left && 8*sessions*twice >= total {
			out = append(out, joinParts(rows, parts[from:i]))
			left -= sum
			from, sum = i, 0
		}
		sum += w
	}
	if len(parts) > 0 {
		out = append(out, joinParts(rows, parts[from:]))
	}
	return out
}

// joinParts makes one piece of partitions. rows has their estimated numbers of rows.
func joinParts(rows map[string]int64, parts []string) plan.Piece {
	p := plan.Piece{Parts: slices.Clip(parts)}
	for _, name := range parts {
		if p.Rows += rows[name]; rows[name] < 0 {
			p.Rows = -1
			break
		}
	}
	return p
}

// partRows are the estimated numbers of rows of a table's partitions, by name; -1 is unknown.
func partRows(t *engine.TableParts) map[string]int64 {
	rows := make(map[string]int64, len(t.Parts))
	for _, p := range t.Parts {
		rows[p.Name] = p.Rows
	}
	return rows
}

// fewRows reports whether pieces read less than SmallRows rows of the table. One session reads so
// few rows in the time that several sessions need to begin.
func fewRows(pieces []plan.Piece) bool {
	var rows int64
	for _, p := range pieces {
		switch {
		case p.Rollup != "":
		case p.Rows < 0:
			return false
		default:
			rows += p.Rows
		}
	}
	return rows < plan.SmallRows
}
