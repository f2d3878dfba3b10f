package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// Kinds of sources.
const (
	FileSource   = "file"   // can be read again from its start
	SpoolSource  = "spool"  // a stream whose bytes are kept in a spool until they are loaded
	StreamSource = "stream" // a stream that can't be read again
)

// A Source is a file or a stream whose rows are loaded into a table.
type Source struct {
	Table string
	// Key identifies it among the table's sources; the ids of its batches begin with
	// it.
	Key string
	// Path is its name for users, Kind one of the kinds of sources.
	Path, Kind string
	// Loaded is the offset up to which it is completely in the table, Lines the
	// number of whole lines before that offset, and Hash the hash of those bytes.
	Loaded, Lines int64
	Hash          string
	// Head is the number of leading bytes that HeadHash is computed from. They
	// distinguish it from another file of the same name.
	Head     int64
	HeadHash string
	// Options are the options that determine the meaning of its bytes, in the
	// notation of the loader.
	Options string
	// Counts are the counts of the rows up to Loaded.
	Counts
	// Finished reports that all of its data was loaded.
	Finished         bool
	Started, Updated time.Time
}

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

const sourceColumns = "source, path, kind, loaded, loaded_lines, loaded_hash, head, head_hash, options, sent, inserted, duplicate, rejected, finished, started_us, updated_us"

// Sources returns the sources of a table, newest first. It is restricted to a kind
// and a path unless these are empty.
func (s *Store) Sources(ctx context.Context, table, kind, path string) ([]Source, error) {
	var out []Source
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		f := Source{Table: table}
		var finished, started, updated int64
		err := r.Scan(&f.Key, &f.Path, &f.Kind, &f.Loaded, &f.Lines, &f.Hash, &f.Head, &f.HeadHash, &f.Options,
			&f.Sent, &f.Inserted, &f.Duplicate, &f.Rejected, &finished, &started, &updated)
		f.Finished, f.Started, f.Updated = finished != 0, time.UnixMicro(started), time.UnixMicro(updated)
		// Paths are compared here, because a server's collation may consider two
		// different ones equal.
		if (kind == "" || f.Kind == kind) && (path == "" || f.Path == path) {
			out = append(out, f)
		}
		return err
	}, "SELECT "+sourceColumns+" FROM rowmill_sources WHERE table_name = ? ORDER BY started_us DESC, source", table)
	if err != nil {
		return nil, fmt.Errorf("sources of %s: %w", table, err)
	}
	return out, nil
}

// ErrForgotten is the error if the information about a source was removed while it
// was loaded, because its table was recreated.
var ErrForgotten = errors.New("what was known of it was removed while it was loaded: its table was dropped and made anew")

// PutSource records a source, in the transaction of x. If the record of a partly
// loaded file was removed meanwhile, it is not recorded again: ErrForgotten.
func (s *Store) PutSource(ctx context.Context, x Exec, f *Source) error {
	finished := 0
	if f.Finished {
		finished = 1
	}
	now := time.Now()
	if f.Started.IsZero() {
		f.Started = now
	}
	f.Updated = now
	n, err := s.exec(ctx, x, "UPDATE rowmill_sources SET loaded = ?, loaded_lines = ?, loaded_hash = ?, head = ?, head_hash = ?, options = ?, sent = ?, inserted = ?, "+
		"duplicate = ?, rejected = ?, finished = ?, updated_us = ? WHERE table_name = ? AND source = ?",
		f.Loaded, f.Lines, f.Hash, f.Head, f.HeadHash, f.Options, f.Sent, f.Inserted, f.Duplicate, f.Rejected, finished, now.UnixMicro(), f.Table, f.Key)
	if err == nil && n == 0 {
		if f.Kind == FileSource && f.Loaded > 0 {
			return fmt.Errorf("note how far %s is loaded: %w", f.Path, ErrForgotten)
		}
		_, err = s.exec(ctx, x, "INSERT INTO rowmill_sources (table_name, "+sourceColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			f.Table, f.Key, f.Path, f.Kind, f.Loaded, f.Lines, f.Hash, f.Head, f.HeadHash, f.Options, f.Sent, f.Inserted, f.Duplicate, f.Rejected, finished,
			f.Started.UnixMicro(), now.UnixMicro())
	}
	if err != nil {
		return fmt.Errorf("note how far %s is loaded: %w", f.Path, err)
	}
	return nil
}

