package sizing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

const (
	// DefaultSample is so large that the half-full and first pages of an index are a small part of it.
	DefaultSample = 50_000
	// fewestLive is how many rows a table must have to be sampled; otherwise rows are made up.
	fewestLive  = 1000
	scratchName = "rowmill_scratch_"
	// scratchAge is the age from which the scratch table of another host counts as left over.
	scratchAge     = 24 * time.Hour
	scratchCleanUp = time.Minute
	// countTimeout bounds the counting of a table's newest rows, perhaps without an index.
	countTimeout = 30 * time.Second
)

// A Sample measures rows of a declared table in a scratch table.
type Sample struct {
	DB       engine.Sizer
	Declared *rolling.Declaration
	Table    *engine.Table
	// Live is the existing table; nil if the table doesn't exist.
	Live *engine.Schema
	// Rows is the number of rows of the sample.
	Rows int
	// Note receives lines about what is done.
	Note func(string)
	// Warnings are the warnings of Measure.
	Warnings []string

	schema     *engine.Schema // of the scratch table
	loaded     int            // rows
	took       time.Duration  // time to insert them
	source     string         // origin of the rows
	footprint  *engine.Footprint
	compressed *engine.Footprint // of the rows if compressed like a sealed period
	compresses bool              // the server compresses sealed periods
}

// scratch returns the name of this process's scratch table.
func scratch(now time.Time) string {
	return fmt.Sprintf("%s%s_%d_%s", scratchName, hostMark(), os.Getpid(), strconv.FormatInt(now.Unix(), 36))
}

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

func (s *Sample) exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if _, err := s.DB.SQL().ExecContext(ctx, q); err != nil {
			return s.DB.Classify(err)
		}
	}
	return nil
}

// clear drops the scratch tables that killed plans left. It begins with the newest: the defaults of
// newer tables may use sequences of older ones.
func (s *Sample) clear(ctx context.Context) error {
	names, err := s.DB.Named(ctx, scratchName)
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if leftover(name, time.Now()) && s.drop(ctx, name) {
			s.Note("dropped the scratch table " + name + ", which a killed plan left")
		}
	}
	return nil
}

// drop drops a scratch table, or warns that it remains.
func (s *Sample) drop(ctx context.Context, name string) bool {
	q := "DROP TABLE IF EXISTS " + s.DB.Dialect().Quote(name)
	err := s.exec(ctx, q)
	if err != nil {
		s.Note(fmt.Sprintf("warning: a scratch table remains, drop it with %s: %v", q, err))
	}
	return err == nil
}

// Measure fills a scratch table and measures it. It drops the table in any case.
func (s *Sample) Measure(ctx context.Context) (err error) {
	if err := s.clear(ctx); err != nil {
		return err
	}
	name := scratch(time.Now())
	packed := name + "_c"
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratchCleanUp)
		defer cancel()
		s.drop(clean, packed)
		s.drop(clean, name)
	}()
	fail := func(err error) error { return fmt.Errorf("measure bytes per row: %w", err) }
	quote := s.DB.Dialect().Quote
	statements := []string{s.Declared.Definition.Copy(quote(name))}
	for i, ix := range s.Declared.Definition.Indexes {
		statements = append(statements, ix.As(quote(fmt.Sprintf("%s_i%d", name, i)), quote(name)))
	}
	if err := s.exec(ctx, statements...); err != nil {
		return fail(fmt.Errorf("create the scratch table: %w", err))
	}
	if s.schema, err = s.DB.Describe(ctx, name); err != nil {
		return fail(err)
	}
	s.Note("measuring bytes per row on a sample of " + figure.Plural(s.Rows, "row"))
	if err := s.load(ctx, name); err != nil {
		return fail(err)
	}
	if s.footprint, err = s.DB.Footprint(ctx, name); err != nil {
		return fail(err)
	}
	if s.footprint.Total() <= 0 {
		return fail(engine.Hinted(errors.New("the server reports that the sample takes no space"), "--row-bytes N"))
	}
	if s.compressed, err = s.pack(ctx, name, packed); err != nil {
		if ctx.Err() != nil {
			return fail(err)
		}
		s.Warnings = append(s.Warnings, "the compressed size is not known: "+err.Error())
	}
	return nil
}

