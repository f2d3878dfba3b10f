// Package advise reads what is on a server, and says what rowmill would do about it.
//
// Propose writes the declaration of an existing table. Its input is an open database and the name
// of a plain or partitioned table. Its result is the text of a file for `rowmill plan` and `apply`,
// with a reason for each line. It reads catalogs, statistics and some 2,000 rows, and changes
// nothing. Worst lists the tables of a database by the number of pages that an insert reads from
// disk. If a table can't be divided into periods, the error of Propose says what to do.
//
//	p, err := advise.Propose(ctx, db, advise.Options{Table: "events", Now: time.Now})
//	fmt.Print(p.Text())
package advise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// Options are the choices of the table's owner.
type Options struct {
	Table string
	// Target is the URL of the database, as written into the declaration.
	Target string
	// Time is the column by which the table is to roll; "" means that it is guessed.
	Time string
	// Rate is the number of rows inserted per second, Memory the server's memory for pages in bytes.
	// For a value of 0, the server is asked.
	Rate   float64
	Memory int64
	Now    func() time.Time
}

// A Proposal is a declaration of an existing table.
type Proposal struct {
	Table, Target string
	// Create is the CREATE TABLE statement of the declared table. Each of Changes says in one sentence
	// how the declared table differs from the existing one.
	Create  string
	Changes []string
	// Time is the chosen time column. Others are other columns by which the table may roll.
	Time   Candidate
	Others []Candidate
	// Every is the line under [period], such as every = "1d"; EveryFrom says how it was found.
	Every     string
	EveryFrom string
	// Size says how large the table is.
	Size string
	// Warnings are the warnings of the declaration, and reasons for which apply will refuse it.
	Warnings []string
	groups   []string // columns by which a roll-up may group
	measures []string
}

// Propose reads a table, and returns its declaration.
func Propose(ctx context.Context, db engine.Definer, o Options) (*Proposal, error) {
	fail := func(err error) (*Proposal, error) {
		return nil, fmt.Errorf("propose a declaration of table %s: %w", o.Table, err)
	}
	r := reader{Options: o, db: db}
	s, err := db.Describe(ctx, o.Table)
	if errors.Is(err, engine.ErrNoTable) {
		return fail(r.missing(ctx, err))
	}
	if err != nil {
		return fail(err)
	}
	if err := r.kept(ctx, s); err != nil {
		return fail(err)
	}
	p := &Proposal{Table: s.Name, Target: o.Target}
	text, err := db.Definition(ctx, s.Name)
	if err != nil {
		return fail(err)
	}
	d, err := rolling.ReadDefinitionFor(o.Target, text)
	if err != nil {
		return fail(fmt.Errorf("it is made by\n%s\n%w", text, err))
	}
	if len(d.PrimaryKey) == 0 {
		return fail(engine.Hinted(errors.New("it has no primary key, by which rows are told apart"), "ALTER TABLE ... ADD PRIMARY KEY"))
	}
	if err := r.sample(ctx, s, p); err != nil {
		return fail(err)
	}
	var counters []string
	for _, c := range s.Columns {
		if c.Auto && strings.HasPrefix(c.Default, "nextval(") {
			counters = append(counters, fmt.Sprintf("column %s counts by an identity in place of %s: programs that call it themselves must let the server count", c.Name, c.Default))
		}
	}
	if p.Create, p.Changes, err = d.Rolled(p.Time.Column, db.Dialect().Quote(p.Time.Column)); err != nil {
		return fail(err)
	}
	p.Changes = append(p.Changes, counters...)
	if p.Warnings, err = obstacles(ctx, db, s); err != nil {
		return fail(err)
	}
	r.definition = d
	if err := r.period(ctx, s, p); err != nil {
		return fail(err)
	}
	if rivaled, ok := db.(engine.Rivaled); ok && s.Partitioned {
		rivals, err := rivaled.Rivals(ctx, s.Name)
		if err != nil {
			return fail(err)
		}
		for _, r := range rivals {
			p.Warnings = append(p.Warnings, r.Text(s.Name)+". rowmill apply stops it, or says what to do")
		}
	}
	declared, err := rolling.ParseDeclarationFor(s.Name+".toml", []byte(p.Text()), "")
	if err != nil {
		return fail(err)
	}
	for _, w := range declared.Warnings { // each warning begins with its place in the file
		if _, text, ok := strings.Cut(w, ": "); ok {
			w = text
		}
		p.Warnings = append(p.Warnings, w)
	}
	return p, nil
}

