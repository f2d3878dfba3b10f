package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/rolling"
)

const (
	// defaultSample is large enough that half-full pages, and the first pages of each
	// index, are a small part of the sample.
	defaultSample = 50_000
	// fewestLive is the number of rows from which a table's own rows are used for the
	// sample.
	fewestLive = 1000
	// scratchName begins the names of scratch tables.
	scratchName = "rowmill_scratch_"
	// scratchAge is the age from which a scratch table of another host is assumed to
	// be left over from a killed plan.
	scratchAge = 24 * time.Hour
	// scratchCleanUp bounds the dropping of a scratch table.
	scratchCleanUp = time.Minute
)

// A sample is a set of rows of a declared table in a scratch table, and its
// measurements.
type sample struct {
	db       engine.Sizer
	declared *rolling.Declaration
	table    *engine.Table
	live     *engine.Schema // nil if the table doesn't exist
	rows     int
	rate     float64 // 0 if unknown
	note     func(string)

	schema     *engine.Schema // of the scratch table
	loaded     int            // rows
	took       time.Duration  // time to insert them
	source     string         // origin of the rows
	footprint  *engine.Footprint
	compressed *engine.Footprint
	warnings   []string
}

// scratch returns the name of this process's scratch table.
func scratch(now time.Time) string {
	return fmt.Sprintf("%s%s_%d_%s", scratchName, hostMark(), os.Getpid(), strconv.FormatInt(now.Unix(), 36))
}

// hostMark returns a hash that identifies this host in names.
func hostMark() string {
	name, err := os.Hostname()
	if err != nil {
		name = "?"
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("%08x", h.Sum32())
}

// leftover reports whether the process that created a scratch table is gone.
func leftover(name string, now time.Time) bool {
	parts := strings.Split(strings.TrimPrefix(name, scratchName), "_")
	if len(parts) < 3 {
		return false // not the name of a scratch table
	}
	pid, err := strconv.Atoi(parts[1])
	made, bad := strconv.ParseInt(parts[2], 36, 64)
	if err != nil || bad != nil || pid <= 0 {
		return false
	}
	if parts[0] == hostMark() {
		return pid != os.Getpid() && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	return now.Sub(time.Unix(made, 0)) > scratchAge
}

// clear drops the scratch tables that killed plans left.
func (s *sample) clear(ctx context.Context) error {
	names, err := s.db.Named(ctx, scratchName)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !leftover(name, time.Now()) {
			continue
		}
		if err := s.drop(ctx, name); err != nil {
			return fmt.Errorf("drop the scratch table %s that a killed plan left: %w", name, err)
		}
		s.note("dropped the scratch table " + name + ", which a killed plan left")
	}
	return nil
}

// drop drops scratch tables if they exist.
func (s *sample) drop(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := s.db.SQL().ExecContext(ctx, "DROP TABLE IF EXISTS "+s.db.Dialect().Quote(name)); err != nil {
			return s.db.Classify(err)
		}
	}
	return nil
}

// measure fills a scratch table and measures it. It drops the table in any case.
func (s *sample) measure(ctx context.Context) (err error) {
	if err := s.clear(ctx); err != nil {
		return err
	}
	name := scratch(time.Now())
	packed := name + "_c"
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratchCleanUp)
		defer cancel()
		if failed := s.drop(clean, name, packed); failed != nil {
			err = errors.Join(err, fmt.Errorf("drop scratch table %s: %w", name, failed))
		}
	}()
	fail := func(err error) error { return fmt.Errorf("measure bytes per row: %w", err) }
	quote := s.db.Dialect().Quote
	statements := []string{s.declared.Definition.Copy(quote(name))}
	for i, ix := range s.declared.Definition.Indexes {
		statements = append(statements, ix.As(quote(fmt.Sprintf("%s_i%d", name, i)), quote(name)))
	}
	for _, q := range statements {
		if _, err := s.db.SQL().ExecContext(ctx, q); err != nil {
			return fail(fmt.Errorf("create the scratch table: %w", s.db.Classify(err)))
		}
	}
	if s.schema, err = s.db.Describe(ctx, name); err != nil {
		return fail(err)
	}
	s.note("measuring bytes per row on a sample of " + plural(s.rows, "row"))
	if err := s.load(ctx, name); err != nil {
		return fail(err)
	}
	if s.footprint, err = s.db.Footprint(ctx, name); err != nil {
		return fail(err)
	}
	if s.footprint.Total() <= 0 {
		return fail(engine.Hinted(errors.New("the server says that the sample takes no room"), "--row-bytes N"))
	}
	if s.compressed, err = s.pack(ctx, name, packed); err != nil {
		if ctx.Err() != nil {
			return fail(err)
		}
		s.warnings = append(s.warnings, "the compressed size is not known: "+err.Error())
	}
	return nil
}

