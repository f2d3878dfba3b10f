package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Counts are numbers of rows. Each row Sent is Inserted, Updated, Duplicate or Rejected.
type Counts struct {
	Sent     int64 `json:"sent"`
	Inserted int64 `json:"inserted"`
	// Updated rows have changed a row with the same key.
	Updated int64 `json:"updated"`
	// Duplicate rows were not inserted, because the table has a row with their key. Some are compared
	// with the table's row. Different counts the compared rows with other values than the table's row.
	// Repeated counts the rows whose key the same source has loaded. A row may be counted in both.
	Duplicate int64 `json:"duplicate"`
	Different int64 `json:"different"`
	Repeated  int64 `json:"repeated"`
	Rejected  int64 `json:"rejected"`
}

// Add adds other counts.
func (c *Counts) Add(o Counts) {
	to, from := c.fields(), o.fields()
	for i := range to {
		*to[i] += *from[i]
	}
}

// Sub subtracts other counts.
func (c *Counts) Sub(o Counts) {
	to, from := c.fields(), o.fields()
	for i := range to {
		*to[i] -= *from[i]
	}
}

// fields are the counts in the order of countColumns.
func (c *Counts) fields() []*int64 {
	return []*int64{&c.Sent, &c.Inserted, &c.Updated, &c.Duplicate, &c.Different, &c.Repeated, &c.Rejected}
}

// into returns the counts for Scan, and args returns them as values of a statement.
func (c *Counts) into() (out []any) {
	for _, n := range c.fields() {
		out = append(out, n)
	}
	return out
}

func (c *Counts) args() (out []any) {
	for _, n := range c.fields() {
		out = append(out, *n)
	}
	return out
}

const (
	countColumns = "sent, inserted, updated, duplicate, different, repeated, rejected"
	setCounts    = "sent = ?, inserted = ?, updated = ?, duplicate = ?, different = ?, repeated = ?, rejected = ?"
)

// A Batch is a group of rows of a table that were sent together.
type Batch struct {
	Table string
	// ID is unique within the table, and the same for the same rows of a source.
	ID string
	// Also are the IDs of batches whose rows this one includes. Each gets a line with counts of 0.
	Also []string
	// Lower and Upper are the lowest and the highest position of its rows.
	Lower, Upper int64
	Counts
	// Touched are the ranges in which its rows lie, if known better than by Lower and Upper.
	Touched []rolling.Period
	// Extents are the ranges in which the batch's rows lie; nil means Inserted rows from Lower to
	// Upper. The ledger doesn't store them.
	Extents []Extent
}

// Tables with the columns that an engine.Loader inserts, or looks up by Has.
var (
	ledgerTable  = noteTable("rowmill_ledger", []string{"table_name", "batch"}, "lower_pos", "upper_pos", "sent", "inserted", "updated", "duplicate", "different", "repeated", "rejected", "at_us")
	touchedTable = noteTable("rowmill_touched", []string{"table_name", "writer"}, "lower_pos", "upper_pos")
	rollupsOf    = noteTable("rowmill_rollups", []string{"table_name"})
	sourceOf     = noteTable("rowmill_sources", []string{"table_name", "source"})
	droppedOf    = noteTable("rowmill_tables", []string{"name"}, "dropped_to")
)

func noteTable(name string, texts []string, integers ...string) *engine.Table {
	t := &engine.Table{Name: name}
	for _, c := range texts {
		t.Columns = append(t.Columns, engine.Column{Name: c, Type: engine.Varchar})
	}
	for _, c := range integers {
		t.Columns = append(t.Columns, engine.Column{Name: c, Type: engine.Int64})
	}
	return t
}

// noteRows returns an empty batch for the table t.
func noteRows(t *engine.Table) engine.Rows {
	return engine.Rows{Table: t, Batch: engine.NewBatch(t.Columns)}
}

