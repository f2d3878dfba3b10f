package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A sender commits batches, one after the other, on its own connection.
type sender struct {
	*load
	loader engine.Loader
	// parsers contains a parser for each target; parser is that of the current
	// batch.
	parsers map[*target]*parser
	parser  *parser
}

// parse reads the rows of a batch.
func (s *sender) parse(b *batch) *parser {
	p := s.parsers[b.target]
	if p == nil {
		p = newParser(b.target)
		s.parsers[b.target] = p
	}
	s.parser = p
	p.parse(b)
	return p
}

func (s *sender) close() error {
	if s.loader == nil {
		return nil
	}
	return s.loader.Close()
}

// errDone is returned if a batch is already in the ledger.
var errDone = errors.New("the batch is in the ledger")

// send commits a batch together with its line of the ledger, which it returns. It
// retries transient errors for as long as RetryFor allows.
func (s *sender) send(ctx context.Context, b *batch) (state.Batch, error) {
	out := state.Batch{Table: s.opt.Table.Name, ID: b.ID(s.source.Key)}
	fail := func(err error) (state.Batch, error) {
		return out, fmt.Errorf("%s, lines %d to %d: %w", s.source.Path, b.Line, b.Line+b.Lines-1, err)
	}
	began := time.Now()
	for try := 0; ; try++ {
		err := s.commit(ctx, b, &out)
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, errDone), errors.Is(err, engine.ErrConnectionLost):
			// The connection may have broken after the commit.
			if noted, lookErr := s.state.Noted(ctx, s.state.DB(), out.Table, out.ID); lookErr == nil && noted != nil {
				_ = s.reset(ctx) // the batch is committed; a lasting failure surfaces with the next batch
				return *noted, nil
			} else if lookErr == nil && errors.Is(err, errDone) {
				return fail(errors.Join(errors.New("its line of the ledger was refused and is missing"), err))
			}
		case !passes(err):
			return fail(errors.Join(err, s.reset(ctx)))
		}
		if ctx.Err() != nil {
			return fail(ctx.Err())
		}
		if time.Since(began) >= s.opt.RetryFor && s.opt.RetryFor >= 0 {
			return fail(err)
		}
		if try > 0 {
			s.waiting(fmt.Errorf("lines %d to %d: %w", b.Line, b.Line+b.Lines-1, err))
		}
		if err := engine.Sleep(ctx, engine.Backoff(firstPause, lastPause, try)); err != nil {
			return fail(err)
		}
		// If no connection can be opened, the next attempt reports it.
		_ = s.reset(ctx)
	}
}

// reset makes the connection usable after an error.
func (s *sender) reset(ctx context.Context) error {
	if s.loader == nil {
		return nil
	}
	return s.loader.Reset(ctx)
}

// commit makes one attempt to commit a batch.
func (s *sender) commit(ctx context.Context, b *batch, out *state.Batch) error {
	p := s.parse(b)
	ranges, err := s.periods.check(ctx, p, b.data, b.From)
	if err != nil {
		return err
	}
	b.sent = ranges
	if err := s.enough(p.rejected); err != nil {
		return err
	}
	if s.loader == nil {
		if s.loader, err = s.db.Loader(ctx); err != nil {
			return err
		}
	}
	if err := s.loader.Begin(ctx); err != nil {
		return err
	}
	sent := int64(p.batch.Rows())
	var ack engine.Ack
	for _, part := range p.parts() {
		more, err := s.insert(ctx, b, part, 0, part.batch.Rows())
		if err != nil {
			return err
		}
		ack.Rows, ack.Skipped = ack.Rows+more.Rows, ack.Skipped+more.Skipped
	}
	rejected := int64(len(p.rejected))
	if refused := rejected - (p.rows - sent); ack.Rows+ack.Skipped+refused != sent {
		return fmt.Errorf("%s sent; the server took %d, had %d and refused %d: the numbers don't add up, and nothing was committed",
			figure.Plural(sent, "row was", "rows were"), ack.Rows, ack.Skipped, refused)
	}
	out.Sent, out.Inserted, out.Duplicate, out.Rejected = p.rows, ack.Rows, ack.Skipped, rejected
	out.Touched, out.Extents = periodsOf(ranges), inserted(ranges, ack.Skipped, sent-ack.Rows-ack.Skipped)
	out.Lower, out.Upper = span(out.Touched)
	rolled, err := state.Before(ctx, s.loader, s.source)
	if err != nil {
		return forgotten(err)
	}
	for _, rows := range out.Rows(rolled) {
		if _, err := s.loader.Insert(ctx, rows.Table, rows.Batch, 0, rows.Batch.Rows()); errors.Is(err, engine.ErrDuplicateKey) {
			return fmt.Errorf("%w: %w", errDone, err)
		} else if err != nil {
			return fmt.Errorf("record the batch: %w", err)
		}
	}
	if err := s.reject(p.rejected, b); err != nil {
		return err
	}
	s.reached("before commit")
	if err := s.loader.Commit(ctx); err != nil {
		return err
	}
	s.reached("after commit")
	return nil
}

