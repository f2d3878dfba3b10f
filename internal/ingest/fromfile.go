package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
)

const (
	// headBytes is the length of a file's beginning that is compared to distinguish
	// it from another file with the same name.
	headBytes = 4096
	// cutsAhead limits the number of cuts recorded at a time before the first of
	// their batches is sent.
	cutsAhead = 16
	// ledgerKept is how long the ledger keeps the batches of finished sources. No
	// transaction of a broken connection is still pending on a server after a day.
	ledgerKept = 24 * time.Hour
)

// File loads a file, or the part of it that is not loaded yet. Loading a file that is
// completely loaded changes nothing. A file that has grown is loaded from its
// previous end; a file that has changed otherwise is refused.
//
// If another process is loading the file, File returns ErrHeld.
//
// If ctx ends, File returns ctx's error. Committed batches remain, and the next load
// continues after them.
func File(ctx context.Context, o Options, path string) (Result, error) {
	l, err := newLoad(&o)
	if err != nil {
		return Result{}, err
	}
	name := o.Name
	if name == "" {
		if name, err = filepath.Abs(path); err != nil {
			return Result{}, err
		}
	}
	l.source = &state.Source{Table: o.Table.Name, Path: name, Kind: state.FileSource, Key: newKey()}
	if o.Dry {
		// Remove the lines of an earlier dry run of the file.
		l.source.Key = "dry run " + hashOf([]byte(name))
		if err := l.bad.add(name, l.source.Key, 0, math.MaxInt64, nil); err != nil {
			return l.finish(err)
		}
	}
	return l.finish(l.file(ctx, path))
}

func (l *load) file(ctx context.Context, path string) (err error) {
	f := l.opt.Format
	if f.Kind == "" {
		if f.Kind = KindOf(path); f.Kind == "" {
			return engine.Hinted(fmt.Errorf("%s: its name doesn't tell its format", path), "--format csv, tsv or jsonl")
		}
	}
	if err := f.Validate(); err != nil {
		return err
	}
	if l.opt.Dry {
		return l.once(ctx, path, f)
	}
	fresh := *l.source
	for again := false; ; again = true {
		s := fresh
		l.source = &s
		err := l.alone(ctx, path, f, again)
		if !errors.Is(err, errLockLost) || ctx.Err() != nil || l.opt.RetryFor == 0 {
			return err
		}
		l.say("%s: %v; it is taken again, and the load goes on", path, errLockLost)
	}
}

func (l *load) once(ctx context.Context, path string, f Format) (err error) {
	if l.input, err = openFile(path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.input.Close()) }()
	l.passed.Store(0)
	l.skipped.Store(0)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	c := newCutter(reading, l.input, &f, l.opt.Rows, l.opt.Bytes, 0)
	defer c.wait(stop)
	defer close(l.input.quit)
	fail := func(err error) error {
		if err == nil || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	if !l.opt.Dry && (!l.opt.Again || l.anew) {
		if err := l.sameMeaning(&f); err != nil {
			return fail(err)
		}
	}
	t, err := l.targetOf(ctx, c, &f)
	if errors.Is(err, errGrowing) {
		l.sayGrowing(path, c)
		return nil
	}
	if err != nil {
		return fail(err)
	}
	if t == nil {
		l.say("%s is empty", path)
		l.result.Finished = true
		return nil
	}
	if l.opt.Again && !l.opt.Dry {
		if err := l.forget(ctx, t); err != nil {
			return fail(err)
		}
		l.source.Options = l.meaning(&f)
	}
	cuts, err := l.before(ctx, c)
	if err != nil {
		return fail(err)
	}
	sums := *l.source // settled rows; done adds to the result
	err = l.run(ctx, false, func(ctx context.Context, out chan<- *batch) error {
		return fail(l.cut(ctx, c, t, cuts, out))
	}, func(_ context.Context, b *batch, noted state.Batch) error {
		l.countOwn(noted, b)
		return nil
	})
	if err != nil {
		return err
	}
	l.result.Finished = true
	if errors.Is(c.ends, errGrowing) {
		l.sayGrowing(path, c)
	}
	if l.opt.Dry {
		return nil
	}
	if r := &l.result; r.Rejected+r.BeforeRejected > 0 && sums.Inserted+sums.Duplicate+r.Inserted+r.Duplicate+l.earlier.Inserted+l.earlier.Duplicate == 0 {
		// No row was loaded. The user will repeat the load with other options, for
		// which the file must count as new.
		return l.retry(ctx, func() error { return l.state.Unload(ctx, l.source) })
	}
	return l.settle(ctx, c, sums)
}