// Before reads what the transaction that inserts a source's rows needs to record the batch: whether
// the table is rolled up, and whether the source is still known. If a file isn't known any more,
// since its table was created again, Before returns ErrForgotten; the next load then begins anew.
//
// Before is called after the rows are inserted, because from then on until the commit nobody can
// drop the table. dropped is nil or a former result of DroppedTo. moved reports whether DroppedTo
// has changed since: if not, all periods beyond dropped still exist.
func Before(ctx context.Context, l engine.Loader, f *Source, dropped *int64) (rolled, moved bool, err error) {
	rows := []engine.Rows{noteRows(rollupsOf), noteRows(sourceOf)}
	fill(rows[0].Batch, f.Table)
	fill(rows[1].Batch, f.Table, f.Key)
	if dropped != nil {
		rows = append(rows, noteRows(droppedOf))
		fill(rows[2].Batch, f.Table, *dropped)
	}
	has, err := l.Has(ctx, rows...)
	switch {
	case err != nil:
		return false, false, fmt.Errorf("records of %s: %w", f.Path, err)
	case f.resumes() && !has[1]:
		return false, false, ErrForgotten
	}
	return has[0], dropped != nil && !has[2], nil
}

// Rows returns what to insert in the transaction that inserts the batch's rows. First comes the
// batch's line of the ledger: if it exists already, the insert fails with engine.ErrDuplicateKey.
// If rolled is true, notes of the changed ranges follow, so that roll-ups read these ranges again
// if the batch was late. Whether it was late is known only after the commit. The insert of a note
// never waits for another transaction.
func (b *Batch) Rows(rolled bool) []engine.Rows {
	line := noteRows(ledgerTable)
	fill(line.Batch, slices.Concat([]any{b.Table, b.ID, b.Lower, b.Upper}, b.args(), []any{time.Now().UnixMicro()})...)
	for _, id := range b.Also {
		none := Counts{}
		fill(line.Batch, slices.Concat([]any{b.Table, id, b.Lower, b.Upper}, none.args(), []any{time.Now().UnixMicro()})...)
	}
	out := []engine.Rows{line}
	if !rolled || b.Inserted+b.Updated == 0 {
		return out
	}
	ranges := b.Touched
	if ranges == nil {
		ranges = []rolling.Period{{From: b.Lower, To: b.Upper + 1}}
	}
	notes := noteRows(touchedTable)
	for _, r := range ranges {
		fill(notes.Batch, b.Table, writerKey(b.ID), r.From, r.To-1)
	}
	return append(out, notes)
}

func fill(b *engine.Batch, values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case string:
			b.Columns[i].AppendBytes([]byte(v))
		case int64:
			b.Columns[i].Ints = append(b.Columns[i].Ints, v)
		}
	}
	b.EndRow()
}

// writerKey adds a random number to a writer's name. So if two transactions note the same range,
// neither waits for the other.
func writerKey(writer string) string { return fmt.Sprintf("%.150s#%016x", writer, rand.Uint64()) }

// A ledger records loaded batches, and sources with their cuts and extents.
type ledger struct{ *database }

// Touch records, in the transaction that changes rows, the range of the changed rows: the table's
// roll-ups must read the range again. The name of the writer is only for users to read.
func (s ledger) Touch(ctx context.Context, x Exec, table, writer string, r rolling.Period) error {
	return because("record changed rows of "+table,
		s.insert(ctx, x, "rowmill_touched (table_name, lower_pos, upper_pos, writer)", []any{table, r.From, r.To - 1, writerKey(writer)}))
}

const batchColumns = "batch, lower_pos, upper_pos, " + countColumns

func (b *Batch) fields() []any {
	return append([]any{&b.ID, &b.Lower, &b.Upper}, b.into()...)
}

// Noted returns the ledger's line of a batch, or nil.
func (s ledger) Noted(ctx context.Context, x Exec, table, id string) (*Batch, error) {
	b := Batch{Table: table}
	found, err := s.one(ctx, x, "ledger of "+table, b.fields(), "SELECT "+batchColumns+" FROM rowmill_ledger WHERE table_name = ? AND batch = ?", table, id)
	if !found {
		return nil, err
	}
	return &b, nil
}

