package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/value"
)

// A segment is a part of the source that is read by itself: the whole table, or a period of a view.
type segment struct {
	at    int64 // the start of the period, which identifies the segment
	from  string
	where string
}

// A plan says how far a table is loaded. It is recorded with the source.
type plan struct {
	// Columns and Options are the columns and options with which the load began.
	Columns []string `json:"columns"`
	Options string   `json:"options"`
	// Ends has for each segment the key up to which it is loaded. Next is the next row's number.
	Ends map[int64][]string `json:"ends"`
	Next int64              `json:"next"`
	// Open are the planned chunks after Ends, in order. Some of them may be loaded.
	Open []*chunk `json:"open,omitempty"`
}

// A chunk is the rows of a segment after the key After, up to the key Last. Its rows have the
// numbers from From up to, but excluding, To, as counted when the chunk was planned.
type chunk struct {
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	Segment int64    `json:"segment"`
	After   []string `json:"after"`
	Last    []string `json:"last"`
}

// cut returns the chunk as a cut of the source, which identifies its batch.
func (c *chunk) cut() state.Cut {
	text, _ := json.Marshal(c) // contains only numbers and strings
	return state.Cut{From: c.From, To: c.To, Line: c.From + 1, Lines: c.To - c.From, Hash: format.HashOf(text)}
}

func (l *serverLoad) send(ctx context.Context) error {
	err := l.Run(ctx, false, func(ctx context.Context, out chan<- *lane.Batch) error {
		if l.keys == nil {
			return l.onePass(ctx, out)
		}
		return l.chunks(ctx, out)
	}, func(_ context.Context, b *lane.Batch, noted state.Batch) error {
		if l.keys != nil && l.records() {
			l.mu.Lock()
			l.done[b.Cut] = noted.Counts
			l.mu.Unlock()
		}
		l.Count(noted.Counts, int64(len(b.Data)))
		return nil
	})
	l.Result.Finished = err == nil
	return err
}

// planAhead is how many chunks are planned and recorded at a time for each reader.
const planAhead = 4

// wideBytes limits a chunk's bytes, in multiples of Options.Bytes; a wider one is divided.
const wideBytes = 4

