package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/cli/measure"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/tables"
	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

type planFlags struct {
	kept     keptFlags
	rate     float64
	record   string
	memory   int64
	rows     int
	rowBytes float64
	reads    float64
	disk     string
	json     bool
	// connections is the number of connections that have the table open. With calibrate, the cost of
	// open partitions is measured.
	connections int
	calibrate   bool
	prices      priceFlags
}

// defaultReads is the assumed number of random page reads per second of a disk: what a solid-state
// disk does for one or a few connections that each wait for their reads.
const defaultReads = 10000

// A planner finds the period that suits a table.
type planner struct{ *app }

func (a planner) planCommand() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan FILE.toml",
		Short: "Estimate a suitable period, and a table's size and insert rate",
		Long: "Estimate the period that fits into memory, a table's size, and the insert rate to\n" +
			"expect. Each figure is printed with its source.\n\n" +
			"The bytes per row of the table and of each index are measured: the command creates a\n" +
			"scratch table, rowmill_scratch_..., fills it with rows of the declared table, or with\n" +
			"generated rows if the declared table has none, and drops it, also after Ctrl-C. If the\n" +
			"command is killed, the next plan drops the scratch table. Nothing else is changed.",
		Example: "  rowmill plan readings.toml --rate 5000/s\n" +
			"  rowmill plan readings.toml --row-bytes 102 --rate 509/s --memory 2GB\n" +
			"  rowmill plan readings.toml --record run.jsonl --prices prices.toml --html prices.html",
		Args: cli.WantArgs(0, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.plan(c.Context(), args, f) },
	}
	flags := c.Flags()
	f.kept.define(flags)
	flags.Var(cli.RateOf(&f.rate, "to have it measured on the table"), "rate", "rows inserted per second (default from --record, or measured on the table)")
	flags.StringVar(&f.record, "record", "", "take rates from this `RUN.jsonl` of bench insert")
	cli.MemoryVar(flags, &f.memory, "memory for pages of tables and indexes, a `SIZE` such as 8GB (default the server's cache)")
	cli.IntWithin(flags, &f.rows, "sample-rows", sizing.DefaultSample, 1000, 5_000_000, "rows of the sample")
	flags.Float64Var(&f.rowBytes, "row-bytes", 0, "estimate from this number of bytes per row, without a server (default measured)")
	flags.Float64Var(&f.reads, "disk-reads", defaultReads, "random pages that the disk can read per second, for the estimate of a plain table")
	flags.StringVar(&f.disk, "disk", "", "take --disk-reads from this `DISK.jsonl` of bench disk")
	cli.IntWithin(flags, &f.connections, "connections", engine.OpenConnections, 1, 100_000, "estimate the server's memory for `N` connections that have the table open")
	flags.BoolVar(&f.calibrate, "calibrate", false, "measure on private servers of the same kind, in about a minute, what open partitions\nof this table cost (default false: use the costs that bench tables showed)")
	f.prices.define(flags)
	flags.BoolVar(&f.json, "json", false, "print JSON (default false)")
	return c
}

func (f *planFlags) check() error {
	switch {
	case f.calibrate && f.rowBytes > 0:
		return cli.Usagef("--calibrate without --row-bytes", "--row-bytes uses no server, so that --calibrate doesn't know which kind to measure")
	case f.rate > 0 && f.record != "" && f.prices.file == "":
		return cli.Usagef("one of them", "--rate and --record both give the rate of inserts")
	case f.disk != "" && f.reads != defaultReads:
		return cli.Usagef("one of them", "--disk and --disk-reads both give the random reads of the disk")
	case !(f.rowBytes >= 0 && f.rowBytes < 1e9):
		return cli.Usagef("--row-bytes 100", "--row-bytes %v: want 0 to 1e9", f.rowBytes)
	case !(f.reads > 0 && f.reads < 1e9):
		return cli.Usagef("--disk-reads 10000", "--disk-reads %v: want more than 0, up to 1e9", f.reads)
	}
	return nil
}

