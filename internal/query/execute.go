package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// longestFirst orders pieces by their estimated rows, so that no long piece begins last.
func longestFirst(order []int, pieces []plan.Piece) {
	slices.SortStableFunc(order, func(a, b int) int { return int(min(1, max(-1, pieces[b].Rows-pieces[a].Rows))) })
}

// sessions is the number of sessions of all servers.
func (x *execution) sessions() (n int) {
	for _, run := range x.runs {
		n += len(run.sessions)
	}
	return n
}

// run runs all pieces, with one worker for each session. It calls row for each row, and calls ended
// when a piece has ended, each with the numbers of the worker and of the piece. After the first
// error, it ends the other pieces on the server, waits for them, and returns that error.
func (x *execution) run(row func(worker, piece int, values [][]byte) error, ended func(worker, piece int) error) error {
	var wg sync.WaitGroup
	worker := 0
	for _, run := range x.runs {
		next := make(chan int, len(run.pieces))
		for _, piece := range run.pieces {
			next <- piece
		}
		close(next)
		for _, s := range run.sessions {
			w := worker
			worker++
			wg.Go(func() {
				for piece := range next {
					if x.ctx.Err() != nil {
						return
					}
					err := engine.Guarded(func() error { return x.piece(run.node, s, w, piece, row, ended) })
					if err != nil {
						x.cancel(err) // the first cause stays
						return
					}
				}
			})
		}
	}
	wg.Wait()
	return context.Cause(x.ctx)
}

func (x *execution) piece(n *node, s *session, worker, piece int, row func(worker, piece int, values [][]byte) error, ended func(worker, piece int) error) error {
	var rows int64
	columns, times := len(x.p.PartialColumns), x.storedTimes()
	if x.cached != nil {
		if _, ok := x.cached.rows[piece]; ok {
			err := x.cached.replay(piece, columns, func(values [][]byte) error { return row(worker, piece, values) })
			if err == nil {
				err = ended(worker, piece)
			}
			if err == nil {
				x.progress(piece, 0)
			}
			return err
		}
	}
	recorded := x.cached.record(piece)
	err := s.Text(x.ctx, x.p.PieceText(n.Reader, piece),
		func(cols []engine.ResultColumn) error {
			if columns > 0 && len(cols) != columns {
				return merge.Inexact(fmt.Sprintf("a piece has %d columns, and not %d", len(cols), columns)) // a star may omit invisible columns
			}
			return nil
		},
		func(values [][]byte) error {
			rows++
			for _, i := range times {
				if err := x.checkStored(i, values[i]); err != nil {
					return err
				}
			}
			recorded.row(values)
			return row(worker, piece, values)
		})
	if err == nil {
		if n := s.TextEnd().Warnings; n > 0 {
			x.mu.Lock()
			x.report.Warned += int64(n)
			x.mu.Unlock()
		} else {
			recorded.done() // a piece with warnings isn't cached, which would lose them
		}
		err = ended(worker, piece)
	}
	if err != nil {
		if _, ok := errors.AsType[*merge.InexactError](err); ok {
			return err
		}
		return fmt.Errorf("read %s: %w", x.p.PieceName(piece), err)
	}
	x.progress(piece, rows)
	return nil
}

// storedTimes are the columns of pieces that checkStored has to check: dates and years, if they may
// be stored in a temporary table.
func (x *execution) storedTimes() (list []int) {
	if x.p.Merge.Kind == plan.Concatenate && (x.all == nil || x.all.p.Merge.Kind == plan.Concatenate) {
		return nil
	}
	dates := x.r.nodes[0].Reader.Semantics(x.state).ZeroDates
	for i, c := range x.p.PartialColumns {
		if c.Temporal == engine.Year || dates && c.Temporal.Dated() {
			list = append(list, i)
		}
	}
	return list
}

// checkStored makes the query run whole if the server might change a value when it stores it in a
// temporary table. A date without a month or a day, such as 2024-06-00, may become 0000-00-00 or
// NULL. The text of a computed YEAR of zero is 0 or 0000, depending on the server's plan; a column
// would store 0 as 2000.
func (x *execution) checkStored(column int, text []byte) error {
	switch c := x.p.PartialColumns[column]; {
	case c.Temporal != engine.Year:
		if isZeroDate(text) {
			return merge.Inexact("it stores dates without a month or a day, which sql_mode refuses")
		}
	case string(text) == "0", string(text) == "0000" && !x.p.Merge.Rows && column >= x.p.Keys:
		return merge.Inexact("the text of a computed year of zero is up to the server")
	}
	return nil
}

// isZeroDate reports whether the text of a date has a month or a day of zero.
func isZeroDate(text []byte) bool {
	const form = "2006-01-02"
	return len(text) >= len(form) && (string(text[4:7]) == "-00" || string(text[7:10]) == "-00")
}

// progress counts a piece that is done.
func (x *execution) progress(piece int, rows int64) {
	if x.all != nil {
		x.all.progress(x.first+piece, rows)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved += rows
	x.report.Moved = x.moved
	x.done++
	x.rows += max(1, x.p.Pieces[piece].Rows)
	if x.r.o.Progress == nil {
		return
	}
	now := Progress{Done: x.done, Pieces: len(x.p.Pieces), Moved: x.moved, Took: time.Since(x.begun)}
	var all int64
	for _, p := range x.p.Pieces {
		all += max(1, p.Rows)
	}
	now.Left = time.Duration(float64(now.Took) * float64(all-x.rows) / float64(x.rows))
	x.r.o.Progress(now)
}

// concatenate passes the rows of the pieces to sink, in the order of the pieces.
func (x *execution) concatenate(sink Sink) error {
	q := merge.NewOrdered(len(x.p.Pieces), x.r.memory()/2)
	defer context.AfterFunc(x.ctx, func() { q.Fail(context.Cause(x.ctx)) })()
	blocks := make([][]byte, x.sessions())
	columns := len(x.p.PartialColumns)
	ran := make(chan error, 1)
	go func() {
		err := x.run(
			func(worker, piece int, values [][]byte) (err error) {
				if len(values) != columns {
					return fmt.Errorf("the piece has %d columns, and not %d", len(values), columns)
				}
				b := merge.AppendRow(blocks[worker], values)
				if len(b) >= merge.BlockSize {
					b, err = q.Put(piece, b)
				}
				blocks[worker] = b
				return err
			},
			func(worker, piece int) (err error) {
				if len(blocks[worker]) > 0 {
					if blocks[worker], err = q.Put(piece, blocks[worker]); err != nil {
						return err
					}
				}
				q.Finish(piece)
				return nil
			})
		ran <- err
	}()
	err := engine.Guarded(func() error { return x.pass(q, sink, columns) })
	if err != nil {
		x.cancel(err)
	}
	if ranErr := <-ran; ranErr != nil {
		return ranErr
	}
	return err
}

// pass passes rows to sink.
func (x *execution) pass(q *merge.Ordered, sink Sink, columns int) error {
	block, err := q.Next(nil) // before the columns: the first pieces may fail
	if err != nil {
		return err
	}
	if err := sink.Columns(x.p.Columns); err != nil {
		return err
	}
	row := make([][]byte, columns)
	for block != nil {
		for b := block; len(b) > 0; {
			b = merge.NextRow(b, row)
			if err := sink.Row(row); err != nil {
				return err
			}
		}
		if block, err = q.Next(block); err != nil {
			return err
		}
	}
	return nil
}
