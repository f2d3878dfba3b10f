package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/rolling"
)

// planFlags are the flags of `rowmill plan`.
type planFlags struct {
	kept     keptFlags
	rate     float64
	record   string
	memory   string
	rows     int
	rowBytes float64
	reads    float64
	json     bool
}

// defaultReads is the assumed number of random page reads per second of a disk: that
// of a solid-state disk with one or a few connections, each of which waits for its
// reads.
const defaultReads = 10000

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan FILE.toml",
		Short: "Say which period fits, how large a table gets, and how fast inserts stay",
		Long: "Say which period fits, how large a table gets, and how fast inserts stay. Each\n" +
			"figure comes with where it is from.\n\n" +
			"Bytes per row, of the rows and of each index, are measured: a scratch table,\n" +
			"rowmill_scratch_..., is made on the server, filled with rows of the table that is\n" +
			"declared, or made-up ones while it has none, and dropped, also after Ctrl-C. What\n" +
			"a killed plan left is dropped by the next one. Nothing else is changed.",
		Example: "  rowmill plan readings.toml --rate 5000/s\n" +
			"  rowmill plan readings.toml --row-bytes 102 --rate 509/s --memory 2GB",
		Args: wantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.plan(c.Context(), args[0], f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.kept.define(flags)
	flags.Var(rateValue{v: &f.rate, without: "to have it measured on the table"}, "rate", "rows inserted per second (from --record, or measured on the table)")
	flags.StringVar(&f.record, "record", "", "take rates from this `RUN.jsonl` of bench insert")
	flags.StringVar(&f.memory, "memory", "", "memory for pages of tables and indexes, a `SIZE` such as 8GB (the server's cache)")
	intVar(flags, &f.rows, "sample-rows", defaultSample, "rows of the sample")
	flags.Float64Var(&f.rowBytes, "row-bytes", 0, "estimate from so many bytes of a row, and ask no server (measured)")
	flags.Float64Var(&f.reads, "disk-reads", defaultReads, "random pages the disk reads per second, for the estimate of a plain table")
	flags.BoolVar(&f.json, "json", false, "print JSON (default false)")
	return c
}

func (f *planFlags) check() error {
	switch {
	case f.rate > 0 && f.record != "":
		return usagef("one of them", "--rate and --record both say how many rows are inserted")
	case f.rows < 1000 || f.rows > 5_000_000:
		return usagef("--sample-rows 50k", "--sample-rows %d: want 1000 to 5,000,000", f.rows)
	case !(f.rowBytes >= 0 && f.rowBytes < 1e9):
		return usagef("--row-bytes 100", "--row-bytes %v makes no sense", f.rowBytes)
	case !(f.reads > 0 && f.reads < 1e9):
		return usagef("--disk-reads 10000", "--disk-reads %v makes no sense", f.reads)
	}
	return nil
}

func (a *app) plan(ctx context.Context, file string, f planFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	in := sizing.Input{Reads: sizing.Figure{Value: f.reads, From: "--disk-reads"}, Rate: sizing.Figure{Value: f.rate, From: "--rate"}}
	if f.reads == defaultReads {
		in.Reads.From = "assumed, as of a solid-state disk; --disk-reads says otherwise"
	}
	if f.memory != "" {
		n, err := parseMemory(f.memory)
		if err != nil {
			return err
		}
		in.Memory = sizing.Figure{Value: float64(n), From: "--memory"}
	}
	if f.record != "" {
		if err := takeRecord(ctx, &in, f.record); err != nil {
			return err
		}
	}
	out, err := a.planned(ctx, file, f, in)
	if err != nil {
		return err
	}
	if f.json {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	return writePlan(a.stdout, out)
}

// planned measures the values that aren't given and computes the plan.
func (a *app) planned(ctx context.Context, file string, f planFlags, in sizing.Input) (_ *sizing.Output, err error) {
	if f.rowBytes > 0 {
		d, _, err := readDeclaration(ctx, file, f.kept.target)
		if err != nil {
			return nil, err
		}
		declared(&in, d)
		in.Pieces, in.PiecesFrom = sizing.Estimate(f.rowBytes), fmt.Sprintf("--row-bytes: an estimate, twice %g bytes and a tenth more", f.rowBytes)
		if in.Memory.Value == 0 {
			return nil, usagef("--memory 8GB", "--row-bytes asks no server, which would tell its memory")
		}
		out, err := sizing.Plan(in)
		return out, planHint(err)
	}
	f.kept.dry = true
	k, err := a.openKept(ctx, file, f.kept)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return a.planKept(ctx, k, in, f.rows)
}

// planKept computes the plan for an open table.
func (a *app) planKept(ctx context.Context, k *kept, in sizing.Input, rows int) (*sizing.Output, error) {
	declared(&in, k.Table.Declared)
	info := k.DB.Info()
	in.MaxPeriods = k.DB.Capabilities().MaxPeriods
	if in.Memory.Value == 0 {
		if info.CacheBytes <= 0 {
			return nil, usagef("--memory 8GB", "%s doesn't say how much memory it has for pages", info.Engine)
		}
		in.Memory = sizing.Figure{Value: float64(info.CacheBytes), From: "the server's own setting"}
	}
	if in.Rate.Value == 0 && in.Axis == rolling.Time {
		var err error
		if in.Rate, err = liveRate(ctx, k); err != nil {
			return nil, err
		}
	}
	db, ok := k.DB.(engine.Sizer)
	if !ok {
		return nil, usagef("--row-bytes 100", "%s can't measure a table", info.Engine)
	}
	s := &sample{db: db, declared: k.Declared, table: k.Table.Table, live: k.Schema, rows: rows, rate: in.Rate.Value, note: func(line string) { fmt.Fprintln(a.stderr, line) }}
	if err := s.measure(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errInterruptedEarly, err)
		}
		return nil, err
	}
	s.fill(&in)
	out, err := sizing.Plan(in)
	if err != nil {
		return nil, planHint(err)
	}
	out.Engine, out.Server, out.Target = info.Engine, info.Version, k.named
	out.Warnings = append(out.Warnings, s.warnings...)
	return out, nil
}

