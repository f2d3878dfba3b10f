package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/value"
)

const (
	// cutsAhead limits how many cuts are recorded together, before the first of their batches is sent.
	cutsAhead = 16
)

// File loads a file, or the new end of a file that has grown. It refuses a file that has changed in
// another way, and returns ErrHeld if another process loads the file. If ctx ends before the whole
// file is loaded, the next load of the file continues.
func File(ctx context.Context, o Options, path string) (lane.Result, error) {
	common, err := lane.New(&o.Sending, o.pool)
	if err != nil {
		return lane.Result{}, err
	}
	name := o.Name
	if name == "" {
		if name, err = filepath.Abs(path); err != nil {
			return lane.Result{}, err
		}
	}
	l := &fileLoad{Load: common, opt: &o, path: path, format: o.Format}
	l.Position = l.bytesDone
	l.Source = &state.Source{Table: o.Table.Name, Path: name, Kind: state.FileSource, Key: newKey()}
	if o.Dry {
		// Remove what an earlier dry run of this file has written to the file of bad rows.
		l.Source.Key = "dry run " + format.HashOf([]byte(name))
		if err := l.ForgetBad(l.Source.Key); err != nil {
			return l.Finish(err)
		}
	}
	return l.Finish(l.start(ctx))
}

// A fileLoad is the load of a file. Its batches are recorded as cuts of the file before they are
// sent, so that the next load after a crash cuts the file at the same places.
type fileLoad struct {
	*lane.Load
	opt    *Options
	path   string
	format format.Format
	input  *format.Input
	// parquet means that format describes the text of a Parquet file.
	parquet bool
	// dump, unless nil, describes which rows of a dump are read.
	dump *format.DumpTable
	// reading is the dump that was opened last.
	reading *format.DumpReader

	// passed counts the bytes that are committed by now, and skipped those that earlier loads had
	// committed. sending is Load.Elapsed at the time when the first new batch was passed on.
	passed, skipped, sending atomic.Int64

	// recorded releases the lock on the file's head, as soon as recorded cuts identify the file.
	recorded func()
	// cuts are the recorded cuts after the loaded part; noted are the ledger's lines of these cuts.
	cuts       []state.Cut
	noted      map[string]state.Batch
	published  []*state.Publication
	collecting atomic.Pointer[lane.Collector] // Load.Collector, for bytesDone in another goroutine
	mu         sync.Mutex                     // guards sentIn and offered
	// Extents of the file's rows, by where the rows are: settledIn those of completed loads, earlierIn
	// those of the batches and publications in the fields noted and published, sentIn those sent since
	// the file was opened, offered those that a dry run has only checked.
	settledIn, earlierIn, sentIn, offered []state.Extent
	// accepted: the user accepts that rows are missing. looked: earlier rows were looked for.
	accepted, looked bool
}

func (l *fileLoad) bytesDone(p *lane.Progress) {
	if l.input == nil {
		return
	}
	skipped := l.input.UpTo(l.skipped.Load())
	p.Bytes, p.Size = l.input.UpTo(l.passed.Load()), l.input.Size
	p.Sent = max(p.Bytes-skipped, 0)
	if began := l.sending.Load(); began > 0 {
		p.Sending = p.Elapsed - time.Duration(began)
	}
	l.collecting.Load().Describe(p)
}

// start loads the file while holding its locks, which are taken again if they are lost.
func (l *fileLoad) start(ctx context.Context) error {
	var err error
	if l.format, err = format.OfFile(ctx, l.path, l.format); err != nil {
		return err
	}
	if err := l.opt.Unused(l.format.Kind); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if l.format.Kind == format.Dump {
		l.dump = format.NewDumpTable(&l.opt.Reading, &l.format)
		l.opt.Values.Bytes = value.Raw
	}
	if err := l.format.Validate(); err != nil {
		return err
	}
	if l.format.Kind == format.Parquet {
		l.parquet, l.Unit, l.opt.Values.Bytes = true, "row", value.Hex
	}
	if l.opt.Dry {
		return l.read(ctx)
	}
	return l.Relock(ctx, l.path, func(again bool) error { return l.locked(ctx, again) })
}