// Kinds of sources.
const (
	FileSource   = "file"   // can be read again from its start
	ServerSource = "server" // a table of another server, which is read in ranges of its key
	SpoolSource  = "spool"  // a stream whose bytes are kept in a spool until they are loaded
	StreamSource = "stream" // a stream that can't be read again
)

// A Source is a file or a stream whose rows are loaded into a table.
type Source struct {
	Table string
	// Key identifies it among the table's sources; the IDs of its batches begin with it.
	Key string
	// Path is its name for users, Kind one of the kinds of sources.
	Path, Kind string
	// Loaded is the offset up to which it was loaded, after Lines lines. Hash is that of these bytes.
	Loaded, Lines int64
	Hash          string
	// HeadHash is the hash of the first Head bytes. It distinguishes files of the same name.
	Head     int64
	HeadHash string
	// Options are the load's options that determine what its bytes mean, as the loader writes them.
	Options string
	// Counts are the counts of the rows up to Loaded.
	Counts
	// Finished reports that all of its data was loaded.
	Finished bool
	// Started is when its load began, At when this was recorded.
	Started, At time.Time
}

// resumes reports whether an interrupted load of the source continues where it ended.
func (f *Source) resumes() bool { return f.Kind == FileSource || f.Kind == ServerSource }

// A Cut is a batch of a file, as a range of bytes.
type Cut struct {
	From, To int64
	// Line is the number of its first line, from 1; Lines the number of its lines.
	Line, Lines int64
	Hash        string
}

// ID is the batch's id in the ledger: source, range of bytes, hash of those bytes.
func (c Cut) ID(source string) string {
	return fmt.Sprintf("%s@%d-%d#%s", source, c.From, c.To, c.Hash)
}

const sourceColumns = "source, path, kind, loaded, loaded_lines, loaded_hash, head, head_hash, options, " + countColumns + ", finished, started_us, updated_us"

// Sources returns a table's sources, newest first. kind and path, unless empty, restrict them.
func (s ledger) Sources(ctx context.Context, table, kind, path string) ([]Source, error) {
	all, err := s.sources(ctx, table, "")
	// The paths are compared here: a server's collation may consider different paths equal.
	return slices.DeleteFunc(all, func(f Source) bool { return kind != "" && f.Kind != kind || path != "" && f.Path != path }), err
}

func (s ledger) sources(ctx context.Context, table, where string, args ...any) ([]Source, error) {
	all, err := list(ctx, s.database, "sources of "+table, func(r *sql.Rows, f *Source) error {
		f.Table = table
		return r.Scan(slices.Concat([]any{&f.Key, &f.Path, &f.Kind, &f.Loaded, &f.Lines, &f.Hash, &f.Head, &f.HeadHash, &f.Options},
			f.into(), []any{&f.Finished, micros{&f.Started}, micros{&f.At}})...)
	}, "SELECT "+sourceColumns+" FROM rowmill_sources WHERE table_name = ?"+where+" ORDER BY started_us DESC, source", append([]any{table}, args...)...)
	return all, err
}

// Source returns a source of a table by its key, or nil.
func (s ledger) Source(ctx context.Context, table, key string) (*Source, error) {
	all, err := s.sources(ctx, table, " AND source = ?", key)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// FilesLike returns the recorded files of which a given file may be a continuation, newest first:
// files with the same path, and files whose recorded first bytes are also the first of the given
// file, if rows of theirs were loaded or their load is unfinished. has reports whether the first n
// bytes of the given file have this hash; n is never more than most. As there may be very many
// files, FilesLike reads few of their columns.
func (s ledger) FilesLike(ctx context.Context, table, path string, most int64, has func(n int64, hash string) bool) ([]Source, error) {
	var keys []string
	err := engine.Each(ctx, s.db, s.DB(), func(r *sql.Rows) error {
		var key, hash string
		var n int64
		err := r.Scan(&key, &n, &hash)
		if err == nil && has(n, hash) {
			keys = append(keys, key)
		}
		return err
	}, "SELECT source, head, head_hash FROM rowmill_sources WHERE table_name = ? AND kind = ? AND head <= ? AND (sent > 0 OR finished = 0)", table, FileSource, most)
	if err != nil {
		return nil, fmt.Errorf("sources of %s: %w", table, err)
	}
	all, err := s.sources(ctx, table, " AND kind = ? AND path = ?", FileSource, path)
	if err != nil {
		return nil, err
	}
	// A server's collation may consider two different paths equal.
	all = slices.DeleteFunc(all, func(f Source) bool { return f.Path != path })
	for _, f := range all {
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == f.Key })
	}
	for part := range slices.Chunk(keys, notedAtATime) {
		args := make([]any, len(part))
		for i, key := range part {
			args[i] = key
		}
		more, err := s.sources(ctx, table, " AND source IN "+places(len(part)), args...)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	slices.SortStableFunc(all, func(a, b Source) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Key, b.Key)) })
	return all, nil
}

