package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
)

// A Batch is a batch of a source that is sent.
type Batch struct {
	*format.Batch
	held int64 // the bytes reserved for it in Pool.ahead
	// Noted means that the batch is in the ledger: none of its rows are sent, but rows to publish are
	// collected. Single means that only the rows of publications in state.Single are sent.
	Noted, Single bool
	// taken has the indexes of the publications whose rows of this batch are collected.
	taken []int
	// Sent are the extents of its rows that a dry run has checked.
	Sent []state.Extent
	// Unkept is the number of its rejected rows that the file of bad rows has no room for.
	Unkept int64
}

// A sender commits batches, one after the other, on its own connection.
type sender struct {
	*Load  // the load of the current batch
	loader engine.Loader
	// parsers has a parser for each of the last targets; parser is the current batch's parser.
	parsers map[*format.Target]*format.Parser
	parser  *format.Parser
	// collector, unless nil, takes the rows that are published.
	collector *Collector
	// expired counts the rows of the batch that are rejected because they have passed retention.
	expired int64
	// repeated reports that the last batch had to be sent more than once.
	repeated bool
}

// maxParsers limits the parsers of a sender, each of which has the memory of a batch.
const maxParsers = 4

func (s *sender) parse(b *Batch) *format.Parser {
	p := s.parsers[b.Target]
	if p == nil {
		if len(s.parsers) >= maxParsers || s.parsers == nil {
			s.parsers = map[*format.Target]*format.Parser{}
		}
		p = format.NewParser(b.Target)
		s.parsers[b.Target] = p
	}
	s.parser = p
	p.Parse(b.Batch)
	return p
}

// close closes the connection; the next batch opens another.
func (s *sender) close() error {
	if s.loader == nil {
		return nil
	}
	loader := s.loader
	s.loader = nil
	return loader.Close()
}

var errDone = errors.New("the batch is in the ledger")

// errOverlap reports that some of the batches that were joined are in the ledger.
var errOverlap = errors.New("some of the merged batches are in the ledger")

// send commits a batch with its line of the ledger, and returns that line; with Dry it only checks
// the batch. If the batch was joined from several, and some of these are already committed, send
// sends each of them on its own.
func (s *sender) send(ctx context.Context, b *Batch) (state.Batch, error) {
	out, err := s.sendOnce(ctx, b)
	if !errors.Is(err, errOverlap) {
		return out, err
	}
	out.Counts, b.Unkept = state.Counts{}, 0
	for _, part := range b.Split() {
		one := &Batch{Batch: part}
		noted, err := s.sendOnce(ctx, one)
		if err != nil {
			return out, err
		}
		out.Add(noted.Counts)
		b.Unkept += one.Unkept
	}
	return out, nil
}

func (s *sender) sendOnce(ctx context.Context, b *Batch) (state.Batch, error) {
	ids := b.IDs(s.Source.Key)
	if b.Single {
		ids[0] += SecondLine
	}
	out := state.Batch{Table: s.Opt.Table.Name, ID: ids[0], Also: ids[1:]}
	if s.Opt.Dry {
		err := s.check(ctx, b, &out)
		s.reasons.reject(s.Source.Path, s.parser.Rejected)
		return out, err
	}
	began := false
	s.repeated = false
	err := s.Retry(ctx, func() error {
		if began {
			s.repeated = true
			_ = s.reset(ctx) // if no connection can be opened, the attempt reports it
		}
		began = true
		err := s.commit(ctx, b, &out)
		if errors.Is(err, errCompare) {
			s.dontCompare(err)
		}
		if errors.Is(err, errCompare) || errors.Is(err, errDropped) {
			if err = s.reset(ctx); err == nil {
				err = s.commit(ctx, b, &out)
			}
		}
		if errors.Is(err, errDone) || errors.Is(err, engine.ErrConnectionLost) {
			// The connection may have broken after the commit.
			noted, lookErr := s.State.NotedWith(ctx, out.Table, ids)
			switch {
			case lookErr != nil:
				err = errors.Join(err, lookErr)
			case len(noted) == len(ids):
				out = noted[ids[0]]
				for _, id := range ids[1:] {
					out.Add(noted[id].Counts)
				}
				_ = s.reset(ctx) // the batch is committed; a lasting failure surfaces with the next batch
				return nil
			case len(noted) > 0:
				return errors.Join(errOverlap, s.reset(ctx))
			case errors.Is(err, errDone):
				err = errors.Join(errors.New("its line of the ledger was refused and is missing"), err)
			}
		} else if err != nil && !Transient(err) {
			err = errors.Join(err, s.reset(ctx))
		}
		var many *TooManyError
		if errors.As(err, &many) { // the user must see what is wrong with the rejected rows
			s.stopped.Add(int64(len(s.parser.Rejected)))
			s.reasons.reject(s.Source.Path, s.parser.Rejected)
			err = errors.Join(err, s.reject(s.parser.Rejected, b))
		}
		if err != nil {
			err = fmt.Errorf("%ss %d to %d: %w", s.Unit, b.Line, b.Line+b.Lines-1, err)
		}
		return err
	})
	if err != nil {
		return out, fmt.Errorf("%s, %w", s.Source.Path, err)
	}
	if out.Rejected > 0 {
		s.reasons.reject(s.Source.Path, s.parser.Rejected)
	}
	return out, nil
}