// sayGrowing reports that a file's last line is left for the next load.
func (l *load) sayGrowing(path string, c *cutter) {
	l.result.Finished, l.result.Unfinished = true, len(c.buf)
	l.say("%s: line %d has no end yet, and the file is being written to: it is left for the next load", path, c.line)
}

// tornBy returns the error of a batch's first row if it is the rest of a line whose
// beginning is already loaded.
func (l *load) tornBy(b *batch) error {
	if !b.torn {
		return nil
	}
	return fmt.Errorf("it is the rest of a line that had no end when it was loaded, on %s: see what became of that row", l.loadedAt.UTC().Format("2006-01-02 15:04"))
}

// settle records that the whole file is loaded.
func (l *load) settle(ctx context.Context, c *cutter, sums state.Source) error {
	r := &l.result
	s := l.source
	s.Loaded, s.Lines, s.Hash, s.Finished = c.at, c.line-1, c.total(), true
	if head := c.head; int64(len(head)) > s.Head {
		s.Head, s.HeadHash = int64(len(head)), hashOf(head)
	}
	s.Sent, s.Rejected = r.Before+r.Sent, r.BeforeRejected+r.Rejected
	s.Inserted = sums.Inserted + r.Inserted - l.own.Inserted + l.earlier.Inserted
	s.Duplicate = sums.Duplicate + r.Duplicate - l.own.Duplicate + l.earlier.Duplicate
	if sums.Finished && sums.Loaded == c.at {
		return nil // nothing has changed
	}
	extents := merged(l.opt.Table.Grid, slices.Concat(l.settledIn, l.earlierIn, l.sentIn))
	if r.Missing > 0 && l.opt.AcceptMissing {
		f, err := l.look(ctx, extents)
		if err != nil {
			return err
		}
		l.say("%s: %s not in the table and no longer looked for", s.Path, figure.Plural(f.missing, "loaded row is", "loaded rows are"))
		extents, r.Missing, l.accepted = f.found, 0, true
	}
	return forgotten(l.retry(ctx, func() error { return l.state.Settle(ctx, s, l.lookedFor(extents)) }))
}

// tidy removes entries that are no longer needed. It creates missing tables for
// sources: the table may have been applied by an older version of rowmill.
func (l *load) tidy(ctx context.Context) error {
	err := l.state.Tidy(ctx, l.source.Table, time.Now().Add(-ledgerKept))
	if err == nil {
		_, err = l.extents(ctx) // reads the table that was added last
	}
	if errors.Is(err, engine.ErrNoTable) {
		err = l.state.Ensure(ctx)
	}
	return err
}

// changed returns the error for a file whose loaded bytes have changed.
func (l *load) changed(from, to int64) error {
	return engine.Hinted(fmt.Errorf("it has changed since it was loaded: bytes %d to %d are other ones than they were on %s", from, to,
		l.source.Updated.UTC().Format("2006-01-02 15:04")),
		"--source with another name if it is another file: all of it is loaded then, and rows whose key is in the table are passed over")
}

// before skips the part of the file that is loaded, after comparing its hash, and
// returns the recorded cuts of the rest.
func (l *load) before(ctx context.Context, c *cutter) ([]state.Cut, error) {
	s := l.source
	if l.opt.Dry || s.Started.IsZero() {
		return nil, nil
	}
	l.begin()
	l.loadedAt = s.Updated
	if s.Loaded > 0 {
		hash, err := c.skip(ctx, s.Loaded, s.Lines)
		l.passed.Store(c.at)
		l.skipped.Store(c.at)
		if errors.Is(err, errEnds) {
			return nil, l.shorter(c.at, s.Loaded)
		}
		if err != nil {
			return nil, err
		}
		if hash != s.Hash {
			return nil, l.changed(0, s.Loaded)
		}
	}
	cuts, err := l.cuts(ctx, s)
	if err != nil {
		return nil, err
	}
	at := s.Loaded
	for _, cut := range cuts {
		if cut.From != at {
			return nil, fmt.Errorf("rowmill_cuts has a batch of %s from byte %d, and the one before ends at %d", s.Path, cut.From, at)
		}
		at = cut.To
	}
	if l.settledIn, err = l.extents(ctx); err != nil {
		return nil, err
	}
	return cuts, l.lookBack(ctx, cuts)
}