// open opens the file. The rows of a dump are read as TSV.
func (l *fileLoad) open() (*format.Input, error) {
	if !l.parquet {
		in, err := format.OpenFile(l.path, l.format.Encoding)
		if err != nil {
			return nil, err
		}
		in.Follow(l.format.Kind == format.JSON, func() {
			l.Say("%s: its last line has no line break, and it was written to just now: the load waits until it wasn't for %s", l.path, format.SettledAfter)
		})
		if l.dump != nil {
			l.reading = in.ReadDump(l.dump)
		}
		return in, nil
	}
	in, names, err := format.OpenParquet(l.path, l.opt.Schema, &l.opt.Format)
	l.format = format.ParquetFormat(&l.opt.Format, names)
	return in, err
}

func (l *fileLoad) read(ctx context.Context) (err error) {
	if l.input, err = l.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.input.Close()) }()
	l.passed.Store(0)
	l.skipped.Store(0)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if l.reading != nil {
		l.reading.Within(reading)
	}
	c := format.NewCutter(reading, l.input, &l.format, l.opt.Rows, l.opt.Bytes, 0)
	defer c.Wait(stop)
	defer l.input.Unfollow()
	fail := func(err error) error {
		if err == nil || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if l.opt.Publisher != nil && !l.opt.Dry {
		if err := l.Retry(ctx, func() error { return l.opt.Publisher.FinishPublications(ctx, l.Source.Key) }); err != nil {
			return fail(err)
		}
	}
	if err := l.recall(ctx); err != nil {
		return fail(err)
	}
	again := l.opt.Again
	if !l.opt.Dry && !again {
		if again, err = l.begunOtherwise(); err != nil {
			return fail(err)
		}
	}
	t, err := l.TargetOf(ctx, c)
	if errors.Is(err, format.ErrGrowing) {
		l.sayGrowing(c)
		return nil
	}
	if err != nil {
		return fail(err)
	}
	if t == nil {
		l.Say("%s is empty", l.path)
		l.Result.Finished = true
		return nil
	}
	if again && !l.opt.Dry {
		if err := l.forget(ctx, t); err != nil {
			return fail(err)
		}
		l.Source.Options = l.optionsText()
		l.opt.Again = false // after a lost lock, the load continues and does not begin again
	}
	l.countBefore()
	if err := l.resume(ctx, c); err != nil {
		return fail(err)
	}
	l.looked = true         // after a lost lock, a search would find this load's own rows
	base := l.Source.Loaded // up to where batches are recorded
	if n := len(l.cuts); n > 0 {
		base = l.cuts[n-1].To
	}
	n, err := l.Collect(ctx, t, l.published, base, l.input.TextSize())
	if err != nil {
		return fail(err)
	}
	l.Collector = n
	l.collecting.Store(n)
	defer func() { err = errors.Join(err, n.Close()) }()
	was := *l.Source
	err = l.Run(ctx, false, func(ctx context.Context, out chan<- *lane.Batch) error {
		return fail(l.batches(ctx, c, t, out))
	}, func(_ context.Context, b *lane.Batch, noted state.Batch) error {
		l.mu.Lock()
		l.passed.Add(b.To - b.From)
		l.sentIn = l.Gathered(l.sentIn, lane.ExtentsOf(noted))
		if l.opt.Dry {
			l.offered = l.Gathered(l.offered, b.Sent)
		}
		l.mu.Unlock()
		l.Count(noted.Counts, b.To-b.From)
		return nil
	})
	if done := l.passed.Load(); err == nil && done != c.At {
		err = fail(fmt.Errorf("the batches don't add up: they have %s of the %d that were read; this is an error of rowmill, please report it",
			figure.Plural(done, "byte", "bytes"), c.At))
	}
	if err == nil && n != nil {
		err = l.publish(ctx, n, t, c)
	}
	if err != nil {
		return err
	}
	l.Result.Finished = true
	if l.dump != nil && c.Final() {
		l.reading.SaySkipped(l.Say)
	}
	if c.Growing() {
		l.sayGrowing(c)
	}
	if l.opt.Dry {
		return l.SayLanes(ctx, t, l.offered, l.input.TextSize())
	}
	all := l.Before()
	if all.Add(l.Result.Counts); all.Rejected > 0 && all.Inserted+all.Updated+all.Duplicate == 0 {
		// No row was loaded, so the file stays new: the next load may have other options.
		return l.Retry(ctx, func() error { return l.State.Unload(ctx, l.Source) })
	}
	if was.Finished && was.Loaded == c.At {
		return nil // nothing has changed
	}
	return l.settle(ctx, c, all)
}