func (s *sender) check(ctx context.Context, b *Batch, out *state.Batch) error {
	p := s.parse(b)
	ranges, err := s.periods.check(ctx, s, p)
	if err != nil {
		return err
	}
	b.Sent = ranges
	if err := s.reject(p.Rejected, b); err != nil {
		return err
	}
	s.tooOld.Add(s.expired)
	out.Counts = state.Counts{Sent: p.Rows, Inserted: int64(p.Batch.Rows()), Rejected: int64(len(p.Rejected))}
	return s.enough(p.Rejected)
}

// reset makes the connection usable after an error.
func (s *sender) reset(ctx context.Context) error {
	if s.loader == nil {
		return nil
	}
	return s.loader.Reset(ctx)
}

func (s *sender) commit(ctx context.Context, b *Batch, out *state.Batch) error {
	p := s.parse(b)
	ranges, err := s.divide(ctx, b, p)
	if err != nil || s.collector != nil && p.Rows == 0 {
		return err // none of its rows is left to send
	}
	if err := s.enough(p.Rejected); err != nil {
		return err
	}
	if s.loader == nil {
		if s.loader, err = s.Opt.DB.Loader(ctx); err != nil {
			return err
		}
	}
	if err := s.loader.Begin(ctx); err != nil {
		return err
	}
	sent := int64(p.Batch.Rows())
	var ack engine.Ack
	var skipping []skipped
	for _, part := range p.Parts() {
		more, err := s.insert(ctx, b, part, 0, part.Batch.Rows())
		if err != nil {
			return err
		}
		if ack = sum(ack, more); more.Skipped > 0 {
			skipping = append(skipping, skipped{part, more.Skipped})
		}
	}
	rejected := int64(len(p.Rejected))
	if refused := rejected - (p.Rows - sent); ack.Rows+ack.Updated+ack.Skipped+refused != sent {
		return fmt.Errorf("%s sent; the server took %d, updated %d, had %d and refused %d: the numbers don't add up, and nothing was committed",
			figure.Plural(sent, "row was", "rows were"), ack.Rows, ack.Updated, ack.Skipped, refused)
	}
	out.Counts = state.Counts{Sent: p.Rows, Inserted: ack.Rows, Updated: ack.Updated, Duplicate: ack.Skipped, Rejected: rejected}
	listed, compared := slices.Clip(p.Rejected), int64(0) // appending copies p.Rejected, since reject sorts listed
	if rejected == p.Rows-sent {
		// The server has refused no row; a refused one might make the comparison fail.
		for _, sk := range skipping {
			list, done, err := s.compare(ctx, sk.part, sk.rows, &out.Counts)
			if err != nil {
				return err
			}
			if done {
				compared += sk.rows
			}
			listed = append(listed, list...)
		}
	}
	there := ack.Updated + ack.Skipped
	out.Touched, out.Extents = nil, inserted(ranges, there, sent-ack.Rows-there)
	for _, r := range ranges {
		out.Touched = append(out.Touched, r.Period)
	}
	if n := len(ranges); n > 0 {
		out.Lower, out.Upper = ranges[0].From, ranges[n-1].To-1
	}
	if err := s.record(ctx, s.loader, out, ranges); err != nil {
		return err
	}
	if err := s.reject(listed, b); err != nil {
		return err
	}
	s.Opt.Reached("before commit")
	if err := s.loader.Commit(ctx); err != nil {
		return err
	}
	s.tooOld.Add(s.expired)
	s.notCompared.Add(out.Duplicate - compared)
	s.Opt.Reached("after commit")
	return nil
}

