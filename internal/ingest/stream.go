package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/ingest/spool"
	"github.com/rowmill/rowmill/internal/state"
)

// Stream loads a source that can't be read twice, until the source or ctx ends. When it returns,
// all records that were read completely are in the table or, with a spool, at least in the spool.
// Without a spool, records that a killed load had read but not committed are lost.
//
// Records that are already in the spool are loaded first. With a nil r, only they are loaded.
func Stream(ctx context.Context, o Options, r io.Reader) (lane.Result, error) {
	l, err := newStreamLoad(&o)
	if err != nil {
		return lane.Result{}, err
	}
	if o.Format.Kind != "" {
		if err := o.Format.Validate(); err != nil {
			return l.Finish(err)
		}
	}
	if o.Format.Kind == format.Parquet {
		return l.Finish(format.ErrParquetStream)
	}
	if o.Spool != "" && !o.Dry {
		return l.Finish(l.throughSpool(ctx, r))
	}
	l.Source = &state.Source{Table: o.Table.Name, Path: cmp.Or(o.Name, "stdin"), Kind: state.StreamSource, Key: newKey()}
	return l.Finish(l.direct(ctx, r))
}

// A streamLoad is the load of a stream, directly or through a spool.
type streamLoad struct {
	*lane.Load
	opt  *Options
	dump *format.DumpReader // the dump that is read; nil if the stream is none
	gap  int64              // if the spool's first record follows a gap, the end of that gap; otherwise 0
}

func newStreamLoad(o *Options) (*streamLoad, error) {
	o.Flush = cmp.Or(o.Flush, DefaultFlush)
	common, err := lane.New(&o.Sending, o.pool)
	return &streamLoad{Load: common, opt: o}, err
}