// A reader reads a table's schema and sample for a Proposal.
type reader struct {
	Options
	db         engine.Definer
	columns    []*sampled
	definition *rolling.Definition
	of         *engine.TableSample // nil if no rows could be sampled
}

// missing is the error of a table that doesn't exist. It lists the tables of the database.
func (r *reader) missing(ctx context.Context, err error) error {
	tables, failed := r.db.Tables(ctx)
	var names []string
	for _, t := range tables {
		names = append(names, t.Name)
	}
	if failed != nil || len(names) == 0 {
		return engine.Hinted(err, "rowmill init --target URL, which lists the tables")
	}
	return engine.Hinted(err, "one of %s", strings.Join(names[:min(len(names), 20)], ", "))
}

// kept refuses a table that rowmill keeps already, and a view.
func (r *reader) kept(ctx context.Context, s *engine.Schema) error {
	declared, err := state.New(r.db).Declared(ctx, s.Name)
	switch {
	case err == nil && declared != nil:
		return engine.Hinted(errors.New("rowmill keeps it already"), "SELECT declaration FROM rowmill_tables WHERE name = '%s', which is its declaration; rowmill status FILE", s.Name)
	case err != nil && !errors.Is(err, engine.ErrNoTable):
		return err
	case s.View:
		return engine.Hinted(errors.New("it is a view"), "the table with its rows")
	case s.Partitioned && s.By == "":
		return s.Unkept()
	}
	return nil
}

// sample finds the column by which the table rolls.
func (r *reader) sample(ctx context.Context, s *engine.Schema, p *Proposal) (err error) {
	var without error
	if r.columns, r.of, without = sample(ctx, r.db, s); without != nil {
		if ctx.Err() != nil || errors.Is(without, engine.ErrDenied) || errors.Is(without, engine.ErrUnreachable) {
			return without
		}
		r.of = nil
	}
	found, unusable := candidates(s, r.columns, r.Now())
	want := cmp.Or(r.Time, s.By)
	if want == "" && len(found) == 0 {
		return r.counter(s, p, unusable)
	}
	for _, c := range found {
		if want == "" || strings.EqualFold(c.Column, want) {
			p.Time, want = c, c.Column
		} else {
			p.Others = append(p.Others, c)
		}
	}
	if p.Time.Column == "" {
		if p.Time, err = r.wanted(s, want); err != nil {
			return err
		}
		if p.Time.Unit == byRows && s.Partitioned {
			if err := r.unitOfBounds(ctx, s, &p.Time); err != nil {
				return err
			}
		}
	}
	switch {
	case s.Partitioned:
		p.Time.Reasons = slices.Insert(p.Time.Reasons, 0, "the table is partitioned by it")
	case r.Time != "":
		p.Time.Reasons = slices.Insert(p.Time.Reasons, 0, "--time names it")
	case r.of == nil:
		p.Time.Reasons = append(p.Time.Reasons, fmt.Sprintf("guessed by types and names alone: %v", without))
	}
	r.rollups(s, p)
	return nil
}

// wanted returns the column that --time names if the sample doesn't show this column to be a time.
// An integer column then counts rows; a column of another type gets no unit.
func (r *reader) wanted(s *engine.Schema, name string) (Candidate, error) {
	c := s.Find(name)
	if c == nil {
		return Candidate{}, engine.Hinted(fmt.Errorf("--time: it has no column %s", name), "one of %s", strings.Join(s.Names(), ", "))
	}
	out := Candidate{Column: c.Name}
	if c.Kind == value.Int {
		out.Unit = byRows
	}
	return out, nil
}

