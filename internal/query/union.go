package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// planBranches makes the pieces of a set operation. A branch that can't be split, or isn't worth
// splitting, is one piece.
func (r *Runner) planBranches(ctx context.Context, s *engine.Session, p *plan.Plan) error {
	if len(r.nodes) > 1 {
		p.Whole = "it has a set operation, and a table on several servers"
		return nil
	}
	split, why := false, ""
	p.EstimatedRows = 0
	for i := range p.Branches {
		b := p.Branches[i].Plan
		if b.Whole == "" {
			if err := r.choosePieces(ctx, s, b); err != nil {
				return err
			}
		}
		if b.Whole == "" {
			if err := r.sample(ctx, s, b); err != nil {
				return err
			}
		}
		if split = split || b.Whole == ""; b.Whole != "" {
			why = cmp.Or(why, b.Whole)
			if b.Certain == "" {
				p.Whole = b.Uncertain(i)
				return nil
			}
			b.Why = b.Whole
			b.RunWhole()
		} else {
			b.Why = ""
		}
		if p.EstimatedRows += b.EstimatedRows; b.EstimatedRows < 0 {
			p.EstimatedRows = -1 << 40
		}
		p.Parallel = max(p.Parallel, b.Parallel)
		p.Pieces = append(p.Pieces, b.Pieces...)
	}
	p.EstimatedRows = max(p.EstimatedRows, -1)
	if !split {
		p.Whole = why
	}
	return nil
}

// branch returns an execution of one branch of the set operation, with the sessions and the
// snapshot of x. first is the index in x of the branch's first piece.
func (x *execution) branch(p *plan.Plan, first int) *execution {
	y := &execution{ctx: x.ctx, cancel: x.cancel, r: x.r, p: p, state: x.state, report: x.report, begun: x.begun, all: x, first: first}
	run := nodeRun{node: x.runs[0].node, sessions: x.runs[0].sessions}
	run.sessions = run.sessions[:min(len(run.sessions), len(p.Pieces))]
	for i := range p.Pieces {
		run.pieces = append(run.pieces, i)
	}
	if p.Merge.Kind != plan.Concatenate {
		longestFirst(run.pieces, p.Pieces)
	}
	y.runs = []nodeRun{run}
	return y
}

// union answers a set operation: one branch after the other, each in its pieces.
func (x *execution) union(sink Sink) (err error) {
	if x.p.Merge.Kind == plan.OnServer {
		return x.unionOnServer(sink)
	}
	// A merge of groups may find only at its end that SQL doesn't determine the answer; the query then
	// runs whole. Branches with groups are therefore computed first and held in memory, before any row
	// is passed on.
	held := make([]*kept, len(x.p.Branches))
	branches := x.eachBranch()
	for i, y := range branches {
		if y.p.Merge.Kind == plan.Concatenate {
			continue
		}
		held[i] = &kept{most: x.r.memory() / 4 / int64(len(branches))}
		if err := y.answer(held[i]); err != nil {
			if held[i].size > held[i].most {
				return merge.Inexact("the answers of its branches don't fit in memory")
			}
			return err
		}
	}
	out := &oneHead{Sink: sink, cols: x.p.Columns}
	values := make([][]byte, len(x.p.Columns))
	for i, y := range branches {
		if held[i] == nil {
			if err := y.answer(out); err != nil {
				return err
			}
			continue
		}
		if err := out.Columns(nil); err != nil {
			return err
		}
		for _, row := range held[i].rows {
			merge.NextRow(row, values)
			if err := sink.Row(values); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *execution) eachBranch() (list []*execution) {
	first := 0
	for i := range x.p.Branches {
		p := x.p.Branches[i].Plan
		list = append(list, x.branch(p, first))
		first += len(p.Pieces)
	}
	return list
}

// A oneHead is a Sink that passes the columns on only the first time.
type oneHead struct {
	Sink
	cols []engine.ResultColumn
	done bool
}

func (h *oneHead) Columns([]engine.ResultColumn) error {
	if h.done {
		return nil
	}
	h.done = true
	return h.Sink.Columns(h.cols)
}

// branchTables opens a session, and creates in it a temporary table for each branch whose answer is
// stored on the server. tables has nil for the other branches.
func (x *execution) branchTables() (_ *gather, tables []*engine.TempTable, err error) {
	reader := x.r.nodes[0].Reader
	g := &gather{x: x, state: reader.MergeState(x.state)}
	if g.s, err = reader.ReadSession(x.ctx, g.state); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(x.unmerged("create temporary tables", err), g.s.Close())
		}
	}()
	tables = make([]*engine.TempTable, len(x.p.Branches))
	for i, b := range x.p.Branches {
		if b.Table == "" {
			continue
		}
		var cols []engine.ResultColumn
		for _, k := range b.Stored {
			cols = append(cols, b.Columns[k])
		}
		if tables[i], err = reader.TempTable(x.ctx, g.s, b.Table, b.Make, cols); err != nil {
			return nil, nil, err
		}
	}
	return g, tables, x.sameCollations(g)
}

// sameCollations makes the query run whole if the server would compare texts in the temporary
// tables by other collations than in the branches. A text of a branch may be an expression. In a
// temporary table it is a column, whose collation takes precedence over that of an expression.
func (x *execution) sameCollations(g *gather) error {
	if !slices.ContainsFunc(x.p.Columns, isText) {
		return nil
	}
	reader := x.r.nodes[0].Reader
	want, err := reader.Collations(x.ctx, g.s, strings.TrimRight(x.p.Text, "; \t\r\n"))
	if err != nil {
		return err
	}
	got, err := reader.Collations(x.ctx, g.s, x.p.Merge.Final)
	if err != nil {
		return err
	}
	for i, c := range x.p.Columns {
		if i < len(want) && isText(c) && (i >= len(got) || got[i] != want[i]) {
			return merge.Inexact("texts of column " + c.Name + " would be compared by another collation")
		}
	}
	return nil
}

// unionOnServer stores the answers of the branches in temporary tables, from which the server
// computes the answer.
func (x *execution) unionOnServer(sink Sink) (err error) {
	g, tables, err := x.branchTables()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for i, y := range x.eachBranch() {
		if tables[i] == nil {
			continue
		}
		to := &stored{x: x, table: tables[i], columns: x.p.Branches[i].Stored}
		if err := y.answer(to); err != nil {
			return err
		}
		if err := to.flush(); err != nil {
			return err
		}
	}
	x.report.Server = true
	return g.final(sink)
}

// A stored is a Sink that inserts some columns into a temporary table.
type stored struct {
	x       *execution
	table   *engine.TempTable
	columns []int
	values  [][]byte
	rows    []byte
}

func (t *stored) Columns([]engine.ResultColumn) error { return nil }

func (t *stored) Row(values [][]byte) (err error) {
	t.values = t.values[:0]
	for _, i := range t.columns {
		t.values = append(t.values, values[i])
	}
	full := false
	if t.rows, full, err = appendTo(t.table, t.rows, t.values); err != nil || !full {
		return err
	}
	return t.flush()
}

func (t *stored) flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	err := t.table.Insert(t.x.ctx, t.rows)
	t.rows = t.rows[:0]
	if err != nil {
		return t.x.unmerged("insert the rows of a branch", err)
	}
	return nil
}