// Unfinished returns the keys, paths and kinds of sources whose load into a table has not ended: it
// runs, or was killed. The sources are files, and tables of other servers.
func (s ledger) Unfinished(ctx context.Context, table string) ([]Source, error) {
	return list(ctx, s.database, "sources of "+table, func(r *sql.Rows, f *Source) error {
		f.Table = table
		return r.Scan(&f.Key, &f.Path, &f.Kind)
	}, "SELECT source, path, kind FROM rowmill_sources WHERE table_name = ? AND kind IN (?, ?) AND finished = 0 ORDER BY source", table, FileSource, ServerSource)
}

// Reach returns the range of a source's rows in the ledger, empty if the ledger has none.
func (s ledger) Reach(ctx context.Context, f *Source) (p rolling.Period, err error) {
	var from, to sql.NullInt64
	_, err = s.one(ctx, s.DB(), "ledger of "+f.Table, []any{&from, &to},
		"SELECT MIN(lower_pos), MAX(upper_pos) FROM rowmill_ledger WHERE table_name = ? AND batch LIKE ? AND sent > rejected", f.Table, f.Key+"@%")
	if !from.Valid {
		return p, err
	}
	return rolling.Period{From: from.Int64, To: to.Int64 + 1}, err
}

// LoadLock is the name of the lock that the load of a source holds while it runs.
func LoadLock(table, source string) string { return table + "/load/" + source }

// ErrForgotten is the error if the record of a source was removed while the source was being
// loaded, because the table was dropped and created again.
var ErrForgotten = errors.New("its record was removed while it was loaded: its table was dropped and created again")

// PutSource records a source, in the transaction of x. If the source is a file of which a part is
// loaded, and its record was removed meanwhile, PutSource returns ErrForgotten.
func (s ledger) PutSource(ctx context.Context, x Exec, f *Source) error {
	f.At = time.Now()
	if f.Started.IsZero() {
		f.Started = f.At
	}
	now, what := f.At.UnixMicro(), "record how far "+f.Path+" is loaded"
	n, err := s.exec(ctx, x, "UPDATE rowmill_sources SET loaded = ?, loaded_lines = ?, loaded_hash = ?, head = ?, head_hash = ?, options = ?, "+
		setCounts+", finished = ?, updated_us = ? WHERE table_name = ? AND source = ?",
		slices.Concat([]any{f.Loaded, f.Lines, f.Hash, f.Head, f.HeadHash, f.Options}, f.args(), []any{bit(f.Finished), now, f.Table, f.Key})...)
	if err == nil && n == 0 {
		if f.resumes() && f.Loaded > 0 {
			return because(what, ErrForgotten)
		}
		err = s.insert(ctx, x, "rowmill_sources (table_name, "+sourceColumns+")", slices.Concat([]any{f.Table, f.Key, f.Path, f.Kind, f.Loaded, f.Lines, f.Hash,
			f.Head, f.HeadHash, f.Options}, f.args(), []any{bit(f.Finished), f.Started.UnixMicro(), now}))
	}
	return because(what, err)
}