// unitOfBounds sets the unit of an integer column by the bounds of the table's partitions. It finds
// the unit in which they are plausible times since 1970. If there is none, the column's unit stays
// as it is.
func (r *reader) unitOfBounds(ctx context.Context, s *engine.Schema, c *Candidate) error {
	g, err := rolling.EveryRows(1000)
	if err != nil {
		return err
	}
	parts, err := r.db.Catalog().Partitions(ctx, &engine.Table{Name: s.Name, By: c.Column, Grid: g})
	var tail *engine.DefaultError
	if err != nil && !errors.As(err, &tail) {
		return err
	}
	bounds := sampled{}
	for _, p := range parts {
		if p.To < g.Bounds().To {
			bounds.values = append(bounds.values, float64(p.To))
		}
	}
	if len(bounds.values) == 0 {
		return nil
	}
	bounds.values = bounds.values[len(bounds.values)-1:] // the first bound may be that of a partition for rows without a time
	if unit := bounds.unit(r.Now()); epochs[unit] > 0 {
		c.Unit, c.Reasons = unit, append(c.Reasons, "the bounds of its partitions are times since 1970 in "+unit)
	}
	return nil
}

// byRows is the unit of an integer that is no time.
const byRows = "rows"

// counter chooses a key that counts up, because the table has no usable time column.
func (r *reader) counter(s *engine.Schema, p *Proposal, unusable []string) error {
	for _, c := range s.Key() {
		if c.Auto && c.Kind == value.Int && len(s.PrimaryKey) == 1 {
			p.Time = Candidate{Column: c.Name, Unit: byRows, Reasons: append([]string{"no column tells the time, and it counts up: periods are of rows, and retention, too"}, unusable...)}
			return nil
		}
	}
	hint := "a column with the time of each row, NOT NULL, or --time COLUMN"
	if len(unusable) > 0 {
		return engine.Hinted(errors.New(strings.Join(unusable, "; ")), "%s", hint)
	}
	return engine.Hinted(errors.New("no column tells the time"), "%s", hint)
}

// rollups proposes a roll-up: groups by the columns with few values, and averages of numbers.
func (r *reader) rollups(s *engine.Schema, p *Proposal) {
	if p.Time.Unit == byRows {
		return
	}
	for _, c := range r.columns {
		key := slices.Contains(s.PrimaryKey, c.Name)
		switch n := len(c.distinct); {
		case c.Name == p.Time.Column || c.Auto || c.nulls > 0:
		case n > 1 && n*10 < len(c.values) && (c.Kind == value.Int || c.Kind == value.Text):
			p.groups = append(p.groups, c.Name)
		case c.Numeric() && !key && c.Logical == value.Plain && c.distinct == nil:
			p.measures = append(p.measures, c.Name)
		}
	}
	p.groups, p.measures = p.groups[:min(len(p.groups), 2)], p.measures[:min(len(p.measures), 2)]
}