// load fills the scratch table with rows copied from the existing table. If that has too few rows,
// or doesn't exist yet, load fills it with generated rows instead.
func (s *Sample) load(ctx context.Context, name string) error {
	if s.Live == nil {
		return s.makeUp(ctx, name)
	}
	if err := s.copyLive(ctx, name); err != nil || s.loaded >= fewestLive {
		return err
	}
	// There are too few rows for an estimate: start again with generated ones.
	if s.loaded > 0 {
		if err := s.exec(ctx, "DELETE FROM "+s.DB.Dialect().Quote(name)); err != nil {
			return fmt.Errorf("empty the scratch table: %w", err)
		}
	}
	s.loaded, s.took = 0, 0
	return s.makeUp(ctx, name)
}

// pack copies the sample into a table that is compressed like a sealed period, and measures it.
func (s *Sample) pack(ctx context.Context, from, into string) (*engine.Footprint, error) {
	quote, words := s.DB.Dialect().Quote, s.DB.Words()
	plain := &engine.Table{Name: from, By: s.Table.By, Epoch: s.Table.Epoch, Definition: s.Declared.Definition, PrimaryKey: s.schema.PrimaryKey}
	statements := words.CreateTemplate(plain, into, engine.Storage{Compress: true, Alone: true})
	s.compresses = !slices.Equal(statements, words.CreateTemplate(plain, into, engine.Storage{Alone: true}))
	statements = append(statements, words.CopyRows(engine.CopyRows{Into: quote(into), From: quote(from), Columns: s.schema.Names(), Key: s.schema.PrimaryKey}))
	if err := s.exec(ctx, statements...); err != nil {
		return nil, err
	}
	f, err := s.DB.Footprint(ctx, into)
	if err != nil {
		return nil, err
	}
	if f.Saved < 0 && !f.Rough {
		return nil, errors.New("measuring it requires the PROCESS and RELOAD privileges")
	}
	return f, nil
}

// perStatement returns how many rows an INSERT of the sample has: so few that every server accepts
// their number of placeholders.
func (s *Sample) perStatement() int {
	return max(1, min(500, 30000/max(1, len(s.schema.Names()))))
}

func (s *Sample) insert(ctx context.Context, into string, columns []string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	var args []any
	values := make([]string, len(rows))
	for i, row := range rows {
		values[i] = "(" + strings.Join(slices.Repeat([]string{"?"}, len(row)), ", ") + ")"
		args = append(args, row...)
	}
	q := s.DB.Words().CopyRows(engine.CopyRows{Into: s.DB.Dialect().Quote(into), Columns: columns, Values: strings.Join(values, ", ")})
	began := time.Now()
	if _, err := s.DB.SQL().ExecContext(ctx, s.DB.Bind(q), args...); err != nil {
		return s.DB.Classify(err)
	}
	s.took += time.Since(began)
	s.loaded += len(rows)
	return nil
}