// chunks produces the batches of the recorded chunks that were not sent, then of new chunks.
func (l *serverLoad) chunks(ctx context.Context, out chan<- *lane.Batch) error {
	readers := l.opt.Writers
	work := make(chan *chunk, readers*planAhead)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			r := &reader{snapshot: l.snapshot}
			for c := range work {
				if ctx.Err() != nil {
					continue // receive the rest, so that the planner doesn't block
				}
				if err := l.pass(ctx, r, c, out); err != nil {
					fail(err)
				}
			}
			if err := r.close(); err != nil && !lane.Transient(err) {
				fail(err)
			}
		})
	}
	err := l.planAll(ctx, work)
	close(work)
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// planAll passes on the recorded chunks that are not loaded, and then plans new ones.
func (l *serverLoad) planAll(ctx context.Context, work chan<- *chunk) error {
	l.mu.Lock()
	open := slices.Clone(l.plan.Open)
	ends, next := maps.Clone(l.plan.Ends), l.plan.Next
	loaded := maps.Clone(l.done)
	l.mu.Unlock()
	for _, c := range open {
		if _, is := loaded[c.cut()]; !is {
			work <- c
		}
		ends[c.Segment], next = c.Last, c.To
	}
	for i, s := range l.segments {
		var err error
		if next, err = l.planSegment(ctx, i, ends[s.at], next, work); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// planSegment plans the chunks of a segment after a key.
func (l *serverLoad) planSegment(ctx context.Context, i int, after []string, next int64, work chan<- *chunk) (int64, error) {
	s, x := l.segments[i], l.from.DB.SQL()
	until, err := lane.Retried(ctx, l.Load, func() ([]string, error) { return l.keys.Last(ctx, x, s.from, s.where) })
	if err != nil || until == nil {
		return next, err
	}
	begin, err := lane.Retried(ctx, l.Load, func() ([]string, error) { return l.keys.Nth(ctx, x, s.from, s.where, nil, until, 1) })
	if err != nil {
		return next, err
	}
	done := l.shareOf(i, begin, until, after)
	l.passed.Store(done)
	if l.sending.CompareAndSwap(0, int64(l.Elapsed())) {
		l.skipped.Store(done)
	}
	for size := 1; ; size = l.opt.Writers * planAhead {
		var group []*chunk
		for range size {
			n := l.rowsOfChunk()
			last, err := lane.Retried(ctx, l.Load, func() ([]string, error) { return l.keys.Nth(ctx, x, s.from, s.where, after, until, n) })
			if err != nil {
				return next, err
			}
			if last == nil {
				break
			}
			group = append(group, &chunk{From: next, To: next + int64(n), Segment: s.at, After: after, Last: last})
			after, next = last, next+int64(n)
		}
		if len(group) == 0 {
			return next, nil
		}
		if l.records() {
			if err := l.record(ctx, group, nil); err != nil {
				return next, lane.Forgotten(err)
			}
			l.opt.Reached("cuts noted")
		}
		for _, c := range group {
			work <- c
			if ctx.Err() != nil {
				return next, ctx.Err()
			}
		}
		l.passed.Store(l.shareOf(i, begin, until, after))
	}
}

// firstRows is the number of rows of chunks before the width of rows is known.
const firstRows = 500

// rowsOfChunk returns the number of rows of the next chunk, which is to have about Options.Bytes
// bytes, and has at most Options.Rows rows.
func (l *serverLoad) rowsOfChunk() int {
	rows, bytes := l.readRows.Load(), l.readBytes.Load()
	if rows == 0 {
		return min(firstRows, l.opt.Rows)
	}
	return max(min(l.opt.Rows, int(float64(l.opt.Bytes)*float64(rows)/float64(max(bytes, 1)))), 1)
}

// shareOf estimates the share of all rows that lies before the key at, in millionths. at is a key
// of segment i, whose keys range from begin to until, and are assumed to be spread evenly.
func (l *serverLoad) shareOf(i int, begin, until, at []string) int64 {
	number := func(key []string) (float64, bool) {
		if key == nil {
			return 0, false
		}
		switch text := []byte(key[0]); l.first.Kind {
		case value.Int, value.Decimal:
			x, err := value.ParseFloat(text, 64)
			return x, err == nil
		case value.Time:
			us, _, err := value.ParseTime(text, nil)
			return float64(us), err == nil
		}
		return 0, false
	}
	part := 0.0
	a, is := number(begin)
	b, is2 := number(until)
	if c, is3 := number(at); is && is2 && is3 && b > a {
		part = min(max((c-a)/(b-a), 0), 1)
	}
	return int64(1e6 * (float64(i) + part) / float64(len(l.segments)))
}

// pass reads a chunk and passes on its batch. A chunk that is too wide is divided.
func (l *serverLoad) pass(ctx context.Context, r *reader, c *chunk, out chan<- *lane.Batch) error {
	s := slices.IndexFunc(l.segments, func(s segment) bool { return s.at == c.Segment })
	if s < 0 {
		return engine.Hinted(fmt.Errorf("%s: the period of the source that begins at %s is gone, of which not all rows were loaded", l.Source.Path, l.opt.Table.Grid.Format(c.Segment)),
			"--again, which loads what there is")
	}
	seg := l.segments[s]
	where, args, err := l.keys.Range(c.After, c.Last)
	if err != nil {
		return err
	}
	if seg.where != "" {
		where = "(" + where + ") AND " + seg.where
	}
	query := "SELECT " + l.fetch.list + " FROM " + seg.from + " WHERE " + where
	var data []byte
	var rows int
	err = l.Retry(ctx, func() error {
		err := r.ready(ctx)
		if err == nil {
			data, rows, err = l.fetch.rows(ctx, r.session, wideBytes*l.opt.Bytes, query, args)
		}
		if err != nil {
			_ = r.close() // the next attempt has a connection of its own
		}
		return err
	})
	if errors.Is(err, errWide) {
		return l.divide(ctx, r, seg, c, rows, out)
	}
	if err != nil {
		return fmt.Errorf("read rows of %s: %w", l.Source.Path, err)
	}
	l.readRows.Add(int64(rows))
	l.readBytes.Add(int64(len(data)))
	b := &format.Batch{Cut: c.cut(), Data: data, Target: l.target, Rows: rows, Numbered: true}
	return l.give(ctx, &lane.Batch{Batch: b}, out)
}

func (l *serverLoad) give(ctx context.Context, b *lane.Batch, out chan<- *lane.Batch) error {
	if err := l.Hold(ctx, b); err != nil {
		return err
	}
	select {
	case out <- b:
		return nil
	case <-ctx.Done():
		l.Unhold(b)
		return ctx.Err()
	}
}

// divide replaces a chunk by two chunks, and passes on both. The first has at most rows rows.
func (l *serverLoad) divide(ctx context.Context, r *reader, s segment, c *chunk, rows int, out chan<- *lane.Batch) error {
	middle, err := lane.Retried(ctx, l.Load, func() ([]string, error) {
		return l.keys.Nth(ctx, l.from.DB.SQL(), s.from, s.where, c.After, c.Last, max(rows/2, 1))
	})
	if err != nil {
		return err
	}
	if middle == nil || slices.Equal(middle, c.Last) {
		return fmt.Errorf("%s: rows after the key %s can't be divided", l.Source.Path, strings.Join(c.After, ", "))
	}
	at := min(c.From+int64(max(rows/2, 1)), c.To)
	parts := []*chunk{{From: c.From, To: at, Segment: c.Segment, After: c.After, Last: middle},
		{From: at, To: c.To, Segment: c.Segment, After: middle, Last: c.Last}}
	if l.records() {
		if err := l.record(ctx, parts, c); err != nil {
			return lane.Forgotten(err)
		}
	}
	for _, part := range parts {
		if err := l.pass(ctx, r, part, out); err != nil {
			return err
		}
	}
	return nil
}

// onePass reads all rows with one query for each segment, and cuts them into batches.
func (l *serverLoad) onePass(ctx context.Context, out chan<- *lane.Batch) error {
	r := &reader{snapshot: l.snapshot}
	defer func() { _ = r.close() }() // nothing was written on it
	if err := l.Retry(ctx, func() error { return r.ready(ctx) }); err != nil {
		return err
	}
	l.sending.Store(int64(l.Elapsed()))
	var data, buf []byte
	rows, from := 0, int64(0)
	flush := func() error {
		if rows == 0 {
			return nil
		}
		b := &format.Batch{Cut: state.Cut{From: from, To: from + int64(rows), Line: from + 1, Lines: int64(rows), Hash: format.HashOf(data)},
			Data: data, Target: l.target, Rows: rows, Numbered: true}
		data, from, rows = nil, from+int64(rows), 0
		return l.give(ctx, &lane.Batch{Batch: b}, out)
	}
	for _, s := range l.segments {
		query := "SELECT " + l.fetch.list + " FROM " + s.from
		if s.where != "" {
			query += " WHERE " + s.where
		}
		err := r.session.Query(ctx, l.fetch.want, func(b *engine.Batch) error {
			for i := range b.Rows() {
				data, buf = l.fetch.record(data, b, i, buf)
				if rows++; rows >= l.opt.Rows || len(data) >= l.opt.Bytes {
					if err := flush(); err != nil {
						return err
					}
				}
			}
			return nil
		}, query)
		if err != nil {
			return fmt.Errorf("read rows of %s: %w", l.Source.Path, err)
		}
	}
	return flush()
}