// period chooses the period: the length of the existing partitions, or else the longest period of
// which two fit into memory. If that can't be computed, it guesses a day, or a million rows.
func (r *reader) period(ctx context.Context, s *engine.Schema, p *Proposal) error {
	t := &engine.Table{Name: s.Name, By: p.Time.Column, Bounds: s.Bounds, Epoch: epochs[p.Time.Unit], PrimaryKey: s.PrimaryKey}
	axis := rolling.Time
	if p.Time.Unit == byRows {
		axis = rolling.Sequence
	}
	if s.Partitioned {
		return r.present(ctx, t, axis, p)
	}
	in := sizing.Input{Table: s.Name, Declared: sizing.Declared{Axis: axis, WholeDays: s.Find(t.By).Logical == value.Date}, MaxPeriods: r.db.Capabilities().MaxPeriods, Rate: sizing.Figure{Value: r.Rate, From: "--rate"},
		Memory: sizing.Figure{Value: float64(cmp.Or(r.Memory, r.db.Info().CacheBytes))}}
	auto := func(why string) error {
		p.Every, p.EveryFrom = `every = "1d"`, why+": a guess; rowmill plan FILE --rate 5000/s says what fits into memory"
		if axis == rolling.Sequence {
			p.Every, p.EveryFrom = "rows = 1000000", why+": a guess; rowmill plan says how much memory that takes"
		}
		return nil
	}
	rows := int64(0)
	if r.of != nil {
		rows = r.of.Rows
	}
	if rows == 0 {
		return auto("the table has no rows to measure")
	}
	f, err := r.db.Estimate(ctx, s.Name)
	if err != nil {
		return err
	}
	p.Size = fmt.Sprintf("%s of rows and indexes, about %s rows by the server's statistics", figure.Bytes(f.Total()), figure.Words(float64(rows)))
	in.Pieces, in.PiecesFrom = sizing.Pieces(f, s, t.By, float64(rows)), p.Size
	if in.Rate.Value == 0 && axis == rolling.Time {
		live := &sizing.Sample{DB: r.db, Table: t, Live: s}
		if in.Rate, err = live.ArrivalRate(ctx, r.Now().UnixMicro()); err != nil && !errors.Is(err, sizing.ErrNoRate) {
			return err
		}
	}
	switch out, err := sizing.Plan(in); {
	case in.Memory.Value == 0:
		return auto("the server doesn't say how much memory it has for pages")
	case errors.Is(err, sizing.ErrNoRate):
		return auto("the rate of inserts is not known")
	case err != nil:
		return err
	default:
		p.Every = fmt.Sprintf("every = %q", out.Grid())
		if axis == rolling.Sequence {
			p.Every = fmt.Sprintf("rows = %d", out.Grid().Span().Rows)
		}
		p.EveryFrom = fmt.Sprintf("two periods of %s take %s of the %s for pages", out.Period.Every, figure.Bytes(out.Period.ResidentBytes), figure.Bytes(in.Memory.Value))
		if in.Rate.Value > 0 {
			p.EveryFrom += fmt.Sprintf(", at %s rows/s (%s)", figure.Words(in.Rate.Value), in.Rate.From)
		}
		p.Warnings = append(p.Warnings, out.Warnings...)
		return nil
	}
}

var epochs = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond}

// usual are the usual lengths of existing partitions, the shortest first.
var usual = []string{"1h", "2h", "3h", "4h", "6h", "8h", "12h", "1d", "1w", "1mo", "3mo", "1y"}

// alike is the share by which a partition's length may differ from the usual length: months have 28
// to 31 days, and days of local time 23 to 25 hours.
const alike = 0.1