// publish publishes the collected rows, once no other load of this process is publishing.
func (l *fileLoad) publish(ctx context.Context, n *lane.Collector, t *format.Target, c *format.Cutter) error {
	unlock, err := l.Pool.Lock(ctx, "publications")
	if err != nil {
		return err
	}
	defer unlock()
	if err := n.PublishAll(ctx, c.At); err != nil {
		return err
	}
	return l.singly(ctx, n, t, c.TornBy)
}

func (l *fileLoad) sayGrowing(c *format.Cutter) {
	l.Result.Finished, l.Result.Unfinished = true, c.Pending()
	l.Say("%s: line %d is incomplete, and the file is being written to: the next load reads it", l.path, c.Line)
}

// recall reads the cuts of the source, their lines of the ledger, and the extents of settledIn.
func (l *fileLoad) recall(ctx context.Context) (err error) {
	l.cuts, l.noted, l.published = nil, nil, nil
	if l.opt.Dry || l.Source.Started.IsZero() {
		return nil
	}
	err = l.Retry(ctx, func() (err error) {
		l.cuts, l.published, l.noted, err = lane.RecordedOf(ctx, l.State, l.Source)
		return err
	})
	if err == nil {
		l.settledIn, err = l.extents(ctx)
	}
	return err
}

// resume skips the loaded part of the file after comparing its hash, and looks for the rows of that
// part in the table.
func (l *fileLoad) resume(ctx context.Context, c *format.Cutter) error {
	s := l.Source
	if l.opt.Dry || s.Started.IsZero() {
		return nil
	}
	c.TornBy = fmt.Errorf("it is the rest of a line that was incomplete when it was loaded, on %s: check that row in the table", minute(s.At))
	if s.Loaded > 0 {
		hash, err := c.Skip(ctx, s.Loaded, s.Lines)
		l.passed.Store(c.At)
		l.skipped.Store(c.At)
		if errors.Is(err, format.ErrEnds) {
			return shorter(c.At, s.Loaded)
		}
		if err != nil {
			return err
		}
		if hash != s.Hash {
			return l.changed(0, s.Loaded)
		}
	}
	at := s.Loaded
	for _, cut := range l.cuts {
		if cut.From != at {
			return fmt.Errorf("rowmill_cuts has a batch of %s from byte %d, and the one before ends at %d", s.Path, cut.From, at)
		}
		at = cut.To
	}
	return l.lookBack(ctx)
}

func minute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") }

func (l *fileLoad) changed(from, to int64) error {
	return engine.Hinted(fmt.Errorf("it has changed since it was loaded: bytes %d to %d differ from those loaded on %s", from, to,
		minute(l.Source.At)),
		"--source with another name if it is another file: all of it is loaded then, and rows whose key is in the table are skipped")
}

func shorter(is, was int64) error {
	return engine.Hinted(fmt.Errorf("it is shorter than it was: %d bytes, of which %d had been loaded", is, was),
		"the whole file; --source with another name if it is another file")
}

// recut returns the bytes of a recorded cut. It refuses bytes that differ from the loaded ones.
func (l *fileLoad) recut(ctx context.Context, c *format.Cutter, cut state.Cut) (*format.Batch, error) {
	b, err := c.Again(ctx, cut)
	switch {
	case errors.Is(err, format.ErrEnds):
		return nil, shorter(c.At+int64(c.Pending()), cut.To)
	case err != nil:
		return nil, err
	case b.Hash != cut.Hash:
		return nil, l.changed(cut.From, cut.To)
	}
	return b, nil
}

// batches produces the batches of recorded cuts that the ledger lacks, and then new ones, recorded.
func (l *fileLoad) batches(ctx context.Context, c *format.Cutter, t *format.Target, out chan<- *lane.Batch) error {
	for _, cut := range l.cuts {
		b, err := l.recut(ctx, c, cut)
		if err != nil {
			return err
		}
		_, there := l.noted[cut.ID(l.Source.Key)]
		if there && !l.Collector.Collects(cut.From) {
			l.passed.Add(b.To - b.From)
			l.skipped.Add(b.To - b.From)
			continue
		}
		b.Target = t
		one := &lane.Batch{Batch: b, Noted: there}
		if err := l.Hold(ctx, one); err != nil {
			return err
		}
		l.handOut(one, out)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	news := make(chan *lane.Batch, cutsAhead)
	var failed error
	cutting, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		defer close(news)
		for {
			c.Rows = l.BatchRows()
			b, err := c.Next(cutting)
			if errors.Is(err, io.EOF) || errors.Is(err, format.ErrGrowing) {
				return
			}
			var one *lane.Batch
			if err == nil {
				b.Target = t
				one = &lane.Batch{Batch: b}
				err = l.Hold(cutting, one)
			}
			if err != nil {
				failed = err
				return
			}
			news <- one
		}
	}()
	err := l.record(ctx, news, out)
	enough()
	for b := range news { // receive the rest, so that the goroutine that cuts ends
		l.Unhold(b)
	}
	return cmp.Or(err, failed)
}