// Cuts returns the cuts of a file, in order.
func (s *Store) Cuts(ctx context.Context, table, source string) ([]Cut, error) {
	var out []Cut
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		var c Cut
		err := r.Scan(&c.From, &c.To, &c.Line, &c.Lines, &c.Hash)
		out = append(out, c)
		return err
	}, "SELECT lower_byte, upper_byte, line, line_count, hash FROM rowmill_cuts WHERE table_name = ? AND source = ? ORDER BY lower_byte", table, source)
	if err != nil {
		return nil, fmt.Errorf("batches of %s: %w", table, err)
	}
	return out, nil
}

// PutCuts records cuts of a file. It returns once they are committed.
func (s *Store) PutCuts(ctx context.Context, table, source string, cuts []Cut) error {
	if len(cuts) == 0 {
		return nil
	}
	var args []any
	for _, c := range cuts {
		args = append(args, table, source, c.From, c.To, c.Line, c.Lines, c.Hash)
	}
	q := "INSERT INTO rowmill_cuts (table_name, source, lower_byte, upper_byte, line, line_count, hash) VALUES (?, ?, ?, ?, ?, ?, ?)" +
		strings.Repeat(", (?, ?, ?, ?, ?, ?, ?)", len(cuts)-1)
	if _, err := s.exec(ctx, s.DB(), q, args...); err != nil {
		return fmt.Errorf("note where %s is cut: %w", table, err)
	}
	return nil
}

// notedAtATime is how many batches one query looks for.
const notedAtATime = 500

// NotedOf returns the batches of a source that are in the ledger, by their ids.
func (s *Store) NotedOf(ctx context.Context, table, source string, cuts []Cut) (map[string]Batch, error) {
	out := map[string]Batch{}
	for part := range slices.Chunk(cuts, notedAtATime) {
		args := []any{table}
		for _, c := range part {
			args = append(args, c.ID(source))
		}
		err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
			b := Batch{Table: table}
			err := r.Scan(&b.ID, &b.Lower, &b.Upper, &b.Sent, &b.Inserted, &b.Duplicate, &b.Rejected)
			out[b.ID] = b
			return err
		}, "SELECT batch, lower_pos, upper_pos, sent, inserted, duplicate, rejected FROM rowmill_ledger WHERE table_name = ? AND batch IN (?"+
			strings.Repeat(", ?", len(part)-1)+")", args...)
		if err != nil {
			return nil, fmt.Errorf("ledger of %s: %w", table, err)
		}
	}
	return out, nil
}

// Settle records the loaded offset of a source and the extents of its rows, and
// removes the cuts up to there, in one transaction. Its lines of the ledger are
// kept: see Tidy.
func (s *Store) Settle(ctx context.Context, f *Source, extents []Extent) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := s.PutSource(ctx, tx, f); err != nil {
			return err
		}
		if err := s.putExtents(ctx, tx, f, extents); err != nil {
			return err
		}
		_, err := s.exec(ctx, tx, "DELETE FROM rowmill_cuts WHERE table_name = ? AND source = ? AND upper_byte <= ?", f.Table, f.Key, f.Loaded)
		return err
	})
}

// Unload removes all records about a source except the source itself. It is for a
// source that has no row in the table.
func (s *Store) Unload(ctx context.Context, f *Source) error {
	fresh := Source{Table: f.Table, Key: f.Key, Path: f.Path, Kind: f.Kind, Head: f.Head, HeadHash: f.HeadHash, Started: f.Started}
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := s.PutSource(ctx, tx, &fresh); err != nil {
			return err
		}
		if _, err := s.exec(ctx, tx, "DELETE FROM rowmill_ledger WHERE table_name = ? AND batch LIKE ? AND inserted = 0", f.Table, f.Key+"@%"); err != nil {
			return fmt.Errorf("ledger of %s: %w", f.Table, err)
		}
		_, err := s.exec(ctx, tx, "DELETE FROM rowmill_cuts WHERE table_name = ? AND source = ?", f.Table, f.Key)
		return err
	})
}