// Cuts returns the cuts of a file, in order.
func (s ledger) Cuts(ctx context.Context, table, source string) ([]Cut, error) {
	return list(ctx, s.database, "batches of "+table, func(r *sql.Rows, c *Cut) error { return r.Scan(&c.From, &c.To, &c.Line, &c.Lines, &c.Hash) },
		"SELECT lower_byte, upper_byte, line, line_count, hash FROM rowmill_cuts WHERE table_name = ? AND source = ? ORDER BY lower_byte", table, source)
}

// PutCuts records cuts of a file. It returns once they are committed.
func (s ledger) PutCuts(ctx context.Context, table, source string, cuts []Cut) error {
	return s.putCuts(ctx, s.DB(), table, source, cuts)
}

// BeginSource records a file and its first cuts in one transaction.
func (s ledger) BeginSource(ctx context.Context, f *Source, cuts []Cut) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := s.PutSource(ctx, tx, f); err != nil {
			return err
		}
		return s.putCuts(ctx, tx, f.Table, f.Key, cuts)
	})
}

func (s ledger) putCuts(ctx context.Context, x Exec, table, source string, cuts []Cut) error {
	if len(cuts) == 0 {
		return nil
	}
	rows := make([][]any, len(cuts))
	for i, c := range cuts {
		rows[i] = []any{table, source, c.From, c.To, c.Line, c.Lines, c.Hash}
	}
	return because("record the batches of "+table,
		s.insert(ctx, x, "rowmill_cuts (table_name, source, lower_byte, upper_byte, line, line_count, hash)", rows...))
}

// notedAtATime is how many batches one statement names.
const notedAtATime = 500

// batchesOf calls fn for groups of at most notedAtATime ids. fn gets the text, from FROM on, of a
// statement on the ledger's lines of these batches, and the values for the text's placeholders.
func batchesOf(table string, ids []string, fn func(from string, args []any) error) error {
	for part := range slices.Chunk(ids, notedAtATime) {
		args := []any{table}
		for _, id := range part {
			args = append(args, id)
		}
		if err := fn(" FROM rowmill_ledger WHERE table_name = ? AND batch IN "+places(len(part)), args); err != nil {
			return fmt.Errorf("ledger of %s: %w", table, err)
		}
	}
	return nil
}

// NotedOf returns the batches, by their ids, of those cuts of a source that are in the ledger.
func (s ledger) NotedOf(ctx context.Context, table, source string, cuts []Cut) (map[string]Batch, error) {
	ids := make([]string, len(cuts))
	for i, c := range cuts {
		ids[i] = c.ID(source)
	}
	return s.NotedWith(ctx, table, ids)
}

// NotedWith returns those of the batches with these ids that are in the ledger.
func (s ledger) NotedWith(ctx context.Context, table string, ids []string) (map[string]Batch, error) {
	out := map[string]Batch{}
	err := batchesOf(table, ids, func(from string, args []any) error {
		return engine.Each(ctx, s.db, s.DB(), func(r *sql.Rows) error {
			b := Batch{Table: table}
			err := r.Scan(b.fields()...)
			out[b.ID] = b
			return err
		}, "SELECT "+batchColumns+from, args...)
	})
	return out, err
}

// The statements that remove records of a source.
const (
	removeSource  = "DELETE FROM rowmill_sources WHERE table_name = ? AND source = ?"
	removeCuts    = "DELETE FROM rowmill_cuts WHERE table_name = ? AND source = ?"
	removeBatches = "DELETE FROM rowmill_ledger WHERE table_name = ? AND batch LIKE ?"
)

// Settle records, in one transaction, up to which offset a source is loaded, and the extents of its
// rows. It removes the source's cuts up to this offset, and its publications. It leaves the
// source's lines in the ledger, which Tidy removes later.
func (s ledger) Settle(ctx context.Context, f *Source, extents []Extent) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := s.PutSource(ctx, tx, f); err != nil {
			return err
		}
		if err := s.putExtents(ctx, tx, f, extents); err != nil {
			return err
		}
		if _, err := s.exec(ctx, tx, removePublications, f.Table, f.Key); err != nil {
			return err
		}
		_, err := s.exec(ctx, tx, removeCuts+" AND upper_byte <= ?", f.Table, f.Key, f.Loaded)
		return err
	})
}