func (a planner) plan(ctx context.Context, files []string, f planFlags) error {
	if err := errors.Join(f.check(), f.prices.check(len(files), f.record)); err != nil {
		return err
	}
	var recs []result.Record
	if f.record != "" {
		var err error
		if recs, err = record.Read(ctx, f.record); err != nil {
			return fmt.Errorf("read the record: %w", err)
		}
	}
	if len(files) == 0 {
		return a.price(ctx, &f, recs, nil)
	}
	in := sizing.Input{Reads: sizing.Figure{Value: f.reads, From: "--disk-reads"}, Rate: sizing.Figure{Value: f.rate, From: "--rate"},
		Memory: sizing.Figure{Value: float64(f.memory), From: "--memory"}}
	if f.reads == defaultReads {
		in.Reads.From = "assumed, as of a solid-state disk; --disk-reads replaces it"
	}
	if f.disk != "" {
		if err := takeDisk(ctx, &in, f.disk); err != nil {
			return err
		}
	}
	if f.record != "" {
		given := in.Rate
		if !in.Recorded(recs, f.record) {
			return errNoInserts(f.record)
		}
		if f.rate > 0 { // the plan is for --rate; the record only says what can be promised
			in.Rate = given
		}
	}
	out, err := a.planned(ctx, files[0], f, in)
	if err != nil {
		return err
	}
	if f.prices.file != "" {
		return a.price(ctx, &f, recs, out)
	}
	if f.json {
		return a.PrintJSON(out)
	}
	return tables.Plan(a.Stdout, out)
}

// planned measures the values that aren't given and computes the plan.
func (a planner) planned(ctx context.Context, file string, f planFlags, in sizing.Input) (_ *sizing.Output, err error) {
	if f.rowBytes > 0 {
		d, err := declared.Parse(ctx, file, f.kept.target)
		if err != nil {
			return nil, err
		}
		in.Declare(d)
		in.Pieces, in.PiecesFrom = sizing.Estimate(f.rowBytes), fmt.Sprintf("--row-bytes: an estimate, twice %g bytes and a tenth more", f.rowBytes)
		if in.Memory.Value == 0 {
			return nil, cli.Usagef("--memory 8GB", "--row-bytes uses no server, so that the memory is unknown")
		}
		out, err := sizing.Plan(in)
		return out, planHint(err)
	}
	d, err := a.declared(ctx, file, f.kept)
	if err != nil {
		return nil, err
	}
	d.Dry = true
	k, err := d.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	in.Connections = f.connections
	if f.calibrate {
		if err := a.calibrate(ctx, k, &in); err != nil {
			return nil, err
		}
	}
	return a.planKept(ctx, k, in, f.rows)
}

// planKept computes the plan for an open table.
func (a planner) planKept(ctx context.Context, k *declared.Table, in sizing.Input, rows int) (*sizing.Output, error) {
	in.Declare(k.Declared)
	info := k.DB.Info()
	in.MaxPeriods = k.DB.Capabilities().MaxPeriods
	if in.Connections == 0 {
		in.Connections = engine.OpenConnections
	}
	if open := k.DB.Capabilities().Open; !in.Open.Known() && open.Known() {
		in.Open, in.OpenFrom = open, fmt.Sprintf("as bench tables measured %s with 13 columns and 2 indexes; --calibrate measures this table", info.Engine)
	}
	if in.Memory.Value == 0 {
		if info.CacheBytes <= 0 {
			return nil, cli.Usagef("--memory 8GB", "%s does not report its memory for pages", info.Engine)
		}
		in.Memory = sizing.Figure{Value: float64(info.CacheBytes), From: "the server's own setting"}
	}
	db, ok := k.DB.(engine.Sizer)
	if !ok {
		return nil, cli.Usagef("--row-bytes 100", "%s can't measure a table", info.Engine)
	}
	s := &sizing.Sample{DB: db, Declared: k.Declared, Table: k.Table.Table, Live: k.Schema, Rows: rows, Note: a.Note}
	if in.Rate.Value == 0 && in.Axis == rolling.Time {
		now, err := k.Now(ctx)
		if err == nil {
			in.Rate, err = s.ArrivalRate(ctx, now)
		}
		if err != nil {
			return nil, planHint(err)
		}
	}
	if err := s.Measure(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", experiment.ErrInterruptedEarly, err)
		}
		return nil, err
	}
	s.Fill(&in)
	out, err := sizing.Plan(in)
	if err != nil {
		return nil, planHint(err)
	}
	out.Engine, out.Server, out.Target = info.Engine, info.Version, k.Named
	out.Warnings = append(out.Warnings, s.Warnings...)
	return out, nil
}

// calibrate measures what open partitions of a table cost.
func (a planner) calibrate(ctx context.Context, k *declared.Table, in *sizing.Input) error {
	env, err := measure.Unrecorded(a.App)
	if err != nil {
		return err
	}
	c, err := env.Calibrate(ctx, k.DB.Info().Engine, k.Table.Table, in.Connections)
	if err != nil {
		return err
	}
	in.Open, in.OpenFrom = c.OpenCost, c.From
	if c.Add.Points > 0 {
		in.AddOne = func(n float64) float64 { return max(0, c.Add.At(n)) }
	}
	return nil
}

// planHint adds a hint to the error of an unknown rate.
func planHint(err error) error {
	if errors.Is(err, sizing.ErrNoRate) {
		return cli.Usagef("--rate 5000/s; for a table that has rows, the rate is measured", "%w", err)
	}
	return err
}

