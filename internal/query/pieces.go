package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// SmallRows is the estimated number of rows below which a query is passed through whole: one session reads as many
// in less than a few dozen milliseconds, and pieces cost some five milliseconds.
const SmallRows = 50_000

// piecesPerSession is how many pieces each session gets on average: several, so that all sessions end at about the same time though
// estimates are wrong, and few, because each is a statement.
const piecesPerSession = 4

// Plan decides how a statement is answered in sessions with these settings. It is an error if the server refuses
// the statement.
func (r *Runner) Plan(ctx context.Context, statement string, st engine.State) (*Plan, error) {
	n := r.nodes[0]
	s, err := n.plain.get(ctx, st)
	if err != nil {
		return nil, fmt.Errorf("query: plan: %w", err)
	}
	var p *Plan
	err = engine.Guarded(func() (err error) {
		if p, err = r.plan(ctx, s.Session, statement, st); err == nil && len(p.Branches) == 0 {
			err = r.sample(ctx, s.Session, p)
		}
		return err
	})
	if perr := n.plain.put(ctx, s, err != nil); err == nil {
		err = perr
	}
	if err != nil {
		return nil, fmt.Errorf("query: plan: %w", err)
	}
	return p, nil
}

func (r *Runner) plan(ctx context.Context, s *engine.Session, statement string, st engine.State) (*Plan, error) {
	p, err := split(ctx, r.nodes[0].Reader, s, statement, st, r.o)
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

// choosePieces makes the pieces, or finds out why the statement is better run whole.
func (r *Runner) choosePieces(ctx context.Context, s *engine.Session, p *Plan) error {
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
	if p.Pieces = pieces; len(pieces) > 0 {
		return nil
	}
	if p.Whole = r.refusal(p); p.Whole != "" {
		return nil
	}
	sessions := r.parallel(r.nodes[0].Reader)
	if len(p.Table.Parts) == 0 {
		p.Pieces, err = r.ranges(ctx, s, p, sessions*piecesPerSession)
	} else {
		if err := r.useRollups(ctx, s, p); err != nil {
			return err
		}
		if len(p.Rollups) > 0 {
			return nil
		}
		most := sessions * piecesPerSession
		if p.Table.Rewritten { // only a piece of one server may be passed on
			most = len(p.Parts)
		}
		p.Pieces = groupParts(p.Table, p.Parts, most)
	}
	if err == nil && p.Whole == "" && len(p.Pieces) < 2 && !((r.o.Always || p.Table.Remote) && len(p.Pieces) == 1) {
		p.Whole = "there is only one piece"
	}
	return err
}

// estimated reports whether the server has an estimate of the rows of some partition that is read.
func (r *Runner) estimated(p *Plan) bool {
	return len(p.Parts) == 0 || slices.ContainsFunc(p.Table.Parts, func(part engine.TablePart) bool { return part.Rows >= 0 && slices.Contains(p.Parts, part.Name) })
}

// countFew counts the rows of a table of which the server has no estimate, if they are less than SmallRows.
func (r *Runner) countFew(ctx context.Context, s *engine.Session, p *Plan) error {
	n := r.nodes[0]
	if r.o.Always || !n.Capabilities().PeriodTables || len(p.Table.Parts) == 0 {
		return nil
	}
	return s.Text(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) AS few", n.Dialect().Quote(p.Table.Name), SmallRows), nil, func(v [][]byte) error {
		rows, err := strconv.ParseInt(string(v[0]), 10, 64)
		if rows < SmallRows {
			p.EstimatedRows = rows
		}
		return err
	})
}

// refusal returns why a query that can be split is nevertheless better, or necessarily, run whole; "" if not.
func (r *Runner) refusal(p *Plan) string {
	switch {
	case len(p.Table.Parts) == 0 && !r.o.ByRange:
		return "table " + p.Table.Name + " has no partitions"
	case len(p.Table.Parts) > 0 && len(p.Parts) == 0:
		return "no partition is left to be read"
	case r.o.Always || p.Table.Remote: // the head is not trusted with the whole
		return ""
	case len(p.Table.Parts) > 0 && len(p.Parts) == 1:
		return "only one partition is read: " + p.Parts[0]
	case p.EstimatedRows >= 0 && p.EstimatedRows < SmallRows:
		return fmt.Sprintf("it reads only about %d rows", p.EstimatedRows)
	case p.Parallel > 1 && p.Parallel >= r.parallel(r.nodes[0].Reader):
		return fmt.Sprintf("the server itself uses %d processes for it", p.Parallel)
	}
	return ""
}

// groupParts makes at most most pieces of partitions that are adjacent, with about the same estimated number of rows.
func groupParts(t *engine.TableParts, parts []string, most int) []Piece {
	rows := map[string]int64{}
	for _, p := range t.Parts {
		rows[p.Name] = p.Rows
	}
	weights := make([]int64, len(parts))
	var total int64
	for i, name := range parts {
		weights[i] = 1 + max(0, rows[name]) // an empty partition costs something, too
		total += weights[i]
	}
	var out []Piece
	var sum, before int64
	for i, name := range parts {
		// A piece ends where the sum of all until then passes a multiple of the average.
		if n := int64(len(out)); i == 0 || before+weights[i]/2 >= n*total/int64(most) && len(out) < most {
			out = append(out, Piece{})
		}
		at := &out[len(out)-1]
		at.Parts = append(at.Parts, name)
		sum += weights[i]
		before = sum
		if rows[name] < 0 || at.Rows < 0 {
			at.Rows = -1
		} else {
			at.Rows += rows[name]
		}
	}
	return out
}

// fewRows reports whether pieces read less than SmallRows rows of the table: so few that one session reads them as fast as several begin.
func fewRows(pieces []Piece) bool {
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
	return rows < SmallRows
}