// planHint adds a hint to the error of an unknown rate.
func planHint(err error) error {
	if errors.Is(err, sizing.ErrNoRate) {
		return &usageError{err, "--rate 5000/s; a table that has rows already tells its rate itself"}
	}
	return err
}

// declared fills in the values of the declaration.
func declared(in *sizing.Input, d *rolling.Declaration) {
	in.Table, in.Keep, in.Ahead, in.After = d.Name, d.Keep, d.Ahead, d.Seal.After
	in.Merge, in.Compress, in.Axis, in.WholeDays = d.Seal.Merge, d.Seal.Compress, d.Period.Axis(), d.WholeDays()
	if !d.Auto {
		in.Period = d.Period
	}
}

// takeRecord takes the rates from a record's runs: the last run of each layout.
func takeRecord(ctx context.Context, in *sizing.Input, file string) error {
	recs, err := experiment.Read(ctx, file)
	if err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	in.RunsFrom = file
	for i := range recs {
		s := recs[i].Summary()
		if recs[i].Run.Workload != "insert" || s.Rows == 0 || s.RowsPerSecond == 0 {
			continue
		}
		if s.Layout == "rolling" {
			in.Rolling = &s
		} else {
			in.Plain = &s
		}
	}
	switch {
	case in.Rolling != nil:
		in.Rate = sizing.Figure{Value: in.Rolling.RowsPerSecond, From: fmt.Sprintf("%s: the mean of %s", file, in.Rolling.Name)}
	case in.Plain != nil:
		in.Rate = sizing.Figure{Value: in.Plain.RowsPerSecond, From: fmt.Sprintf("%s: the mean of %s", file, in.Plain.Name)}
	default:
		return &usageError{fmt.Errorf("%s holds no run of bench insert that inserted rows", file), "rowmill bench insert --layout plain,rolling --out RUN.jsonl"}
	}
	return nil
}

// liveTimeout bounds the counting of a live table's newest rows, for which there may
// be no index.
const liveTimeout = 30 * time.Second

// liveRate determines the rate at which rows arrive in an existing table; 0 if there
// is no table, or it has no rows.
func liveRate(ctx context.Context, k *kept) (sizing.Figure, error) {
	none := sizing.Figure{From: "not known"}
	if k.Schema == nil {
		return none, nil
	}
	parts, err := periodsOf(ctx, k)
	if err != nil {
		return none, err
	}
	if len(parts) == 0 {
		return plainRate(ctx, k)
	}
	now, err := k.Now(ctx)
	if err != nil {
		return none, err
	}
	sizes, err := k.DB.PeriodSizes(ctx, k.Table.Table)
	if err != nil {
		return none, err
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
	return sizing.Figure{Value: float64(rows) / (float64(length) / 1e6), From: fmt.Sprintf("the live table: the server's estimate of %s in its whole periods %s to %s", plural(rows, "row"), first, last)}, nil
}

// periodsOf returns the periods of an existing table; a plain table has none.
func periodsOf(ctx context.Context, k *kept) ([]rolling.Partition, error) {
	if !k.Schema.Partitioned && !k.Schema.View {
		return nil, nil
	}
	t := *k.Table.Table
	if !t.Grid.Valid() { // with every = "auto", the grid isn't known; only the axis matters here
		t.Grid, _ = rolling.Parse("1d")
	}
	return k.DB.Catalog().Partitions(ctx, &t)
}

// plainRate counts the newest rows of a plain table.
func plainRate(ctx context.Context, k *kept) (sizing.Figure, error) {
	none := sizing.Figure{From: "not known"}
	t := *k.Table.Table
	t.Grid, _ = rolling.Parse("1d")
	w, quote := k.DB.Words(), k.DB.Dialect().Quote
	timed, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	query := func(q string) (n *int64, err error) {
		err = k.DB.SQL().QueryRowContext(timed, q).Scan(&n)
		if err != nil && timed.Err() != nil && ctx.Err() == nil {
			err = &usageError{fmt.Errorf("count the newest rows of %s: not done after %v", t.Name, liveTimeout), "--rate 5000/s"}
		} else if err != nil {
			err = fmt.Errorf("count the newest rows of %s: %w", t.Name, k.DB.Classify(err))
		}
		return n, err
	}
	newest, err := query(fmt.Sprintf("SELECT %s FROM %s", w.Position(&t, "MAX("+quote(t.By)+")"), quote(t.Name)))
	if err != nil || newest == nil {
		return none, err
	}
	for _, length := range []string{"1h", "1d", "30d"} {
		s, _ := rolling.ParseSpan(length)
		rows, err := query(fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s >= %s AND %s < %s", quote(t.Name),
			quote(t.By), w.Literal(&t, s.Before(*newest)), quote(t.By), w.Literal(&t, *newest)))
		if err != nil {
			return none, err
		}
		if rows != nil && *rows >= 1000 || length == "30d" && rows != nil && *rows > 0 {
			return sizing.Figure{Value: float64(*rows) / (float64(s.Micros) / 1e6), From: fmt.Sprintf("the live table: %s in the %s before its newest", plural(*rows, "row"), length)}, nil
		}
	}
	return none, nil
}
