package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/ingest/spool"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/value"
)

// A Post is a group of rows that is taken as a whole, such as the body of a request.
type Post struct {
	Format format.Format
	Values value.Notation
	Body   []byte
	// Key, unless empty, identifies the post: a second post with it is acknowledged, but not taken.
	Key string
}

// A Receipt describes a post that was taken.
type Receipt struct {
	// Rows counts all rows, Bad those that can't be loaded. First are some of the bad rows.
	Rows, Bad int64
	First     []format.Rejected
	// Repeated reports that a post with the same key had been taken before.
	Repeated bool
}

// A PostError means that nothing of a post was taken because of what the post contains.
type PostError struct {
	Line   int64 // 0 if unknown
	Column string
	Err    error
}

func (e *PostError) Error() string {
	text := e.Err.Error()
	if e.Column != "" {
		text = "column " + e.Column + ": " + text
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

func (e *PostError) Unwrap() error { return e.Err }

var (
	ErrManyRows  = fmt.Errorf("a request may have at most %d lines", MaxPostLines)
	ErrKeyReused = errors.New("the key was used for other rows")
)

const (
	// MaxPostLines limits the lines of a post, and so the size of a transaction.
	MaxPostLines = 100_000
	firstBad     = 5
	// mostBadBytes limits the file of bad rows. Beyond it, posts with bad rows are refused.
	mostBadBytes = 64 << 20
	// mostShapes limits the cached targets: clients may name any columns.
	mostShapes = 200
	// lookEvery is how often the columns of the table are read again. If a post doesn't fit the
	// columns, they are read immediately, but not before lookLeast has passed since the last read.
	// Reading takes at most lookTimeout.
	lookEvery   = time.Minute
	lookLeast   = time.Second
	lookTimeout = 2 * time.Second
	// refusedFor is how long a full spool counts as full after it has refused a post.
	refusedFor = time.Minute
	// inboxPatience is how long an ending inbox waits for batches in flight. The spool has their rows.
	inboxPatience = time.Second
)

// An Inbox takes posts into a spool and loads them, each row once. One goroutine may call Run.
type Inbox struct {
	opt   Options
	spool *spool.Spool
	keys  *keys

	appending appender
	shapes    struct {
		sync.Mutex
		schema  *engine.Schema
		changed chan struct{} // closed when the schema is replaced
		pools   map[string]*shapePool
	}
	looking struct {
		sync.Mutex
		last time.Time
	}
	marks struct {
		sync.Mutex
		times []mark
	}
	loadedRows struct {
		sync.Mutex
		state.Counts
		unkept int64
	}
	failure atomic.Pointer[string]
	refusal struct {
		sync.Mutex
		err      error // why the last post was not kept, or nil
		at, said time.Time
	}
	ending chan struct{} // closed by Finish
	finish func()
}

// A mark says when the records before an offset were taken.
type mark struct {
	to int64
	at time.Time
}

// A shapePool has the parsers for posts of one shape.
type shapePool struct {
	target *format.Target
	idle   sync.Pool
}

// OpenInbox opens the inbox of a table, whose spool is o.Spool, and records the spool in the
// database. The fields of o for files and single streams are ignored.
func OpenInbox(ctx context.Context, o Options) (*Inbox, error) {
	o.MaxBad, o.Again, o.Dry, o.Progress, o.Name, o.Posted = -1, false, false, nil, "", true
	o.Bytes = cmp.Or(o.Bytes, lane.DefaultBytes)
	o.OnDuplicate = cmp.Or(o.OnDuplicate, format.SkipDuplicate)
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Reached == nil {
		o.Reached = func(string) {}
	}
	sp, found, err := spool.Open(spool.Options{Dir: o.Spool, Budget: o.SpoolBytes, NoWait: true})
	if err != nil {
		return nil, err
	}
	in := &Inbox{opt: o, spool: sp, keys: newKeys(), ending: make(chan struct{})}
	in.finish = sync.OnceFunc(func() { close(in.ending); sp.Finish() })
	in.shapes.schema, in.shapes.pools, in.shapes.changed = o.Schema, map[string]*shapePool{}, make(chan struct{})
	fail := func(err error) (*Inbox, error) { return nil, errors.Join(err, sp.Close()) }
	if err := in.recall(); err != nil {
		return fail(err)
	}
	if found.Records > 0 {
		in.mark(sp.End())
	}
	if _, err := in.begin(ctx, found); err != nil {
		return fail(err)
	}
	return in, nil
}

// begin returns a load of the records after those that the database has.
func (in *Inbox) begin(ctx context.Context, found spool.Found) (*streamLoad, error) {
	o := in.opt
	o.BadBytes, o.Hurry, o.Patience = mostBadBytes, in.ending, inboxPatience
	in.shapes.Lock()
	o.Schema = in.shapes.schema
	in.shapes.Unlock()
	l, err := newStreamLoad(&o)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Spool)
	if err != nil {
		return nil, err
	}
	l.sayFound(found)
	l.Source = &state.Source{Table: o.Table.Name, Path: dir, Kind: state.SpoolSource, Key: in.spool.ID()}
	err = l.findSpool(ctx, in.spool)
	for _, d := range l.Result.Damaged {
		l.Say("spool %s: damaged: %s", o.Spool, d)
	}
	return l, err
}

// recall reads the keys of the records that are still on disk.
func (in *Inbox) recall() error {
	for in.spool.Waiting() {
		rec, err := in.spool.Next(context.Background())
		if err != nil {
			return err
		}
		first, _, _ := bytes.Cut(rec.Data, []byte("\n"))
		var head spooled
		if json.Unmarshal(first, &head) == nil && head.Key != "" {
			in.keys.keep(head.Key, keyed{sum: head.Sum})
		}
	}
	return nil
}

// Put takes a post and returns once it is on disk. If it returns an error, it has taken nothing.
// The error is a PostError for the post's content, ErrManyRows, ErrKeyReused, spool.ErrFull,
// spool.ErrTooLarge, or an error of the disk.
func (in *Inbox) Put(ctx context.Context, post Post) (Receipt, error) {
	if post.Key == "" {
		return in.put(ctx, post, "")
	}
	sum := format.HashOf(post.Body)
	return in.keys.once(post.Key, sum, func() (Receipt, error) { return in.put(ctx, post, sum) })
}

func (in *Inbox) put(ctx context.Context, post Post, sum string) (Receipt, error) {
	if bytes.Count(post.Body, format.LineBreak) > MaxPostLines {
		return Receipt{}, ErrManyRows
	}
	if err := post.Format.Validate(); err != nil {
		return Receipt{}, &PostError{Err: err}
	}
	data, line := bytes.TrimPrefix(post.Body, format.ByteOrderMark), int64(1)
	names, skip, err := in.columns(&post.Format, data)
	if err == nil {
		err = post.Format.CheckBreaks(data)
	}
	if err != nil {
		return Receipt{}, &PostError{Line: 1, Err: err}
	}
	line += int64(bytes.Count(data[:skip], format.LineBreak))
	head := spooled{Table: in.opt.Table.Name, Columns: names, Named: post.Format.Columns != nil, Format: post.Format, Notation: post.Values, Zone: zoneName(post.Values.Zone), Duplicates: in.opt.OnDuplicate}
	pool, err := in.shape(&head)
	if err != nil && in.look(ctx) == nil {
		pool, err = in.shape(&head)
	}
	if err != nil {
		refused := &PostError{Err: err}
		if post.Format.HasHeader() && !head.Named {
			refused.Line = 1
		}
		return Receipt{}, refused
	}
	// Telegraf with csv_header = true writes the header only in its first request, though its URL
	// may announce a header for all. So a post whose first line has values is refused: that row
	// would be skipped as a header.
	if post.Format.HasHeader() && head.Named {
		if err := pool.target.CheckHeader(data[:skip], 1); err != nil && (!post.Format.Header || pool.target.HasValues(data[:skip])) {
			return Receipt{}, &PostError{Err: err}
		}
	}
	data = data[skip:]
	receipt, err := in.check(pool, data, line)
	if err != nil {
		return Receipt{}, err
	}
	head.Line, head.Lines, head.Key, head.Sum = line, int64(bytes.Count(data, format.LineBreak)), post.Key, sum
	if data[len(data)-1] != '\n' {
		head.Lines++
	}
	first, err := json.Marshal(head)
	if err != nil {
		return Receipt{}, err
	}
	record := make([]byte, 0, len(first)+1+len(data)+1)
	record = append(append(append(record, first...), '\n'), data...)
	if record[len(record)-1] != '\n' {
		record = append(record, '\n')
	}
	to, err := in.appending.append(in.spool, record)
	if in.kept(err); err != nil {
		return Receipt{}, err
	}
	in.mark(to)
	in.opt.Reached("received")
	return receipt, nil
}

// kept notes whether a post could be kept, and says now and then why not.
func (in *Inbox) kept(err error) {
	r := &in.refusal
	r.Lock()
	defer r.Unlock()
	if r.err, r.at = err, time.Now(); err != nil && r.at.Sub(r.said) >= lane.SayFullEvery {
		r.said = r.at
		in.opt.Say(fmt.Sprintf("%s: rows are refused, because they can't be kept: %v", in.opt.Table.Name, err))
	}
}

// refuses returns why posts are refused, or nil. It regards a spool as full only for refusedFor.
func (in *Inbox) refuses() error {
	r := &in.refusal
	r.Lock()
	defer r.Unlock()
	if errors.Is(r.err, spool.ErrTooLarge) || errors.Is(r.err, spool.ErrFull) && time.Since(r.at) > refusedFor {
		return nil
	}
	return r.err
}

// columns returns the columns of a post's fields, and the length of its header.
func (in *Inbox) columns(f *format.Format, data []byte) (names []string, header int, err error) {
	if f.HasHeader() {
		if header, err = f.End(data, true); err != nil {
			return nil, 0, err
		}
		if names, err = f.HeaderNames(data[:header]); err != nil {
			return nil, 0, err
		}
	}
	if f.Columns != nil {
		return f.Columns, header, nil
	}
	if !f.HasHeader() {
		in.shapes.Lock()
		defer in.shapes.Unlock()
		names = format.Loadable(in.shapes.schema, f)
	}
	return names, header, nil
}

// shape returns the parsers for posts with this head.
func (in *Inbox) shape(head *spooled) (*shapePool, error) {
	key, err := head.shape()
	if err != nil {
		return nil, err
	}
	in.shapes.Lock()
	defer in.shapes.Unlock()
	if pool := in.shapes.pools[key]; pool != nil {
		return pool, nil
	}
	r := in.opt.Reading
	r.Schema = in.shapes.schema
	t, err := head.target(in.opt.DB, r)
	if err != nil {
		return nil, err
	}
	if len(in.shapes.pools) >= mostShapes {
		clear(in.shapes.pools)
	}
	pool := &shapePool{target: t, idle: sync.Pool{New: func() any { return format.NewParser(t) }}}
	in.shapes.pools[key] = pool
	return pool, nil
}

// check parses the rows of a post. It returns an error unless at least one row is good.
func (in *Inbox) check(pool *shapePool, data []byte, line int64) (Receipt, error) {
	p, _ := pool.idle.Get().(*format.Parser)
	if len(data) <= in.opt.Bytes { // don't keep the memory that a larger post took
		defer pool.idle.Put(p)
	}
	b := &format.Batch{Data: data, Target: pool.target}
	b.Line = line
	p.Parse(b)
	p.From = nil // don't keep the post's body in memory
	out := Receipt{Rows: p.Rows, Bad: int64(len(p.Rejected))}
	if out.Rows == 0 {
		return out, &PostError{Err: errors.New("it has no rows")}
	}
	for _, r := range p.Rejected[:min(len(p.Rejected), firstBad)] {
		r.Row = nil
		out.First = append(out.First, r)
	}
	clear(p.Rejected) // don't keep copies of the rows in memory
	if out.Bad == 0 {
		return out, nil
	}
	bad := &PostError{Line: out.First[0].Line, Column: out.First[0].Column, Err: errors.New(out.First[0].Reason)}
	if out.Bad == out.Rows {
		return out, bad
	}
	if info, err := os.Stat(in.opt.Bad); err == nil && info.Size() >= mostBadBytes {
		return out, fmt.Errorf("%w; rows that can't be loaded are no longer kept, as %s has %s", bad, in.opt.Bad, figure.Bytes(info.Size()))
	}
	return out, nil
}

// markEvery limits the number of marks. A mark's time is when its first record was taken; records
// taken less than markEvery later belong to the same mark. So Lag may be too long, by less than
// markEvery.
const markEvery = time.Second

func (in *Inbox) mark(to int64) {
	in.marks.Lock()
	defer in.marks.Unlock()
	if n := len(in.marks.times); n > 0 && time.Since(in.marks.times[n-1].at) < markEvery {
		in.marks.times[n-1].to = max(in.marks.times[n-1].to, to)
		return
	}
	in.unmarkLocked()
	in.marks.times = append(in.marks.times, mark{to, time.Now()})
}

// unmarkLocked forgets the marks of records that are loaded.
func (in *Inbox) unmarkLocked() {
	released := in.spool.Released()
	for len(in.marks.times) > 0 && in.marks.times[0].to <= released {
		in.marks.times = in.marks.times[1:]
	}
}

// An InboxStatus describes an inbox.
type InboxStatus struct {
	// Records and Bytes count the records in the spool that may not be in the table yet. Lag is the
	// age of the oldest of these records.
	Records, Bytes int64
	Lag            time.Duration
	// Rows counts the rows that this process has loaded, Unkept bad rows that didn't fit their file.
	Rows   state.Counts
	Unkept int64
	// Failure is the reason why nothing is loaded at present, or "", and Refusal why nothing is taken.
	Failure, Refusal string
}

// Status returns the present status.
func (in *Inbox) Status() InboxStatus {
	out := InboxStatus{}
	out.Records, out.Bytes = in.spool.Size()
	in.marks.Lock()
	in.unmarkLocked()
	if out.Records > 0 && len(in.marks.times) > 0 {
		out.Lag = time.Since(in.marks.times[0].at)
	}
	in.marks.Unlock()
	in.loadedRows.Lock()
	out.Rows, out.Unkept = in.loadedRows.Counts, in.loadedRows.unkept
	in.loadedRows.Unlock()
	if why := in.failure.Load(); why != nil {
		out.Failure = *why
	}
	if err := in.refuses(); err != nil {
		out.Refusal = err.Error()
	}
	return out
}

// Finish ends the inbox: Run returns once all posts are loaded, or at once if the database can't be
// reached.
func (in *Inbox) Finish() { in.finish() }

// Close closes the spool, whose records are kept. Run must have returned.
func (in *Inbox) Close() error { return in.spool.Close() }

const (
	firstFailure = time.Second
	lastFailure  = 30 * time.Second
)

// look reads the table's columns again, unless that was done just now. Concurrent callers wait.
func (in *Inbox) look(ctx context.Context) error {
	in.looking.Lock()
	defer in.looking.Unlock()
	if time.Since(in.looking.last) < lookLeast {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := in.opt.DB.Describe(ctx, in.opt.Table.Name)
	in.looking.last = time.Now()
	if err != nil {
		return err
	}
	in.shapes.Lock()
	defer in.shapes.Unlock()
	if !reflect.DeepEqual(s, in.shapes.schema) {
		close(in.shapes.changed)
		in.shapes.schema, in.shapes.pools, in.shapes.changed = s, map[string]*shapePool{}, make(chan struct{})
	}
	return nil
}

// Run loads posts until ctx ends, or until Finish was called and all posts are loaded. After each
// error, and whenever the table's columns have changed, it begins again with the posts that remain.
func (in *Inbox) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watch.Go(func() {
		for engine.Sleep(watching, lookEvery) == nil {
			_ = in.look(watching) // if the database can't be reached, the load reports it
		}
	})
	for try := 0; ; try++ {
		began := time.Now()
		in.shapes.Lock()
		changed := in.shapes.changed
		in.shapes.Unlock()
		err := in.load(ctx, changed)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if lane.IsClosed(changed) {
			continue
		}
		if time.Since(began) > lastFailure {
			try = 0
		}
		text := err.Error()
		in.failure.Store(&text)
		if lane.IsClosed(in.ending) {
			return err
		}
		pause := engine.Backoff(firstFailure, lastFailure, try)
		in.opt.Say(fmt.Sprintf("%s: rows that were received are kept and not loaded, will be tried again in %s: %v", in.opt.Table.Name, pause.Round(time.Second), err))
		if lane.SleepUnless(ctx, in.ending, pause) != nil || lane.IsClosed(in.ending) {
			return err
		}
		_ = in.look(ctx) // if the database can't be reached, the load reports it
	}
}

// load loads the spool's records until an error, or until the columns of the table have changed.
func (in *Inbox) load(ctx context.Context, changed <-chan struct{}) error {
	l, err := in.begin(ctx, spool.Found{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-in.ending:
			if !l.Failing() {
				return
			}
		case <-changed:
		case <-ctx.Done():
		}
		cancel()
	})
	in.failure.Store(nil)
	done := &acknowledger{Load: l.Load, sp: in.spool, at: max(l.Source.Loaded, l.gap), done: map[int64]committed{}}
	acknowledging, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ticking sync.WaitGroup
	ticking.Go(func() { done.each(acknowledging) })
	// Records that an earlier process or an earlier call has sent may be in the ledger.
	old := in.spool.End()
	err = l.Run(ctx, false, func(ctx context.Context, out chan<- *lane.Batch) error {
		return l.fromSpool(ctx, in.spool, old, done, out)
	}, func(work context.Context, b *lane.Batch, noted state.Batch) error {
		in.loadedRows.Lock()
		in.loadedRows.Add(noted.Counts)
		in.loadedRows.unkept += b.Unkept
		in.loadedRows.Unlock()
		return done.add(work, b.Batch, noted)
	})
	stop()
	ticking.Wait()
	for _, bad := range in.spool.Bad() {
		l.Say("spool %s: damaged: %s at %d: %s; set aside in %s", in.opt.Spool, figure.Plural(bad.Bytes, "byte", "bytes"), bad.Offset, bad.Reason, bad.File)
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), inboxPatience)
	defer end()
	return errors.Join(err, done.acknowledge(last))
}

// Has reports whether the table has a column of that name.
func (in *Inbox) Has(column string) bool {
	in.shapes.Lock()
	defer in.shapes.Unlock()
	return in.shapes.schema.Find(column) != nil
}

// TimeColumn returns the column by which the table rolls.
func (in *Inbox) TimeColumn() string { return in.opt.Table.By }
