package query

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// A gather merges partial rows in temporary tables of the server. Its session isn't kept for other
// queries: the tables are removed when the session is closed.
type gather struct {
	x       *execution
	s       *engine.Session
	state   engine.State // of the session until the answer is read
	table   *engine.TempTable
	pending chan []byte
	done    chan error // the error of the goroutine that inserts
	free    sync.Pool
}

// insertSize is the size of one INSERT's rows in bytes: below every server's default limit for a
// statement.
const insertSize = 512 << 10

// gatherRows opens the session, creates the temporary tables for partial rows and for groups, and
// begins to insert. It creates both tables first, so that a missing privilege is noticed before any
// row is inserted. After most of its errors the query is run whole: see unmerged.
func (x *execution) gatherRows() (_ *gather, err error) {
	if x.p.Merge.Final == "" {
		return nil, merge.Inexact("the merge doesn't fit in memory, and the server can't do it")
	}
	reader := x.r.nodes[0].Reader
	g := &gather{x: x, state: reader.MergeState(x.state)}
	if g.s, err = reader.ReadSession(x.ctx, g.state); err != nil {
		return nil, err
	}
	err = engine.Guarded(func() (err error) {
		g.table, err = reader.TempTable(x.ctx, g.s, plan.PartialTable, x.p.HeadText(reader), x.p.PartialColumns)
		if err == nil && x.p.Merge.Groups != "" {
			_, err = reader.TempTable(x.ctx, g.s, plan.GroupTable, x.p.Merge.Typed, nil)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(x.unmerged("create temporary tables", err), g.s.Close())
	}
	x.report.Server = true
	g.pending, g.done = make(chan []byte, x.sessions()), make(chan error, 1)
	pending := g.pending // inserted may clear the field before the goroutine runs
	go func() {
		var failed error
		for rows := range pending {
			if failed == nil {
				failed = engine.Guarded(func() error { return g.table.Insert(x.ctx, rows) })
				if failed != nil {
					failed = x.unmerged("insert partial rows", failed)
					x.cancel(failed)
				}
			}
			rows = rows[:0]
			g.free.Put(&rows)
		}
		g.done <- failed
	}()
	return g, nil
}

// unmerged returns the error for err, which failed the merge on the server. The error makes the
// query run whole, unless the connection is lost, the query is canceled, or rowmill has a bug.
func (x *execution) unmerged(what string, err error) error {
	if isBug(err) || x.ctx.Err() != nil || errors.Is(err, engine.ErrConnectionLost) {
		return fmt.Errorf("merge on the server: %s: %w", what, err)
	}
	return merge.Inexact(fmt.Sprintf("merge on the server: %s: %v", what, err))
}

// A gatherer collects the rows of one worker into INSERTs.
type gatherer struct {
	g    *gather
	rows []byte
}

func (w *gatherer) row(values [][]byte) (err error) {
	full := false
	if w.rows, full, err = appendTo(w.g.table, w.rows, values); err != nil || !full {
		return err
	}
	return w.flush()
}

// appendTo appends a row to the rows of an INSERT, and reports whether the INSERT is full.
func appendTo(table *engine.TempTable, rows []byte, values [][]byte) (_ []byte, full bool, err error) {
	if rows, err = table.Append(rows, values); err != nil {
		return rows, false, merge.Inexact("merge on the server: " + err.Error())
	}
	return rows, len(rows) >= insertSize, nil
}

func (w *gatherer) flush() error {
	if len(w.rows) == 0 {
		return nil
	}
	select {
	case w.g.pending <- w.rows:
	case <-w.g.x.ctx.Done():
		return context.Cause(w.g.x.ctx)
	}
	w.rows = nil
	if b, ok := w.g.free.Get().(*[]byte); ok {
		w.rows = *b
	}
	return nil
}

// inserted waits until all rows are inserted.
func (g *gather) inserted() error {
	close(g.pending)
	g.pending = nil
	return <-g.done
}

// close ends the session, and with it the tables.
func (g *gather) close() error {
	var err error
	if g.pending != nil {
		err = g.inserted()
	}
	return errors.Join(err, g.s.Close())
}

// answer merges the rows and passes the answer to sink.
func (g *gather) answer(sink Sink) error {
	if err := g.inserted(); err != nil {
		return err
	}
	x, m := g.x, &g.x.p.Merge
	if m.Groups != "" {
		statement := "INSERT INTO " + x.r.nodes[0].Semantics(x.state).TempSchema + plan.GroupTable + " " + m.Groups
		if err := g.s.Text(x.ctx, statement, nil, func([][]byte) error { return nil }); err != nil {
			return x.unmerged("merge groups", err)
		}
		if n := g.s.TextEnd().Warnings; n > 0 {
			return merge.Inexact(fmt.Sprintf("merge on the server: merging groups gave %d warnings", n))
		}
	}
	return g.final(sink)
}

// final reads the answer from the tables.
func (g *gather) final(sink Sink) error {
	x, m := g.x, &g.x.p.Merge
	// The session still has the settings with which it began: without Knows, SetStates would set all
	// of them again, for which the account may lack a privilege.
	g.s.Knows(g.state)
	if err := g.s.SetStates(x.ctx, x.state); err != nil {
		return x.unmerged("set the session's settings", err)
	}
	for _, q := range m.Ties {
		tie := false
		if err := g.s.Text(x.ctx, q, nil, func([][]byte) error { tie = true; return nil }); err != nil {
			return x.unmerged("look for ties", err)
		}
		if tie {
			return merge.Inexact("SQL doesn't determine the answer: rows tie")
		}
	}
	want := x.p.Columns
	var own error // of sink
	begin := sync.OnceFunc(func() { own = sink.Columns(want) })
	err := g.s.Text(x.ctx, m.Final,
		func(cols []engine.ResultColumn) error {
			if len(cols) != len(want) {
				return merge.Inexact(fmt.Sprintf("merge on the server: it returns %d columns, and not %d", len(cols), len(want)))
			}
			for i, c := range cols {
				if !sameTexts(c, want[i]) {
					return merge.Inexact("merge on the server: column " + want[i].Name + " has type " + c.Native + ", and not " + want[i].Native)
				}
			}
			return nil
		},
		func(values [][]byte) error {
			// begin waits for the first row: until then, the query can still be run whole.
			if begin(); own == nil {
				own = sink.Row(values)
			}
			return own
		})
	if err == nil {
		begin()
		err = own
	}
	if err == nil || merge.IsInexact(err) || own != nil {
		return err
	}
	return x.unmerged("read the answer", err)
}

// isBug reports whether an error is a bug of rowmill: it is shown to the user, never worked around.
func isBug(err error) bool {
	_, ok := errors.AsType[*engine.Bug](err)
	return ok
}

// sameTexts reports whether equal values of two columns have the same text.
func sameTexts(a, b engine.ResultColumn) bool {
	switch {
	case a.Binary != b.Binary || a.Hex != b.Hex:
		return false
	case isText(a) && isText(b):
		return a.Scale == b.Scale // the digits of a second, of durations
	case a.Class == engine.ClassInt && b.Class == engine.ClassInt:
		return true
	}
	return a.Native == b.Native && a.Scale == b.Scale
}

// isText reports a column of characters.
func isText(c engine.ResultColumn) bool {
	return !c.Binary && (c.Class == engine.ClassText || c.Class == engine.ClassBytes)
}

// group merges the rows of the pieces, in memory as long as they fit, otherwise on the server.
func (x *execution) group(sink Sink) (err error) {
	workers := make([]groupingWorker, x.sessions())
	var g *gather
	var once sync.Mutex
	// The hash tables may use less than half of the memory: Go's garbage collector lets the heap
	// grow to twice of what is in use.
	m, err := merge.NewMemory(x.p, x.r.memory()*2/5/int64(len(workers)))
	if err != nil || x.p.Merge.Rows {
		if x.p.Merge.Final == "" {
			return err
		}
		m = nil // rows go to the server as they are
	}
	if x.p.Merge.Kind == plan.OnServer || m == nil {
		if g, err = x.gatherRows(); err != nil {
			return err
		}
	}
	defer func() {
		if g != nil {
			err = errors.Join(err, g.close())
		}
	}()
	open := func() (_ *gather, err error) {
		once.Lock()
		defer once.Unlock()
		if g == nil {
			g, err = x.gatherRows()
		}
		return g, err
	}
	spill := func(w *groupingWorker) (err error) {
		if w.out.g, err = open(); err != nil {
			return err
		}
		return w.groups.Spill(w.out.row)
	}
	for i := range workers {
		if m != nil {
			workers[i].groups = m.Worker()
		}
		workers[i].out.g = g
	}
	err = x.run(
		func(worker, _ int, values [][]byte) error {
			w := &workers[worker]
			if w.groups == nil {
				return w.out.row(values)
			}
			if err := w.groups.Row(values); err != nil {
				return err
			}
			if w.groups.Budget.Full() {
				return spill(w)
			}
			return nil
		},
		func(worker, _ int) error { return nil })
	if err != nil {
		return err
	}
	if g == nil {
		return x.inMemory(m, workers, sink)
	}
	for i := range workers {
		w := &workers[i]
		if w.groups != nil {
			if err := spill(w); err != nil {
				return err
			}
		}
		if err := w.out.flush(); err != nil {
			return err
		}
	}
	return g.answer(sink)
}

// A groupingWorker takes the rows of one session. It merges the rows into groups in memory, and
// passes the groups on to out when memory is full. If groups is nil, each row goes to out at once.
type groupingWorker struct {
	groups *merge.GroupWorker
	out    gatherer
}

func (x *execution) inMemory(m *merge.Memory, workers []groupingWorker, sink Sink) error {
	list := make([]*merge.GroupWorker, len(workers))
	for i := range workers {
		list[i] = workers[i].groups
	}
	if err := m.Finish(x.ctx, list); err != nil {
		return err
	}
	_, err := m.Answer(x.ctx, sink)
	return err
}