// begin opens a stream, and sets the kind of its format if that isn't given.
func (l *streamLoad) begin(ctx context.Context, r io.Reader, f *format.Format) (*format.Input, error) {
	in, err := format.OpenStream(ctx, r, f.Encoding)
	if err != nil {
		return nil, err
	}
	if err = f.Detect(in, false); err == nil && f.Kind == format.Parquet {
		err = format.ErrParquetStream
	}
	if err == nil {
		err = l.opt.Unused(f.Kind)
	}
	if err == nil {
		err = f.Validate()
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if f.Kind == format.Dump {
		l.dump = in.ReadDump(format.NewDumpTable(&l.opt.Reading, f))
	}
	return in, nil
}

// saySkipped says what was skipped in a dump, once it is read to its end.
func (l *streamLoad) saySkipped(err error) {
	if err == nil && l.dump != nil {
		l.dump.SaySkipped(l.Say)
	}
}

func (l *streamLoad) direct(ctx context.Context, r io.Reader) (err error) {
	if !l.opt.Dry {
		if err := l.Tidy(ctx); err != nil {
			return err
		}
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	in, err := l.begin(reading, r, &l.opt.Format)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	c := format.NewCutter(reading, in, &l.opt.Format, l.opt.Rows, l.opt.Bytes, l.opt.Flush)
	defer func() { l.Lose(c.Abandon(stop)) }()
	t, err := l.TargetOf(ctx, c)
	if err != nil {
		return err
	}
	if t == nil {
		l.Say("%s is empty", l.Source.Path)
		l.Result.Finished = true
		return nil
	}
	if !l.opt.Dry {
		if err := l.Retry(ctx, func() error { return l.State.PutSource(ctx, l.State.DB(), l.Source) }); err != nil {
			return err
		}
	}
	err = l.Run(ctx, true, func(ctx context.Context, out chan<- *lane.Batch) error {
		defer func() { l.Result.Unfinished = c.Unfinished() }()
		return c.Each(ctx, stop, func(b *format.Batch) error {
			b.Target = t
			c.Rows = l.BatchRows() // safe here: this goroutine does the cutting
			// Senders free room even after ctx has ended.
			one := &lane.Batch{Batch: b}
			if err := l.Hold(context.WithoutCancel(ctx), one); err != nil {
				return err
			}
			out <- one
			return nil
		})
	}, func(_ context.Context, b *lane.Batch, noted state.Batch) error {
		l.Count(noted.Counts, b.To-b.From)
		return nil
	})
	l.Result.Finished = err == nil
	l.saySkipped(err)
	if l.opt.Dry {
		return err
	}
	// No later load continues this source, however this load has ended: it is finished.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lane.EndWait)
	defer cancel()
	s := l.Source
	s.Finished = true
	s.Loaded, s.Lines = c.At, c.Line-1
	s.Counts = l.Result.Counts
	return errors.Join(err, l.State.PutSource(last, l.State.DB(), s))
}

func (l *streamLoad) throughSpool(ctx context.Context, r io.Reader) (err error) {
	sp, found, err := spool.Open(spool.Options{Dir: l.opt.Spool, Budget: l.opt.SpoolBytes})
	if err != nil {
		return err
	}
	end := sp.End()
	l.Position = func(p *lane.Progress) {
		_, p.Waiting = sp.Size()
		p.Full = sp.Full()
	}
	defer func() { err = errors.Join(err, sp.Close()) }()
	l.sayFound(found)
	dir, err := filepath.Abs(l.opt.Spool)
	if err != nil {
		return err
	}
	l.Source = &state.Source{Table: l.opt.Table.Name, Path: cmp.Or(l.opt.Name, dir), Kind: state.SpoolSource, Key: sp.ID()}
	if err := l.findSpool(ctx, sp); err != nil {
		return err
	}
	// When the load is asked to end, records that were read are spooled, but for at most EndWait.
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	keeping, give := context.WithCancel(context.WithoutCancel(ctx))
	defer give()
	defer context.AfterFunc(reading, func() { time.AfterFunc(lane.EndWait, give) })()
	var appender sync.WaitGroup
	var readErr error
	if r == nil {
		sp.Finish()
	} else {
		appender.Go(func() {
			readErr = l.spoolUp(reading, keeping, sp, r)
			sp.Finish()
		})
	}
	done := &acknowledger{Load: l.Load, sp: sp, at: max(l.Source.Loaded, l.gap), done: map[int64]committed{}}
	// The timer acknowledges sent records, because a pending Append may need their room.
	var ticking sync.WaitGroup
	ticking.Go(func() { done.each(keeping) })
	err = l.Run(ctx, false, func(ctx context.Context, out chan<- *lane.Batch) error {
		return l.fromSpool(ctx, sp, end, done, out)
	}, func(work context.Context, b *lane.Batch, noted state.Batch) error {
		l.Count(noted.Counts, b.To-b.From)
		return done.add(work, b.Batch, noted)
	})
	stop(err)
	appender.Wait()
	give()
	ticking.Wait()
	if errors.Is(readErr, context.Canceled) && ctx.Err() != nil {
		readErr = nil // err reports the end of ctx
	}
	for _, bad := range sp.Bad() {
		l.damaged(bad)
	}
	l.Result.Finished = err == nil && readErr == nil
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lane.EndWait)
	defer cancel()
	return errors.Join(err, readErr, done.acknowledge(last))
}

// fromSpool sends the spool's remaining records in batches. Each batch has all records that are in
// the spool at that time, but no more than the pace allows. Records whose offsets are smaller than
// below may be in the ledger already.
func (l *streamLoad) fromSpool(ctx context.Context, sp *spool.Spool, below int64, done *acknowledger, out chan<- *lane.Batch) error {
	targets := map[string]*format.Target{}
	send := func(all []*format.Batch) error {
		if len(all) == 0 {
			return nil
		}
		b := &lane.Batch{Batch: format.Join(all)}
		done.expect(b.Batch)
		if err := l.Hold(ctx, b); err != nil {
			return err
		}
		out <- b
		return ctx.Err()
	}
	var next *format.Batch
	read := func() (err error) {
		rec, err := sp.Next(ctx)
		if err != nil {
			return err
		}
		if next, err = l.unspool(rec, targets); err != nil {
			return fmt.Errorf("record %d-%d of spool %s: %w", rec.From, rec.To, l.opt.Spool, err)
		}
		return nil
	}
	for {
		var all []*format.Batch
		rows, size := int64(0), 0
		for next != nil || len(all) == 0 || sp.Waiting() {
			if next == nil {
				if err := read(); errors.Is(err, io.EOF) {
					if len(all) > 0 {
						break // the records after these turned out to be damaged
					}
					return nil
				} else if err != nil {
					return errors.Join(send(all), err)
				}
			}
			rows, size = rows+next.Lines, size+len(next.Data)
			if len(all) > 0 && (next.Target != all[0].Target || rows > int64(l.BatchRows()) || size > l.opt.Bytes || len(all) == mostMerged) {
				break
			}
			all, next = append(all, next), nil
		}
		if all[0].From < below {
			var err error
			if all, err = l.unsent(ctx, all, done, send); err != nil {
				return err
			}
		}
		if err := send(all); err != nil {
			return err
		}
	}
}

// mostMerged limits the records of a batch, and so the lines of the ledger in one transaction.
const mostMerged = 1000

// unsent returns the batches after the last one in the ledger. It sends earlier ones not in it.
func (l *streamLoad) unsent(ctx context.Context, all []*format.Batch, done *acknowledger, send func([]*format.Batch) error) ([]*format.Batch, error) {
	var cuts []state.Cut
	for _, b := range all {
		cuts = append(cuts, b.Cut)
	}
	noted, err := lane.Retried(ctx, l.Load, func() (map[string]state.Batch, error) {
		return l.State.NotedOf(ctx, l.Source.Table, l.Source.Key, cuts)
	})
	if err != nil {
		return nil, err
	}
	from := 0
	for i, b := range all {
		was, is := noted[b.ID(l.Source.Key)]
		if !is {
			continue
		}
		if err := send(all[from:i]); err != nil {
			return nil, err
		}
		from = i + 1
		done.expect(b)
		l.Count(was.Counts, 0)
		if err := done.add(ctx, b, was); err != nil {
			return nil, err
		}
	}
	return all[from:], nil
}

// emptySegments is how many bytes the heads of removed segments may take. Any record has more.
const emptySegments = 64

// findSpool reads the offset up to which the database has the spool, and continues there.
func (l *streamLoad) findSpool(ctx context.Context, sp *spool.Spool) error {
	if err := l.Tidy(ctx); err != nil {
		return err
	}
	known, err := l.State.Sources(ctx, l.Source.Table, state.SpoolSource, "")
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(known, func(s state.Source) bool { return s.Key == sp.ID() }); i >= 0 {
		path := l.Source.Path
		l.Source = &known[i]
		l.Source.Path = path
	}
	if l.Source.Started.IsZero() {
		if records, _ := sp.Size(); records > 0 && l.opt.Name == "" {
			return engine.Hinted(fmt.Errorf("spool %s has %s, and the database doesn't know it: it was begun for another one", l.opt.Spool, figure.Plural(records, "record", "records")),
				"the target that it was begun for; --source NAME, to load all that lies in it into this one; or another --spool")
		}
		if err := l.State.PutSource(ctx, l.State.DB(), l.Source); err != nil {
			return err
		}
	}
	// The database may lack bytes before the first segment. The user is told, and they are skipped.
	if from, to := l.Source.Loaded, sp.First(); from < to {
		l.gap = to
		if to-from <= emptySegments {
			return sp.SeekTo(to)
		}
		l.Result.Damaged = append(l.Result.Damaged, fmt.Sprintf("%s missing at %d, and the database has the spool up to byte %d: set aside, or in another database, or in a newer state of this one",
			figure.Plural(to-from, "byte", "bytes"), from, from))
		return sp.SeekTo(to)
	}
	err = sp.SeekTo(l.Source.Loaded)
	if errors.Is(err, spool.ErrBeyond) {
		return engine.Hinted(fmt.Errorf("the database has spool %s up to byte %d: %w", l.opt.Spool, l.Source.Loaded, err),
			"the spool's present files, not an older copy; or another --spool")
	}
	if err != nil {
		return err
	}
	return sp.Release(l.Source.Loaded)
}

func (l *streamLoad) damaged(bad spool.Bad) {
	l.Result.Damaged = append(l.Result.Damaged, fmt.Sprintf("%s at %d: %s; set aside in %s", figure.Plural(bad.Bytes, "byte", "bytes"), bad.Offset, bad.Reason, bad.File))
}

func (l *streamLoad) sayFound(f spool.Found) {
	if f.Torn > 0 {
		l.Say("spool %s: %s removed, of a record that was never completed", l.opt.Spool, figure.Plural(f.Torn, "byte was", "bytes were"))
	}
	for _, gap := range f.Missing {
		l.Result.Damaged = append(l.Result.Damaged, fmt.Sprintf("%s at %d: the file isn't there", figure.Plural(gap.To-gap.From, "byte", "bytes"), gap.From))
	}
	for _, bad := range f.Bad {
		if !bad.Known {
			l.damaged(bad)
		}
	}
}

// spoolShare limits a record to this fraction of the spool, unless it consists of a single row.
const spoolShare = 8

func (l *streamLoad) spoolUp(ctx, keeping context.Context, sp *spool.Spool, r io.Reader) (err error) {
	f := l.opt.Format
	reading, stop := context.WithCancel(ctx)
	defer stop()
	size := l.opt.Bytes
	if l.opt.SpoolBytes > 0 { // keep records below the spool's size, unless a single row exceeds it
		size = max(min(size, int(l.opt.SpoolBytes/spoolShare)), 1)
	}
	in, err := l.begin(reading, r, &f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	c := format.NewCutter(reading, in, &f, l.opt.Rows, size, l.opt.Flush)
	defer func() { l.Lose(c.Abandon(stop)) }()
	t, err := l.TargetOf(ctx, c)
	if err != nil || t == nil {
		return err
	}
	head := spooled{Table: l.opt.Table.Name, Named: f.Columns != nil, Format: f, Notation: f.Notation(l.opt.Values), Zone: zoneName(l.opt.Values.Zone), Duplicates: l.opt.OnDuplicate}
	head.Columns = t.Names
	put := func(b *format.Batch) error {
		data := b.Data
		if b.First {
			n := f.Beginning(data)
			head.Line, data = b.Line+int64(bytes.Count(data[:n], []byte("\n"))), data[n:]
		} else {
			head.Line = b.Line
		}
		if len(data) == 0 {
			return nil
		}
		head.Lines = b.Line + b.Lines - head.Line
		record, err := json.Marshal(head)
		if err != nil {
			return err
		}
		if b.First {
			data = bytes.TrimPrefix(data, format.ByteOrderMark)
		}
		if _, err = sp.Append(keeping, append(append(record, '\n'), data...)); err != nil {
			l.Lose(int64(b.Rows))
			return fmt.Errorf("%s read from line %d on and not stored: %w", figure.Plural(head.Lines, "line was", "lines were"), head.Line, err)
		}
		return nil
	}
	defer func() { l.Result.Unfinished = c.Unfinished() }()
	err = c.Each(ctx, stop, func(b *format.Batch) error {
		if err := put(b); err != nil {
			return err
		}
		l.opt.Reached("spooled")
		return nil
	})
	l.saySkipped(err)
	return err
}