// Acknowledge records the loaded offset of a spool and removes the lines of those
// batches from the ledger, in one transaction. They are not sent again: a spool has
// one owner. It refuses to decrease the offset: in that case a copy of the spool is
// also being loaded, as on a cloned machine.
func (s *Store) Acknowledge(ctx context.Context, f *Source, ids []string) error {
	f.Updated = time.Now()
	return s.within(ctx, func(tx *sql.Tx) error {
		n, err := s.exec(ctx, tx, "UPDATE rowmill_sources SET loaded = ?, sent = ?, inserted = ?, duplicate = ?, rejected = ?, updated_us = ? "+
			"WHERE table_name = ? AND source = ? AND loaded <= ?",
			f.Loaded, f.Sent, f.Inserted, f.Duplicate, f.Rejected, f.Updated.UnixMicro(), f.Table, f.Key, f.Loaded)
		if err != nil {
			return fmt.Errorf("note how far %s is loaded: %w", f.Path, err)
		}
		if n == 0 {
			return engine.Hinted(fmt.Errorf("note that %s is loaded up to byte %d: the database has it further, or has forgotten it", f.Path, f.Loaded),
				"one spool for each machine: a copy of another's has to be emptied first")
		}
		for part := range slices.Chunk(ids, notedAtATime) {
			args := []any{f.Table}
			for _, id := range part {
				args = append(args, id)
			}
			if _, err := s.exec(ctx, tx, "DELETE FROM rowmill_ledger WHERE table_name = ? AND batch IN (?"+strings.Repeat(", ?", len(part)-1)+")", args...); err != nil {
				return fmt.Errorf("ledger of %s: %w", f.Table, err)
			}
		}
		return nil
	})
}

// Tidy removes lines of the ledger that are older than the given time, of loaded
// files and of streams. Until then they prevent a batch that a server has delayed
// since the death of its loader from being committed in addition to its repetition.
func (s *Store) Tidy(ctx context.Context, table string, before time.Time) error {
	old := map[string]bool{}
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		var key string
		err := r.Scan(&key)
		old[key] = true
		return err
	}, "SELECT DISTINCT SUBSTR(batch, 1, 16) FROM rowmill_ledger WHERE table_name = ? AND at_us < ?", table, before.UnixMicro())
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", table, err)
	}
	all, err := s.Sources(ctx, table, "", "")
	if err != nil {
		return err
	}
	for _, f := range all {
		past := f.Updated.Before(before)
		if old[f.Key] && (f.Kind == StreamSource || f.Kind == FileSource && f.Finished && past) {
			q, args := "DELETE FROM rowmill_ledger WHERE table_name = ? AND batch LIKE ? AND at_us < ?", []any{table, f.Key + "@%", before.UnixMicro()}
			if f.Kind == FileSource { // another load may have continued it meanwhile
				q += " AND EXISTS (SELECT 1 FROM rowmill_sources AS s WHERE s.table_name = ? AND s.source = ? AND s.finished = 1 AND s.updated_us < ?)"
				args = append(args, table, f.Key, before.UnixMicro())
			}
			if _, err := s.exec(ctx, s.DB(), q, args...); err != nil {
				return fmt.Errorf("ledger of %s: %w", table, err)
			}
		}
		if f.Kind == StreamSource && past {
			if _, err := s.exec(ctx, s.DB(), "DELETE FROM rowmill_sources WHERE table_name = ? AND source = ?", table, f.Key); err != nil {
				return fmt.Errorf("sources of %s: %w", table, err)
			}
		}
	}
	return nil
}

// within runs fn in a transaction.
func (s *Store) within(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.db.SQL().BeginTx(ctx, nil)
	if err != nil {
		return s.db.Classify(err)
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback() // err is the cause
		return err
	}
	return s.db.Classify(tx.Commit())
}
