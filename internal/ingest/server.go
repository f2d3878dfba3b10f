package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A From is a table of another server, whose rows are loaded.
type From struct {
	DB engine.Keeper
	// Table is its name. Name names the source: server, database, table, but no user and no password.
	Table, Name string
	// Range, unless empty, limits the rows to positions of the destination's axis. The rows are loaded
	// anew each time; rows whose key is already in the table are duplicates.
	Range rolling.Period
}

// whole reports whether the rows are not limited.
func (f *From) whole() bool { return f.Range == rolling.Period{} }

// Server loads the rows of another server's table, in chunks along its primary key, several at a
// time. A chunk is a batch: its first and last key are recorded before it is sent, so that an
// interrupted load continues with the same chunks. If an earlier load of the table has finished,
// Server reads only the rows after the last key of that load.
//
// Without a usable primary key, or with From.Range, nothing is recorded, and an interrupted load
// begins anew. The destination must then have a key that identifies rows which are already there.
func Server(ctx context.Context, o Options, from From) (lane.Result, error) {
	o.Format = format.Format{Kind: format.TSV, NoHeader: true, Nulls: []string{`\N`}, Columns: o.Format.Columns}
	o.Values = value.Notation{Bytes: value.Raw, TruncateTimes: o.Values.TruncateTimes, Unix: o.Values.Unix}
	common, err := lane.New(&o.Sending, o.pool)
	if err != nil {
		return lane.Result{}, err
	}
	l := &serverLoad{Load: common, opt: &o, from: from}
	l.Unit = "row"
	l.Position = l.share
	name := cmp.Or(o.Name, from.Name)
	if !from.whole() {
		grid := o.Table.Grid
		name += " since " + grid.Format(from.Range.From)
		if from.Range.To < grid.Bounds().To {
			name += " until " + grid.Format(from.Range.To)
		}
	}
	l.Source = &state.Source{Table: o.Table.Name, Path: name, Kind: state.ServerSource, Key: newKey()}
	return l.Finish(l.start(ctx))
}

type serverLoad struct {
	*lane.Load
	opt      *Options
	from     From
	fetch    *fetch
	keys     *engine.Keys // nil without a usable primary key
	first    engine.SchemaColumn
	segments []segment
	snapshot *snapshot
	target   *format.Target
	columns  []string

	mu   sync.Mutex
	plan plan
	done map[state.Cut]state.Counts // the loaded chunks of plan.Open, by their cuts
	// readRows and readBytes count the rows that were read from the source, and their bytes.
	readRows, readBytes atomic.Int64
	// passed is the share of the source's rows that is divided into chunks so far, in millionths.
	// skipped is the share that earlier loads had sent.
	passed, skipped, sending atomic.Int64
}

func (l *serverLoad) share(p *lane.Progress) {
	p.Share, p.ShareBefore = float64(l.passed.Load())/1e6, float64(l.skipped.Load())/1e6
	if began := l.sending.Load(); began > 0 {
		p.Sending = p.Elapsed - time.Duration(began)
	}
}

func (l *serverLoad) start(ctx context.Context) error {
	if err := l.Retry(ctx, func() error { return l.look(ctx) }); err != nil {
		return fmt.Errorf("source %s: %w", l.Source.Path, err)
	}
	l.snapshot = &snapshot{db: l.from.DB, renewed: func() {
		l.Say("%s: the connection that held its snapshot was lost: what remains is read as it is now", l.Source.Path)
	}}
	err := l.loadAll(ctx)
	if closed := l.snapshot.close(); !lane.Transient(closed) {
		err = errors.Join(err, closed)
	}
	return err
}

func (l *serverLoad) loadAll(ctx context.Context) error {
	resumes := l.keys != nil && l.from.whole()
	if l.opt.Dry || !resumes {
		// Replace the bad rows of the run before, because this run reads all rows again.
		l.BadKey = "anew " + format.HashOf([]byte(l.from.Name+l.opt.Name))
		if err := l.ForgetBad(l.BadKey); err != nil {
			return err
		}
	}
	switch {
	case l.opt.Dry:
		return l.send(ctx)
	case resumes:
		return l.resumable(ctx)
	case !l.target.HasKey(l.opt.Schema):
		err := fmt.Errorf("table %s has no key without NULL of which the source has all columns: a row that is loaded twice would be there twice", l.opt.Table.Name)
		if l.from.whole() {
			err = fmt.Errorf("%s can't be read in the order of a primary key, so that an interrupted load begins anew, and %w", l.from.Table, err)
		}
		return engine.Hinted(err, "a primary key of numbers, times or text in the source")
	case l.from.whole():
		l.Say("%s has no primary key in whose order it can be read: it is read in one pass, and an interrupted load begins anew", l.from.Table)
	}
	l.Source.Kind = state.StreamSource
	if err := l.Tidy(ctx); err != nil {
		return err
	}
	if err := l.Retry(ctx, func() error { return l.State.PutSource(ctx, l.State.DB(), l.Source) }); err != nil {
		return err
	}
	err := l.send(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lane.EndWait)
	defer cancel()
	l.Source.Finished, l.Source.Counts = true, l.Result.Counts // however the load ended, nobody needs the source's record any more
	return errors.Join(err, l.State.PutSource(last, l.State.DB(), l.Source))
}