// copyLive copies rows of the existing table, or of one period of a rolling table.
func (s *Sample) copyLive(ctx context.Context, into string) error {
	var columns, exprs []string
	quote, words := s.DB.Dialect().Quote, s.DB.Words()
	for _, name := range s.schema.Names() {
		c := s.Live.Column(name)
		if c == nil || c.Generated {
			continue // the column gets its default
		}
		columns = append(columns, name)
		if c.Kind == value.Time || c.Kind == value.Other {
			exprs = append(exprs, words.AsText(*c))
		} else {
			exprs = append(exprs, quote(name))
		}
	}
	from, err := s.liveSource(ctx)
	if err != nil || from == "" || len(columns) == 0 {
		return err
	}
	s.source = "rows of the live table"
	var batch [][]any
	flush := func() error {
		err := s.insert(ctx, into, columns, batch)
		batch = batch[:0]
		return err
	}
	// Not INSERT ... SELECT, which would lock the rows that it reads.
	err = engine.Each(ctx, s.DB, s.DB.SQL(), func(rows *sql.Rows) error {
		row, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		for i, v := range row {
			if p, ok := v.([]byte); ok {
				if row[i] = slices.Clone(p); s.Live.Column(columns[i]).Kind != value.Bytes {
					row[i] = string(p)
				}
			}
		}
		if batch = append(batch, row); len(batch) < s.perStatement() {
			return nil
		}
		return flush()
	}, fmt.Sprintf("SELECT %s FROM %s LIMIT %d", strings.Join(exprs, ", "), from, s.Rows))
	if err == nil {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("copy rows of %s: %w", s.Table.Name, err)
	}
	return nil
}

// gridded returns the table with a valid grid. If every is "auto", the table has none yet: gridded
// then sets one day, because its callers need only the axis, time.
func (s *Sample) gridded() *engine.Table {
	t := *s.Table
	if !t.Grid.Valid() {
		t.Grid, _ = rolling.Parse("1d")
	}
	return &t
}

// periods returns the periods of the existing table, with their sizes; a plain table has none.
func (s *Sample) periods(ctx context.Context) ([]rolling.Partition, map[string]engine.PeriodSize, error) {
	if !s.Live.Partitioned && !s.Live.View {
		return nil, nil, nil
	}
	t := s.gridded()
	parts, err := s.DB.Catalog().Partitions(ctx, t)
	if err != nil || len(parts) == 0 {
		return nil, nil, err
	}
	sizes, err := s.DB.PeriodSizes(ctx, t)
	return parts, sizes, err
}

// liveSource returns the source of the rows to copy: the table, or the newest period with enough
// rows, or else the period with the most rows.
func (s *Sample) liveSource(ctx context.Context) (best string, err error) {
	if !s.Live.Partitioned && !s.Live.View {
		return s.DB.Dialect().Quote(s.Table.Name), nil
	}
	parts, sizes, err := s.periods(ctx)
	var most int64
	for _, p := range slices.Backward(parts) {
		n := sizes[p.Name].Rows
		if n > most {
			best, most = s.DB.Words().From(s.gridded(), p), n
		}
		if n >= int64(s.Rows) {
			break
		}
	}
	return best, err
}

// ArrivalRate returns the rate at which rows have arrived in the existing table; 0 if there is no
// table, or it has no rows. now is the position of the present: periods that end later don't count.
func (s *Sample) ArrivalRate(ctx context.Context, now int64) (Figure, error) {
	none := Figure{From: "not known"}
	if s.Live == nil {
		return none, nil
	}
	parts, sizes, err := s.periods(ctx)
	if err != nil {
		return none, err
	}
	if len(parts) == 0 {
		return s.plainRate(ctx)
	}
	// Use the last complete periods that have rows, as many as make up a day.
	var rows, length int64
	first, last := "", ""
	for i := len(parts) - 1; i >= 0 && length < 86400e6; i-- {
		p := parts[i]
		if p.To > now || sizes[p.Name].Rows == 0 {
			continue
		}
		if last == "" {
			last = p.Name
		}
		first = p.Name
		rows += sizes[p.Name].Rows
		length += p.To - p.From
	}
	if length == 0 {
		return none, nil
	}
	return Figure{Value: float64(rows) / (float64(length) / 1e6),
		From: fmt.Sprintf("the live table: the server's estimate of %s in its whole periods %s to %s", figure.Plural(rows, "row"), first, last)}, nil
}