// Unload resets a source that has no rows in the table to the state in which nothing was loaded.
func (s ledger) Unload(ctx context.Context, f *Source) error {
	fresh := Source{Table: f.Table, Key: f.Key, Path: f.Path, Kind: f.Kind, Head: f.Head, HeadHash: f.HeadHash, Started: f.Started}
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := s.PutSource(ctx, tx, &fresh); err != nil {
			return err
		}
		if err := s.run(ctx, tx, "ledger of "+f.Table, removeBatches+" AND inserted + updated = 0", f.Table, f.Key+"@%"); err != nil {
			return err
		}
		if _, err := s.exec(ctx, tx, removePublications, f.Table, f.Key); err != nil {
			return err
		}
		_, err := s.exec(ctx, tx, removeCuts, f.Table, f.Key)
		return err
	})
}

// Acknowledge records up to which offset a spool is loaded, and removes the ledger's lines of those
// batches that the owner of the spool never sends again. If a greater offset is recorded, it
// returns an error: then somebody also loads a copy of the spool, for example on a cloned machine.
func (s ledger) Acknowledge(ctx context.Context, f *Source, ids []string) error {
	f.At = time.Now()
	return s.within(ctx, func(tx *sql.Tx) error {
		n, err := s.exec(ctx, tx, "UPDATE rowmill_sources SET loaded = ?, "+setCounts+", updated_us = ? "+
			"WHERE table_name = ? AND source = ? AND loaded <= ?",
			slices.Concat([]any{f.Loaded}, f.args(), []any{f.At.UnixMicro(), f.Table, f.Key, f.Loaded})...)
		if err != nil {
			return fmt.Errorf("record how far %s is loaded: %w", f.Path, err)
		}
		if n == 0 {
			return engine.Hinted(fmt.Errorf("record that %s is loaded up to byte %d: the database has a later position, or none", f.Path, f.Loaded),
				"one spool for each machine: a copy of another's has to be emptied first")
		}
		return batchesOf(f.Table, ids, func(from string, args []any) error {
			_, err := s.exec(ctx, tx, "DELETE"+from, args...)
			return err
		})
	})
}