func errNoInserts(record string) error {
	return cli.Usagef("rowmill bench insert --layout plain,rolling --out RUN.jsonl", "%s holds no run of bench insert that inserted rows", record)
}

// takeDisk takes the random reads from a record of bench disk.
func takeDisk(ctx context.Context, in *sizing.Input, file string) error {
	m, err := experiment.ReadDisk(ctx, file)
	if err != nil {
		return err
	}
	at := m.At(16<<10, 1) // usual pages; one client reads one page at a time
	in.Reads = sizing.Figure{Value: at.PerSecond, From: fmt.Sprintf("%s: random reads of %s at queue depth %d", file, figure.Bytes(at.BlockBytes), at.Depth)}
	return nil
}

// findPeriod fills in the period of a declaration with every = "auto", unless the table already has
// a period. It takes the longest period of which two fit into memory, given the number of rows
// inserted per second.
func (a planner) findPeriod(ctx context.Context, k *declared.Table, f applyFlags) error {
	if !k.Declared.Auto || k.Declared.Period.Valid() {
		return nil
	}
	in := sizing.Input{Rate: sizing.Figure{Value: f.rate, From: "--rate"}, Memory: sizing.Figure{Value: float64(f.memory), From: "--memory"}}
	out, err := a.planKept(ctx, k, in, sizing.DefaultSample)
	if err != nil {
		return fmt.Errorf("find the period: %w", err)
	}
	why := fmt.Sprintf("%s holds %s rows of %.0f bytes at %s rows/s; two of them fit into %.0f%% of %s", out.Grid(), figure.Words(out.Period.Rows), out.PerRow.Value,
		figure.Words(out.Rate.Value), 100*sizing.CacheShare, figure.Bytes(out.Memory.Value))
	fmt.Fprintf(a.Stderr, "every = \"auto\": %s\n", strings.Join(append([]string{why}, out.Warnings...), "; "))
	return k.SetPeriod(out.Grid())
}

// priceFlags are the flags of `rowmill plan` about prices.
type priceFlags struct {
	file    string
	servers int
	html    string
}

func (f *priceFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "prices", "", "print what machines and volumes of this price list, `PRICES.toml`, cost a month, and the rate that\neach can promise; with --record, FILE.toml may be left out (default none)")
	cli.IntWithin(flags, &f.servers, "servers", 1, 1, 100, "with --prices, `N` servers with the table, one of which takes the inserts")
	flags.StringVar(&f.html, "html", "", "with --prices, write a page with a chart of price against rate to this `file` (default none)")
}

func (f *priceFlags) check(given int, record string) error {
	switch {
	case f.file == "" && given == 0:
		return cli.Usagef("rowmill plan FILE.toml", "rowmill plan needs FILE.toml, a declaration; with --prices, a --record may take its place")
	case f.file == "" && (f.html != "" || f.servers != 1):
		return cli.Usagef("--prices PRICES.toml", "--html and --servers are for --prices")
	case given == 0 && record == "":
		return cli.Usagef("rowmill plan FILE.toml --prices PRICES.toml", "--prices needs a declaration, or a --record of bench insert")
	}
	return nil
}

// price prints what the planned table costs. out is its plan, or nil without a declaration.
func (a planner) price(ctx context.Context, f *planFlags, recs []result.Record, out *sizing.Output) error {
	text, err := textfile.Read(ctx, f.prices.file)
	if err != nil {
		return fmt.Errorf("--prices: %w", err)
	}
	prices, err := sizing.ReadPrices(f.prices.file, text)
	if err != nil {
		return fmt.Errorf("--prices: %w", err)
	}
	d, ok := sizing.RecordedDemand(recs, f.prices.servers)
	if out != nil {
		base, cores := sizing.Figure{}, 0
		switch {
		case ok && d.RollingRate.Value > 0:
			base, cores = d.RollingRate, d.Cores
		case out.After.First != nil:
			base = sizing.Figure{Value: *out.After.First, From: out.After.From}
		}
		if base.Value <= 0 {
			return cli.Usagef("--record RUN.jsonl of bench insert --table FILE.toml --layout rolling", "--prices: no rate is known that could be promised")
		}
		if d, err = out.Demand(base, cores, f.prices.servers); err != nil {
			return cli.Usagef("--rate 5000/s", "--prices: %w", err)
		}
	} else if !ok {
		return errNoInserts(f.record)
	}
	doc := tables.Prices(prices.Offer(d))
	if f.prices.html != "" {
		if err := a.WriteOutput(f.prices.html, doc.HTML); err != nil || f.prices.html == "-" {
			return err
		}
	}
	if f.json {
		return doc.JSON(a.Stdout)
	}
	return doc.Text(a.Stdout)
}