func (l *serverLoad) look(ctx context.Context) error {
	db := l.from.DB
	s, err := db.Describe(ctx, l.from.Table)
	if err != nil {
		return engine.Hinted(fmt.Errorf("look at table %s: %w", l.from.Table, err), "--from-table with the name of its table")
	}
	columns, names, err := sharedColumns(s, l.opt.Schema, l.opt.Format.Columns)
	if err != nil {
		return err
	}
	if l.target, err = format.NewTarget(l.opt.DB.Capabilities(), &l.opt.Format, names, &l.opt.Reading); err != nil {
		return err
	}
	l.columns, l.fetch = names, newFetch(db, columns, l.target.Columns)
	key := s.Key()
	if !slices.ContainsFunc(key, func(k engine.SchemaColumn) bool { return k.Null || !k.SortsByValue() }) {
		if keys, err := engine.NewKeys(db, key); err == nil {
			l.keys, l.first = keys, key[0]
		}
	}
	return l.split(ctx, s)
}

func (l *serverLoad) split(ctx context.Context, s *engine.Schema) error {
	db := l.from.DB
	t := *l.opt.Table
	t.Name = l.from.Table
	by := s.Find(t.By)
	if by != nil {
		t.By, t.Columns = by.Name, nil
		t.Definition = &rolling.Definition{Columns: []rolling.DefinedColumn{{Name: by.Name, Type: by.Native}}}
		if by.Kind != value.Int {
			t.Epoch = 0
		}
	}
	where := ""
	if r := l.from.Range; !l.from.whole() {
		if by == nil {
			return fmt.Errorf("table %s has no column %s, by which table %s rolls", s.Name, l.opt.Table.By, l.opt.Table.Name)
		}
		if by.Kind == value.Int && t.Epoch == 0 {
			return fmt.Errorf("column %s of table %s counts, and that of table %s has times: a range of time can't be selected", by.Name, s.Name, l.opt.Table.Name)
		}
		name := db.Dialect().Quote(by.Name)
		where = name + " >= " + db.Words().Literal(&t, r.From)
		if r.To < t.Grid.Bounds().To {
			where += " AND " + name + " < " + db.Words().Literal(&t, r.To)
		}
	}
	if !s.View || !s.Partitioned {
		l.segments = []segment{{from: db.Dialect().Quote(s.Name), where: where}}
		return nil
	}
	// The server would read the whole view for each chunk, so its periods are read one by one.
	parts, err := db.Catalog().Partitions(ctx, &t)
	if err != nil {
		return err
	}
	l.segments = nil
	for _, p := range parts {
		if l.from.whole() || p.Overlaps(l.from.Range) {
			l.segments = append(l.segments, segment{p.From, db.Words().From(&t, p), where})
		}
	}
	return nil
}

// resumable loads the rows under the source's lock, and takes the lock again if it is lost.
func (l *serverLoad) resumable(ctx context.Context) error {
	return l.Relock(ctx, l.Source.Path, func(again bool) error {
		return l.WhileLocked(ctx, l.Source.Path, again, func(ctx context.Context) error {
			if err := l.Tidy(ctx); err != nil {
				return err
			}
			known, err := lane.Retried(ctx, l.Load, func() ([]state.Source, error) {
				return l.State.Sources(ctx, l.Source.Table, state.ServerSource, l.Source.Path)
			})
			if err != nil {
				return err
			}
			if len(known) > 0 {
				l.Source = &known[0]
			}
			// While this lock is held, maintenance knows that the load is running.
			return l.WhileLocked(ctx, l.Source.Key, again, l.recorded)
		})
	})
}

// recorded loads the rows that are not loaded yet, and records its progress.
func (l *serverLoad) recorded(ctx context.Context) error {
	options := fmt.Sprintf("truncate-times=%t unix-times=%s", l.opt.Values.TruncateTimes, l.opt.Values.Unix)
	l.plan, l.done = plan{Columns: l.columns, Options: options, Ends: map[int64][]string{}}, map[state.Cut]state.Counts{}
	if !l.Source.Started.IsZero() {
		if l.opt.Again {
			if err := l.forget(ctx); err != nil {
				return err
			}
		} else if err := l.recall(ctx, options); err != nil {
			return fmt.Errorf("%s: %w", l.Source.Path, err)
		}
	}
	if !l.Recounted() {
		l.Recount(state.Counts{})
	}
	if err := l.send(ctx); err != nil {
		return err
	}
	all := l.Source.Counts
	for _, c := range l.done {
		all.Add(c)
	}
	if all.Rejected > 0 && all.Inserted+all.Updated+all.Duplicate == 0 {
		// No row was loaded: forgotten, so that the same command with other options loads all.
		return l.Retry(ctx, func() error { return l.State.Unload(ctx, l.Source) })
	}
	l.Source.Finished = true
	return lane.Forgotten(l.record(ctx, nil, nil))
}