// forgotten adds a hint to the error for a source that is no longer recorded.
func forgotten(err error) error {
	if !errors.Is(err, state.ErrForgotten) {
		return err
	}
	return engine.Hinted(err, "the same command, which loads all of the file into the new table")
}

// insert inserts rows of a part of the parser's batch. If the server refuses
// some, the rows are bisected until the refused ones are found; these are
// rejected. The others are then in the transaction, each inserted once.
func (s *sender) insert(ctx context.Context, b *batch, part *part, from, to int) (engine.Ack, error) {
	if from == to {
		return engine.Ack{}, nil
	}
	ack, err := s.loader.Insert(ctx, part.table, part.batch, from, to)
	if err == nil || !errors.Is(err, engine.ErrRefused) {
		return ack, err
	}
	if to-from == 1 {
		return s.one(ctx, b, part, from, err)
	}
	middle := from + (to-from)/2
	first, err := s.insert(ctx, b, part, from, middle)
	if err != nil {
		return ack, err
	}
	second, err := s.insert(ctx, b, part, middle, to)
	return engine.Ack{Rows: first.Rows + second.Rows, Skipped: first.Skipped + second.Skipped}, err
}

// one rejects a row that the server has refused with err. If the insert ignores
// duplicates, err may be misleading: such an insert can turn a note into an
// error, and can hide the actual error among warnings. The row is therefore
// inserted again without ignoring duplicates, and that result decides.
func (s *sender) one(ctx context.Context, b *batch, part *part, row int, err error) (engine.Ack, error) {
	p := s.parser
	if part.table.Ignore {
		ack, plain := s.loader.Insert(ctx, part.plain, part.batch, row, row+1)
		switch {
		case plain == nil:
			return ack, nil
		case !errors.Is(plain, engine.ErrRefused):
			return ack, plain
		case !errors.Is(plain, engine.ErrDuplicateKey):
			err = plain
		}
	}
	p.reject(p.places[part.place(row)], b.From, b.data, "", errors.New(strings.TrimPrefix(err.Error(), "insert into "+p.table.Name+": ")))
	return engine.Ack{}, s.enough(p.rejected)
}

// span returns the first and the last position of ordered ranges.
func span(ranges []rolling.Period) (lower, upper int64) {
	if len(ranges) == 0 {
		return 0, 0
	}
	return ranges[0].From, ranges[len(ranges)-1].To - 1
}

// A TooManyError is returned if more rows are rejected than the options allow.
type TooManyError struct {
	Most int64
	// Path is the file of rejected rows.
	Path string
	// First is one of the rejected rows.
	First Rejected
}

func (e *TooManyError) Error() string {
	what := ""
	if e.First.Column != "" {
		what = "column " + e.First.Column + ": "
	}
	return fmt.Sprintf("more than %s can't be loaded; line %d: %s%s", figure.Plural(e.Most, "row", "rows"), e.First.Line, what, e.First.Reason)
}