func (l *load) shorter(is, was int64) error {
	return engine.Hinted(fmt.Errorf("it is shorter than it was: %d bytes, of which %d had been loaded", is, was),
		"the whole file; --source with another name if it is another file")
}

// cut produces the batches of a file: first the recorded cuts that are not in the
// ledger, then new batches, after their cuts are recorded.
func (l *load) cut(ctx context.Context, c *cutter, t *target, cuts []state.Cut, out chan<- *batch) error {
	noted, err := l.noted(ctx, cuts)
	if err != nil {
		return err
	}
	for _, done := range noted {
		if _, own := l.out[done.ID]; !own {
			l.rejectedBefore.Add(done.Rejected)
		}
	}
	for _, cut := range cuts {
		b, err := c.again(ctx, cut)
		if errors.Is(err, errEnds) {
			return l.shorter(c.at+int64(len(c.buf)), cut.To)
		}
		if err != nil {
			return err
		}
		if b.Hash != cut.Hash {
			return l.changed(cut.From, cut.To)
		}
		if done, there := noted[cut.ID(l.source.Key)]; there {
			l.countFound(done, b)
			continue
		}
		b.target = t
		if err := l.hold(ctx, b); err != nil {
			return err
		}
		l.handOut(b)
		out <- b
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	news := make(chan *batch, cutsAhead)
	var failed error
	cutting, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		defer close(news)
		for {
			b, err := c.next(cutting)
			if errors.Is(err, io.EOF) || errors.Is(err, errGrowing) {
				return
			}
			if err != nil {
				failed = err
				return
			}
			b.target = t
			if err := l.hold(cutting, b); err != nil {
				failed = err
				return
			}
			news <- b
		}
	}()
	err = l.note(ctx, news, out)
	enough()
	for range news { // until the cutting goroutine ends
	}
	if err != nil {
		return err
	}
	return failed
}

// noted returns those of the cuts that are in the ledger.
func (l *load) noted(ctx context.Context, cuts []state.Cut) (map[string]state.Batch, error) {
	if len(cuts) == 0 {
		return nil, nil
	}
	var noted map[string]state.Batch
	err := l.retry(ctx, func() (err error) {
		noted, err = l.state.NotedOf(ctx, l.source.Table, l.source.Key, cuts)
		return err
	})
	return noted, err
}

// note passes batches on after recording their cuts, as many at a time as are ready.
func (l *load) note(ctx context.Context, news <-chan *batch, out chan<- *batch) error {
	for b := range news {
		group := []*batch{b}
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
				return err
			}
			l.known()
			l.reached("cuts noted")
		}
		for _, b := range group {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l.handOut(b)
			out <- b
		}
	}
	return nil
}

// putCuts records the cuts of batches. Before the first of them it records the
// source.
func (l *load) putCuts(ctx context.Context, group []*batch) error {
	s := l.source
	cuts := make([]state.Cut, len(group))
	for i, b := range group {
		cuts[i] = b.Cut
	}
	if s.Head == 0 && cuts[0].From == 0 {
		head := group[0].data[:min(headBytes, len(group[0].data))]
		s.Head, s.HeadHash = int64(len(head)), hashOf(head)
	}
	if s.Started.IsZero() || s.Finished {
		s.Finished = false
		if err := l.retry(ctx, func() error { return l.state.PutSource(ctx, l.state.DB(), s) }); err != nil {
			return err
		}
	}
	tried := false
	return l.retry(ctx, func() error {
		err := l.state.PutCuts(ctx, s.Table, s.Key, cuts)
		if tried && errors.Is(err, engine.ErrDuplicateKey) {
			// The connection may have broken after the commit.
			have, haveErr := l.state.Cuts(ctx, s.Table, s.Key)
			if haveErr != nil {
				return haveErr
			}
			i := slices.Index(have, cuts[0])
			if i >= 0 && len(have) >= i+len(cuts) && slices.Equal(have[i:i+len(cuts)], cuts) {
				return nil
			}
			return fmt.Errorf("batches of %s are noted, and not as they were cut: %w", s.Path, err)
		}
		tried = true
		return err
	})
}