// load fills the scratch table with the table's own rows or, if there are too few,
// generated ones.
func (s *sample) load(ctx context.Context, name string) error {
	if s.live != nil {
		if err := s.copyLive(ctx, name); err != nil {
			return err
		}
		if s.loaded >= fewestLive {
			return nil
		}
		// There are too few rows for an estimate: start again with generated ones.
		if s.loaded > 0 {
			if _, err := s.db.SQL().ExecContext(ctx, "DELETE FROM "+s.db.Dialect().Quote(name)); err != nil {
				return fmt.Errorf("empty the scratch table: %w", s.db.Classify(err))
			}
		}
		s.loaded, s.took = 0, 0
	}
	return s.makeUp(ctx, name)
}

// pack rebuilds the sample sorted and compressed, as sealed periods are, and
// measures it.
func (s *sample) pack(ctx context.Context, from, into string) (*engine.Footprint, error) {
	plain := &engine.Table{Name: from, By: s.table.By, Epoch: s.table.Epoch, Definition: s.declared.Definition, PrimaryKey: s.schema.PrimaryKey}
	statements := s.db.Words().CreateTemplate(plain, into, engine.Storage{Compress: true})
	if info := s.db.Info(); info.Engine == "mariadb" && strings.EqualFold(info.Storage, "innodb") {
		// Such a table must be compressed before its rows are inserted.
		statements = append(statements, "ALTER TABLE "+s.db.Dialect().Quote(into)+" PAGE_COMPRESSED=1")
	}
	for _, q := range statements {
		if _, err := s.db.SQL().ExecContext(ctx, q); err != nil {
			return nil, s.db.Classify(err)
		}
	}
	quote := s.db.Dialect().Quote
	var columns, key []string
	for _, c := range s.schema.Names() {
		columns = append(columns, quote(c))
	}
	for _, c := range s.schema.PrimaryKey {
		key = append(key, quote(c))
	}
	list := strings.Join(columns, ", ")
	q := fmt.Sprintf("INSERT INTO %s (%s) %sSELECT %s FROM %s", quote(into), list, s.overriding(), list, quote(from))
	if len(key) > 0 {
		q += " ORDER BY " + strings.Join(key, ", ")
	}
	if _, err := s.db.SQL().ExecContext(ctx, q); err != nil {
		return nil, s.db.Classify(err)
	}
	f, err := s.db.Footprint(ctx, into)
	if err != nil {
		return nil, err
	}
	if f.Saved < 0 && (s.db.Info().Engine == "mysql" || s.db.Info().Engine == "mariadb") && !f.Rough {
		return nil, errors.New("it takes the PROCESS and RELOAD privileges to measure")
	}
	return f, nil
}

// overriding returns the clause that permits explicit values for identity columns.
func (s *sample) overriding() string {
	if s.db.Info().Engine == "postgres" {
		return "OVERRIDING SYSTEM VALUE "
	}
	return ""
}

// fill copies the measurements to a plan's input.
func (s *sample) fill(in *sizing.Input) {
	n := float64(s.loaded)
	ascending := func(columns []string) bool {
		if len(columns) == 0 {
			return false
		}
		if strings.EqualFold(columns[0], s.table.By) {
			return true
		}
		c := s.schema.Column(columns[0])
		return c != nil && c.Auto
	}
	f := s.footprint
	heap := sizing.Piece{Name: "rows", BytesPerRow: float64(f.Heap) / n, Ascending: true}
	if f.Clustered {
		heap.Name = "rows, by primary key (" + strings.Join(s.schema.PrimaryKey, ", ") + ")"
		heap.Ascending = ascending(s.schema.PrimaryKey)
	}
	in.Pieces = append(in.Pieces, heap)
	for _, ix := range f.Indexes {
		p := sizing.Piece{Name: ix.Name, BytesPerRow: float64(ix.Bytes) / n, Ascending: ascending(ix.Columns)}
		if len(ix.Columns) > 0 {
			p.Name = "index (" + strings.Join(ix.Columns, ", ") + ")"
		}
		in.Pieces = append(in.Pieces, p)
	}
	in.PiecesFrom = fmt.Sprintf("measured on %d %s in a scratch table", s.loaded, s.source)
	if f.Rough {
		in.PiecesFrom += ", by the server's estimates"
	}
	if c := s.compressed; c != nil && c.Total() > 0 {
		how := "rebuilt in the order of the key and compressed"
		if s.db.Info().Engine == "sqlite" {
			how = "rebuilt in the order of the key; SQLite doesn't compress"
		}
		in.Compressed = sizing.Figure{Value: float64(c.Total()) / n, From: "the same rows, " + how}
	}
	if s.took > 0 {
		in.Sample = sizing.Figure{Value: n / s.took.Seconds(), From: fmt.Sprintf("the sample went in at %.0f rows/s on one connection, %d rows a statement", n/s.took.Seconds(), s.perStatement())}
	}
}