// record writes the batch's line of the ledger, and the notes of changed ranges for roll-ups, in
// the transaction that has inserted the rows. It returns errDropped, or errDone if the ledger
// already has the line.
func (l *Load) record(ctx context.Context, loader engine.Loader, out *state.Batch, ranges []state.Extent) error {
	rolled, err := l.periods.before(ctx, loader, l.Source, ranges)
	if err != nil {
		return err
	}
	for _, rows := range out.Rows(rolled) {
		if _, err := loader.Insert(ctx, rows.Table, rows.Batch, 0, rows.Batch.Rows()); errors.Is(err, engine.ErrDuplicateKey) {
			return fmt.Errorf("%w: %v", errDone, err) // drop err's class, which means that a row was refused
		} else if err != nil {
			return fmt.Errorf("record the batch: %w", err)
		}
	}
	return nil
}

// skipped describes a part of whose rows an insert has skipped some.
type skipped struct {
	part *format.Part
	rows int64 // how many
}

func (l *Load) dontCompare(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.comparing.off {
		l.Say("from now on they are only counted: %v", why)
	}
	l.comparing.off = true
}

// divide rejects the rows of a parsed batch that have no period, and passes the rows that are to be
// published to the collector. It returns the ranges of the rows that are left to send.
func (s *sender) divide(ctx context.Context, b *Batch, p *format.Parser) ([]state.Extent, error) {
	if s.collector == nil {
		return s.periods.check(ctx, s, p)
	}
	if b.Single {
		s.collector.only(b, p)
		return s.periods.check(ctx, s, p)
	}
	if err := s.collector.take(s, b, p); err != nil {
		return nil, err
	}
	if b.Noted {
		p.Rows = 0
		return nil, nil
	}
	ranges, err := s.periods.check(ctx, s, p)
	if err == nil {
		ranges, err = s.collector.route(ctx, s, b, p, ranges)
	}
	return ranges, err
}

// Forgotten adds a hint to state.ErrForgotten: what the user can do.
func Forgotten(err error) error {
	if !errors.Is(err, state.ErrForgotten) {
		return err
	}
	return engine.Hinted(err, "the same command, which loads all of the file into the new table")
}

// insert inserts rows of a part. If the server refuses some, insert bisects the rows until it has
// found and rejected the refused ones. All accepted rows are then in the transaction, each once.
func (s *sender) insert(ctx context.Context, b *Batch, part *format.Part, from, to int) (engine.Ack, error) {
	if from == to {
		return engine.Ack{}, nil
	}
	ack, err := s.loader.Insert(ctx, part.Table, part.Batch, from, to)
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
	return sum(first, second), err
}

func sum(a, b engine.Ack) engine.Ack {
	return engine.Ack{Rows: a.Rows + b.Rows, Updated: a.Updated + b.Updated, Skipped: a.Skipped + b.Skipped}
}

// one rejects a row that the server has refused. An insert that ignores duplicates may have given a
// wrong reason. So one inserts the row again, without ignoring duplicates, and the new result
// decides.
func (s *sender) one(ctx context.Context, b *Batch, part *format.Part, row int, err error) (engine.Ack, error) {
	p := s.parser
	if part.Table.Ignore || part.Table.Update {
		ack, plain := s.loader.Insert(ctx, part.Plain, part.Batch, row, row+1)
		switch {
		case plain == nil:
			return ack, nil
		case !errors.Is(plain, engine.ErrRefused):
			return ack, plain
		case !errors.Is(plain, engine.ErrDuplicateKey):
			err = plain
		}
	}
	p.Reject(p.Places[part.Place(row)], "", errors.New(strings.TrimPrefix(err.Error(), "insert into "+part.Table.Name+": ")))
	return engine.Ack{}, s.enough(p.Rejected)
}

// A TooManyError is returned if more rows are rejected than the options allow.
type TooManyError struct {
	Most int64
	// Path is the file of rejected rows.
	Path string
	// First is one of the rejected rows.
	First format.Rejected

	unit string
}

func (e *TooManyError) Error() string {
	what := ""
	if e.First.Column != "" {
		what = "column " + e.First.Column + ": "
	}
	return fmt.Sprintf("more than %s can't be loaded; %s %d: %s%s", figure.Plural(e.Most, "row", "rows"), e.unit, e.First.Line, what, e.First.Reason)
}