func (l *serverLoad) recall(ctx context.Context, options string) error {
	s, was := l.Source, plan{}
	if s.Options == "" {
		return nil // all of its rows were rejected
	}
	if err := json.Unmarshal([]byte(s.Options), &was); err != nil {
		return fmt.Errorf("the record of how far it is loaded: %w", err)
	}
	fresh := l.plan
	l.plan = was
	cuts := make([]state.Cut, len(was.Open))
	for i, c := range was.Open {
		cuts[i] = c.cut()
	}
	noted, err := lane.Retried(ctx, l.Load, func() (map[string]state.Batch, error) { return l.State.NotedOf(ctx, s.Table, s.Key, cuts) })
	if err != nil {
		return err
	}
	known := s.Counts
	for i, c := range was.Open {
		b, there := noted[cuts[i].ID(s.Key)]
		if !there {
			continue
		}
		l.done[c.cut()] = b.Counts
		known.Add(b.Counts)
	}
	if !slices.Equal(was.Columns, fresh.Columns) || was.Options != options {
		if known.Inserted+known.Updated+known.Duplicate == 0 {
			l.plan, l.done = fresh, map[state.Cut]state.Counts{}
			return l.anew(ctx, "its load begins anew, because no row of it is in the table")
		}
		return engine.Hinted(fmt.Errorf("it was loaded with other options: columns %s, %s; they are now %s, %s",
			strings.Join(was.Columns, ","), was.Options, strings.Join(fresh.Columns, ","), options),
			"the same options; --again loads all of it, and skips rows whose key is in the table")
	}
	if !l.Recounted() {
		l.Result.LoadedAt = s.At
	}
	l.Recount(known)
	if s.Finished {
		l.Say("%s was loaded on %s: only rows with a higher key than then are loaded; --again loads all of it, and skips rows whose key is in the table", s.Path, minute(s.At))
	}
	s.Finished = false
	return nil
}

// forget makes a source that was loaded new again.
func (l *serverLoad) forget(ctx context.Context) error {
	if !l.target.HasKey(l.opt.Schema) {
		return engine.Hinted(fmt.Errorf("table %s has no key without NULL of which the source has all columns: rows of it that are in the table would be there twice", l.opt.Table.Name),
			"DELETE the rows of the source first, and --source with another name")
	}
	return l.anew(ctx, fmt.Sprintf("it was loaded on %s: it is loaded again", minute(l.Source.At)))
}

func (l *serverLoad) anew(ctx context.Context, why string) error {
	s := l.Source
	if err := l.Retry(ctx, func() error { return l.State.ForgetSource(ctx, s, nil) }); err != nil {
		return err
	}
	l.Say("%s: %s", s.Path, why)
	l.Source = &state.Source{Table: s.Table, Path: s.Path, Kind: s.Kind, Key: s.Key}
	l.opt.Again = false // after a lost lock, the load continues and does not begin again
	return nil
}

// record adds chunks that are about to be sent to the recorded plan. If instead isn't nil, it is a
// chunk that was divided, and the chunks of group replace it. Loaded chunks leave the plan if no
// chunk before them is still to be loaded.
func (l *serverLoad) record(ctx context.Context, group []*chunk, instead *chunk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, s := &l.plan, l.Source
	if i := slices.Index(p.Open, instead); instead != nil && i >= 0 {
		p.Open = slices.Replace(p.Open, i, i+1, group...)
	} else {
		p.Open = append(p.Open, group...)
	}
	n := 0
	for _, c := range p.Open {
		counts, is := l.done[c.cut()]
		if !is {
			break
		}
		s.Add(counts)
		delete(l.done, c.cut())
		p.Ends[c.Segment], p.Next = c.Last, c.To
		n++
	}
	p.Open = slices.Clone(p.Open[n:])
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	s.Options, s.Loaded, s.Lines = string(text), p.Next, p.Next
	return l.Retry(ctx, func() error { return l.State.PutSource(ctx, l.State.DB(), s) })
}

func (l *serverLoad) records() bool { return l.Source.Kind == state.ServerSource && !l.opt.Dry }

// ServerName returns the name of a server's table as a source: the target without the user and
// without options that don't identify the database. printable is the target without the password.
func ServerName(printable, table string) (string, error) {
	t, err := engine.ParseTarget(printable)
	if err != nil {
		return "", err
	}
	t.User = ""
	for name := range t.Query {
		if name != "socket" && name != "host" {
			t.Query.Del(name)
		}
	}
	return t.String() + " " + table, nil
}