// present proposes the length of the newest existing partition as the period.
func (r *reader) present(ctx context.Context, t *engine.Table, axis rolling.Axis, p *Proposal) error {
	t.Definition = r.definition
	t.Grid, _ = rolling.Parse("1d") // any grid will do: only the axis, time, matters for reading bounds
	if axis == rolling.Sequence {
		t.Grid, _ = rolling.Parse("1000 rows")
	}
	parts, err := r.db.Catalog().Partitions(ctx, t)
	var tail *engine.DefaultError
	if err != nil && !errors.As(err, &tail) {
		return err
	}
	b := t.Grid.Bounds()
	if len(parts) > 1 && !r.db.Capabilities().Gaps { // the first partition has no lower bound
		parts = parts[1:]
	}
	parts = slices.DeleteFunc(parts, func(x rolling.Partition) bool { return x.From <= b.From || x.To >= b.To })
	if len(parts) == 0 {
		return engine.Hinted(errors.New("none of its partitions has two bounds"), "a period by hand: every = \"1d\" under [period]")
	}
	last := parts[len(parts)-1]
	p.EveryFrom = fmt.Sprintf("as partition %s, the newest of %d with two bounds", last.Name, len(parts))
	if axis == rolling.Sequence {
		p.Every = fmt.Sprintf("rows = %d", last.To-last.From)
		return nil
	}
	length := rolling.Instant(last.To).Sub(rolling.Instant(last.From))
	every := length.Round(time.Second).String() // a length that may be none of the usual ones
	for _, unit := range []struct {
		name string
		time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}} {
		if length%unit.Duration == 0 {
			every = fmt.Sprintf("%d%s", length/unit.Duration, unit.name)
			break
		}
	}
	for _, name := range usual {
		g, err := rolling.Parse(name)
		if err != nil {
			return err
		}
		if of := float64(g.Span().Length()) / 1e6 / length.Seconds(); of > 1-alike && of < 1+alike {
			every = name
		}
	}
	g, err := rolling.Parse(every)
	if err != nil {
		return engine.Hinted(fmt.Errorf("its newest partition, %s, is from %s to %s UTC: %w", last.Name, t.Grid.Format(last.From), t.Grid.Format(last.To), err),
			"ALTER TABLE, which adds a partition of an hour, a day, a week or a month")
	}
	p.Every = fmt.Sprintf("every = %q", every)
	if at, err := g.At(last.From); err == nil && at != last.Period {
		p.EveryFrom += fmt.Sprintf(", which is from %s to %s UTC: the first new period lies between it and the next %s of the calendar", t.Grid.Format(last.From), t.Grid.Format(last.To), every)
	}
	return nil
}

// Worst lists the tables of a database by the number of pages that an insert reads from disk, the
// highest number first.
func Worst(ctx context.Context, db engine.Definer, memory int64) ([]Ranked, error) {
	tables, err := db.Tables(ctx)
	if err != nil {
		return nil, err
	}
	var out []Ranked
	for _, t := range tables {
		if own(t.Name) {
			continue
		}
		out = append(out, Ranked{ListedTable: t})
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return cmp.Compare(b.Data+b.Index, a.Data+a.Index) })
	for i := range out[:min(len(out), MostRanked)] {
		if err := out[i].look(ctx, db, cmp.Or(memory, db.Info().CacheBytes)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out[:min(len(out), MostRanked)], func(a, b Ranked) int { return cmp.Compare(b.Reads, a.Reads) })
	return out, nil
}

// MostRanked is the number of tables that Worst looks at: the largest ones.
const MostRanked = 50

// A Ranked is a table with an estimate of what inserts into it wait for.
type Ranked struct {
	engine.ListedTable
	// Time is the column by which it would roll, or Why it can't.
	Time string `json:"time,omitempty"`
	Why  string `json:"why,omitempty"`
	// Reads is the number of pages that an insert reads from disk, computed from the size of the pages
	// that inserts touch and the memory for pages. It is 0 if these pages fit into memory.
	Reads float64 `json:"page_reads_per_insert"`
	// Touched is the size of the indexes that inserts touch at random, in bytes.
	Touched float64 `json:"touched_bytes"`
}

func (t *Ranked) look(ctx context.Context, db engine.Definer, memory int64) error {
	s, err := db.Describe(ctx, t.Name)
	if err != nil {
		return err
	}
	if s.Partitioned {
		t.Why = "partitioned"
		return nil
	}
	columns, of, failed := sample(ctx, db, s)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if found, _ := candidates(s, columns, time.Now()); len(found) > 0 {
		t.Time = found[0].Column
	} else {
		t.Why = "no column tells the time"
	}
	if len(s.PrimaryKey) == 0 {
		t.Why = "no primary key"
	}
	if failed != nil || of.Rows == 0 {
		return nil
	}
	f, err := db.Estimate(ctx, t.Name)
	if err != nil {
		return err
	}
	perRow, pieces := sizing.Touched(sizing.Pieces(f, s, t.Time, float64(of.Rows)))
	t.Touched = perRow * float64(of.Rows)
	if t.Touched > 0 && memory > 0 {
		t.Reads = sizing.Reads(len(pieces), t.Touched, float64(memory))
	}
	return nil
}