// Tidy removes ledger lines older than before, if they are of finished files or of streams. As long
// as a batch's line exists, the batch can't be committed twice: by a loader that sends it again, or
// by a server that commits it only after its loader has died.
func (s ledger) Tidy(ctx context.Context, table string, before time.Time) error {
	old, err := engine.List[string](ctx, s.db, s.DB(), "SELECT DISTINCT SUBSTR(batch, 1, 16) FROM rowmill_ledger WHERE table_name = ? AND at_us < ?", table, before.UnixMicro())
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", table, err)
	}
	all, err := s.Sources(ctx, table, "", "")
	if err != nil {
		return err
	}
	for _, f := range all {
		past := f.At.Before(before)
		if slices.Contains(old, f.Key) && (f.Kind == StreamSource || f.resumes() && f.Finished && past) {
			q, args := removeBatches+" AND at_us < ?", []any{table, f.Key + "@%", before.UnixMicro()}
			if f.resumes() { // another load may have continued it meanwhile
				q += " AND EXISTS (SELECT 1 FROM rowmill_sources AS s WHERE s.table_name = ? AND s.source = ? AND s.finished = 1 AND s.updated_us < ?)"
				args = append(args, table, f.Key, before.UnixMicro())
			}
			if err := s.run(ctx, s.DB(), "ledger of "+table, q, args...); err != nil {
				return err
			}
		}
		if f.Kind == StreamSource && past {
			if err := s.run(ctx, s.DB(), "sources of "+table, removeSource, table, f.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// An Extent is a range of positions in which a source had rows, of which it inserted at least Rows.
type Extent struct {
	rolling.Period
	Rows int64
}

// Accepted marks a source whose missing rows the user has accepted. No row can lie in this range.
var Accepted = Extent{Period: rolling.Period{From: math.MinInt64 + 1, To: math.MinInt64 + 2}}

// Extents returns where the rows of a loaded source lie, in order. They outlast the ledger's lines.
func (s ledger) Extents(ctx context.Context, table, source string) ([]Extent, error) {
	return list(ctx, s.database, "where rows of sources of "+table+" lie", func(r *sql.Rows, e *Extent) error {
		err := r.Scan(&e.From, &e.To, &e.Rows)
		e.To++
		return err
	}, "SELECT lower_pos, upper_pos, row_count FROM rowmill_loaded WHERE table_name = ? AND source = ? ORDER BY lower_pos, upper_pos", table, source)
}

// extentsAtATime is how many extents one statement inserts.
const extentsAtATime = 200

// putExtents replaces the extents of a source by all, no two of which have the same bounds.
func (s ledger) putExtents(ctx context.Context, x Exec, f *Source, all []Extent) error {
	_, err := s.exec(ctx, x, "DELETE FROM rowmill_loaded WHERE table_name = ? AND source = ?", f.Table, f.Key)
	for part := range slices.Chunk(all, extentsAtATime) {
		rows := make([][]any, len(part))
		for i, e := range part {
			rows[i] = []any{f.Table, f.Key, e.From, e.To - 1, e.Rows}
		}
		if err == nil {
			err = s.insert(ctx, x, "rowmill_loaded (table_name, source, lower_pos, upper_pos, row_count)", rows...)
		}
	}
	return because("record where the rows of "+f.Path+" lie", err)
}

// PutExtents replaces the extents of a source.
func (s ledger) PutExtents(ctx context.Context, f *Source, all []Extent) error {
	return s.within(ctx, func(tx *sql.Tx) error { return s.putExtents(ctx, tx, f, all) })
}

// ForgetSource deletes all records of the source f. It records only the extents of f's rows, which
// are in the parameter there. If the same file is loaded again, it counts as new.
func (s ledger) ForgetSource(ctx context.Context, f *Source, there []Extent) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		err := s.putExtents(ctx, tx, f, there)
		for _, q := range []string{removeSource, removeCuts, removePublications} {
			if err == nil {
				err = s.run(ctx, tx, "remove the record of what was loaded of "+f.Path, q, f.Table, f.Key)
			}
		}
		if err != nil {
			return err
		}
		return s.run(ctx, tx, "ledger of "+f.Table, removeBatches, f.Table, f.Key+"@%")
	})
}

// ResetRows removes what is recorded about a table's rows, in the transaction of x, before the
// table is created again. No period remains sealed. Archived periods become dropped ones, so that
// they can be restored. What a spool has delivered stays recorded, because the spool no longer has
// it.
func (s ledger) ResetRows(ctx context.Context, x Exec, table string) error {
	for _, q := range []struct {
		text string
		args []any
	}{
		{"DELETE FROM rowmill_sources WHERE table_name = ? AND kind <> ?", []any{table, SpoolSource}},
		{"DELETE FROM rowmill_cuts WHERE table_name = ?", []any{table}},
		{"DELETE FROM rowmill_publications WHERE table_name = ?", []any{table}},
		{"DELETE FROM rowmill_loaded WHERE table_name = ?", []any{table}},
		{"DELETE FROM rowmill_ledger WHERE table_name = ?", []any{table}},
		{"DELETE FROM rowmill_states WHERE table_name = ? AND archive = ''", []any{table}},
		{"UPDATE rowmill_states SET state = ?, updated_us = ? WHERE table_name = ?", []any{Dropped, time.Now().UnixMicro(), table}},
		{"UPDATE rowmill_tables SET sealed_to = ?, dropped_to = 0 WHERE name = ?", []any{int64(math.MinInt64), table}},
	} {
		if err := s.run(ctx, x, "begin a new ledger for "+table, q.text, q.args...); err != nil {
			return err
		}
	}
	return nil
}