// record passes batches on after recording their cuts, as many at a time as are ready.
func (l *fileLoad) record(ctx context.Context, news <-chan *lane.Batch, out chan<- *lane.Batch) error {
	for b := range news {
		group := []*lane.Batch{b}
	more:
		for len(group) < cutsAhead {
			select {
			case next, ok := <-news:
				if !ok {
					break more
				}
				group = append(group, next)
			default:
				break more
			}
		}
		if !l.opt.Dry {
			if err := l.putCuts(ctx, group); err != nil {
				l.Unhold(group...)
				return err
			}
			l.recorded()
			l.opt.Reached("cuts noted")
		}
		for i, b := range group {
			if ctx.Err() != nil {
				l.Unhold(group[i:]...)
				return ctx.Err()
			}
			l.handOut(b, out)
		}
	}
	return nil
}

// putCuts records the cuts of batches. Before the first cuts of a source it records the source.
func (l *fileLoad) putCuts(ctx context.Context, group []*lane.Batch) error {
	s := l.Source
	cuts := make([]state.Cut, len(group))
	for i, b := range group {
		cuts[i] = b.Cut
	}
	if s.Head == 0 && cuts[0].From == 0 {
		head := group[0].Data[:min(format.HeadBytes, len(group[0].Data))]
		s.Head, s.HeadHash = int64(len(head)), format.HashOf(head)
	}
	put := func() error { return l.State.PutCuts(ctx, s.Table, s.Key, cuts) }
	if s.Started.IsZero() || s.Finished {
		s.Finished = false
		put = func() error { return l.State.BeginSource(ctx, s, cuts) }
	}
	tried := false
	return l.Retry(ctx, func() error {
		err := put()
		if tried && errors.Is(err, engine.ErrDuplicateKey) {
			// The connection may have broken after the commit.
			have, haveErr := l.State.Cuts(ctx, s.Table, s.Key)
			if haveErr != nil {
				return haveErr
			}
			i := slices.Index(have, cuts[0])
			if i >= 0 && len(have) >= i+len(cuts) && slices.Equal(have[i:i+len(cuts)], cuts) {
				return nil
			}
			return fmt.Errorf("batches of %s are recorded with other boundaries: %w", s.Path, err)
		}
		tried = true
		return err
	})
}

func (l *fileLoad) known() state.Counts {
	all := l.Source.Counts
	for _, b := range l.noted {
		all.Add(b.Counts)
	}
	for _, p := range l.published {
		all.Add(p.Counts)
	}
	return all
}

func (l *fileLoad) countBefore() {
	l.earlierIn, l.sentIn, l.offered = nil, nil, nil
	for _, b := range l.noted {
		l.earlierIn = append(l.earlierIn, lane.ExtentsOf(b)...)
	}
	for _, p := range l.published {
		l.earlierIn = append(l.earlierIn, p.Extents()...)
	}
	l.Recount(l.known())
}

func (l *fileLoad) handOut(b *lane.Batch, out chan<- *lane.Batch) {
	l.sending.CompareAndSwap(0, int64(l.Elapsed()))
	out <- b
}

// settle records that the whole file is loaded, and the counts and extents of all its rows.
func (l *fileLoad) settle(ctx context.Context, c *format.Cutter, all state.Counts) error {
	s := l.Source
	s.Loaded, s.Lines, s.Hash, s.Finished, s.Counts = c.At, c.Line-1, c.Total(), true, all
	if head := c.Head; int64(len(head)) > s.Head {
		s.Head, s.HeadHash = int64(len(head)), format.HashOf(head)
	}
	extents := lane.Merged(l.opt.Table.Grid, slices.Concat(l.settledIn, l.earlierIn, l.sentIn, l.Collector.RowsSent()))
	return lane.Forgotten(l.Retry(ctx, func() error { return l.State.Settle(ctx, s, l.toStore(extents)) }))
}