func (s *Sample) plainRate(ctx context.Context) (Figure, error) {
	t := s.gridded()
	w, by, name := s.DB.Words(), s.DB.Dialect().Quote(s.Table.By), s.DB.Dialect().Quote(s.Table.Name)
	timed, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	query := func(q string) (n *int64, err error) {
		err = s.DB.SQL().QueryRowContext(timed, q).Scan(&n)
		if err != nil && timed.Err() != nil && ctx.Err() == nil {
			err = engine.Classed(ErrNoRate, fmt.Errorf("count the newest rows of %s: not done after %v", t.Name, countTimeout))
		} else if err != nil {
			err = fmt.Errorf("count the newest rows of %s: %w", t.Name, s.DB.Classify(err))
		}
		return n, err
	}
	newest, err := query(fmt.Sprintf("SELECT %s FROM %s", w.Position(t, "MAX("+by+")"), name))
	if err != nil || newest == nil {
		return Figure{From: "not known"}, err
	}
	for _, length := range []string{"1h", "1d", "30d"} {
		span, _ := rolling.ParseSpan(length)
		rows, err := query(fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s >= %s AND %s < %s", name,
			by, w.Literal(t, span.Before(*newest)), by, w.Literal(t, *newest)))
		if err != nil {
			return Figure{}, err
		}
		if rows != nil && (*rows >= 1000 || length == "30d" && *rows > 0) {
			return Figure{Value: float64(*rows) / (float64(span.Micros) / 1e6),
				From: fmt.Sprintf("the live table: %s in the %s before its newest", figure.Plural(*rows, "row"), length)}, nil
		}
	}
	return Figure{From: "not known"}, nil
}

// Pieces returns the parts of a table (its rows and its indexes) that has this number of rows. The
// rows were inserted in the order of the column by.
func Pieces(f *engine.Footprint, s *engine.Schema, by string, rows float64) []Piece {
	// Inserts go to the end of an index that begins with column by or with a counter.
	ascending := func(columns []string) bool {
		if len(columns) == 0 {
			return false
		}
		c := s.Column(columns[0])
		return strings.EqualFold(columns[0], by) || c != nil && c.Auto
	}
	heap := Piece{Name: "rows", BytesPerRow: float64(f.Heap) / rows, Ascending: true}
	if f.Clustered {
		heap.Name = "rows, by primary key (" + strings.Join(s.PrimaryKey, ", ") + ")"
		heap.Ascending = ascending(s.PrimaryKey)
	}
	out := []Piece{heap}
	for _, ix := range f.Indexes {
		p := Piece{Name: ix.Name, BytesPerRow: float64(ix.Bytes) / rows, Ascending: ascending(ix.Columns)}
		if len(ix.Columns) > 0 {
			p.Name = "index (" + strings.Join(ix.Columns, ", ") + ")"
		}
		out = append(out, p)
	}
	return out
}

// Fill copies the measurements to a plan's input.
func (s *Sample) Fill(in *Input) {
	n, f := float64(s.loaded), s.footprint
	in.Pieces = append(in.Pieces, Pieces(f, s.schema, s.Table.By, n)...)
	in.Spare = float64(f.Spare)
	in.PiecesFrom = fmt.Sprintf("measured on %d %s in a scratch table", s.loaded, s.source)
	if f.Rough {
		in.PiecesFrom += ", by the server's estimates"
	}
	if c := s.compressed; c != nil && c.Total() > 0 {
		in.SpareSealed = float64(c.Spare)
		in.Compressed = Figure{Value: float64(c.Total()) / n, From: "the same rows, rebuilt in the order of the key"}
		if s.compresses {
			in.Compressed.From += " and compressed"
		}
	}
	if s.took > 0 {
		rate := n / s.took.Seconds()
		in.Sample = Figure{Value: rate, From: fmt.Sprintf("the sample went in at %.0f rows/s on one connection, %d rows a statement", rate, s.perStatement())}
	}
}
