package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/rolling"
)

type loadFlags struct {
	ingest.Options
	file string // the declaration's file
	node string // the node whose table is loaded, "" for the only server
	kept keptFlags
	formatFlags
	periods  string
	from     fromFlags
	list     bool
	watch    string
	files    int
	withJSON bool
}

// loads implements `rowmill load`: files, other servers, and a directory that is watched.
type loads struct{ *app }

func (a loads) loadCommand() *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:   "load FILE.toml [SOURCE...]",
		Short: "Load files and streams into a rolling table, without loss or duplicates",
		Long: "Load files and streams into a rolling table: CSV, TSV, JSON lines and arrays,\n" +
			"InfluxDB's line protocol, Parquet, and dumps of mysqldump, mydumper and pg_dump,\n" +
			"also compressed (gz, zst, bz2, xz, zip). A SOURCE is a file, a directory, a\n" +
			"pattern in quotes, or - for stdin, which can be neither Parquet nor zip.\n\n" +
			"Each row is loaded once: the same command continues after a crash, changes nothing\n" +
			"if the file is loaded already, and loads the new rows of a file that has grown. If\n" +
			"rows of an earlier load are missing in the table, the exit code is 1, and --again\n" +
			"loads the file once more. Missing periods are created. If many rows lie in a period\n" +
			"that is still empty, they are loaded into a new table, which then becomes the\n" +
			"period.\n\n" +
			"Rows that can't be loaded go to a file of JSON lines, with line, reason and the row;\n" +
			"all others are loaded, and the exit code is 1. Rows whose key is in the table are\n" +
			"counted and skipped; --on-duplicate update changes the table's row, --on-duplicate\n" +
			"error rejects the new one.\n\n" +
			"With [shards] in the declaration, each node gets its own rows. If a node was down, run\n" +
			"the same command again: it loads the rows that this node lacks.\n\n" +
			"--from loads the rows of a table in another database; with --since, each run reads\n" +
			"only the newest rows, such as those of the last 30 minutes.\n\n" +
			"stdin can't be read again: with --spool its rows are written to disk first, and\n" +
			"the next rowmill load with that spool loads what a crash left there. When the\n" +
			"spool is full, the sender waits.",
		Example: "  rowmill load readings.toml day1.csv day2.csv.gz\n" +
			"  rowmill load readings.toml day1.csv --dry-run\n" +
			"  rowmill load readings.toml --from mysql://reader@old-db/metrics\n" +
			"  producer | rowmill load readings.toml - --format jsonl --spool /var/spool/readings",
		Args: cli.WantArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			f.file, f.Format.Header, f.Format.NoHeader = args[0], f.header && c.Flags().Changed("header"), !f.header
			return a.load(c.Context(), args[1:], f)
		},
	}
	flagGroups(c, []flagGroup{
		{"Where the rows are", func(flags *pflag.FlagSet) {
			f.kept.define(flags)
			flags.StringVar(&f.watch, "watch", "", "load the files that appear in `DIRECTORY`, each once, until Ctrl-C")
			f.from.define(flags)
			flags.StringVar(&f.Name, "source", "", "`NAME` by which a later load recognizes the source, wherever the file lies (default its path)")
		}},
		{"How they are written", f.defineFormat},
		{"What happens to them", func(flags *pflag.FlagSet) {
			cli.ChoiceVar(flags, &f.OnDuplicate, "on-duplicate", format.SkipDuplicate, []string{format.SkipDuplicate, format.UpdateDuplicate, format.RejectDuplicate}, "`WAY` to treat a row whose key is in the table: skip (keep the table's row),\nupdate (change the table's row), or error (reject it as a bad row)")
			cli.ChoiceVar(flags, &f.periods, "create-periods", createPeriods, []string{createPeriods, createNoPeriods, createAnyPeriods}, "`WAY` to treat rows without a period: true (create up to 1,000 periods, none older than 'keep'), false (reject the rows), or always (as true, but any number of periods, also in the far future)")
			flags.StringVar(&f.Bad, "bad", "", "`PATH` of the file for rows that can't be loaded (default SOURCE.bad.jsonl in the working directory)")
			flags.Int64Var(&f.MaxBad, "max-bad", 1000, "stop before more than `N` rows are rejected; -1 is never")
			flags.BoolVar(&f.Dry, "dry-run", false, "read and check all rows, and send none (default false)")
			flags.BoolVar(&f.Again, "again", false, "load all of a file that is loaded already, skipping rows whose key is in the table (default false)")
			flags.BoolVar(&f.AcceptMissing, "accept-missing", false, "accept that loaded rows of a file are missing in the table now (default false)")
		}},
		{"How fast", func(flags *pflag.FlagSet) {
			cli.ChoiceVar(flags, (*string)(&f.Lane), "lane", string(lane.Auto), lane.Lanes, "how rows of files are written: `LANE` live (the rows are inserted), publish (the rows of an empty period are loaded into a new table, which becomes the period), merge (like publish, but a past period that has rows is rewritten, with the file's rows added), or auto (chosen for each period)")
			cli.SizeVar(flags, &f.Memory, "memory", "256MiB", 16<<20, "`SIZE` of the memory for the rows of periods to publish or merge; further rows go to a file in .rowmill in the working directory")
			cli.IntWithin(flags, &f.Parallel, "parallel", 0, 0, 64, "periods published at a time; SQLite takes one (the number of processors)")
			cli.IntWithin(flags, &f.files, "files", ingest.DefaultFiles, 1, 64, "sources read at a time; they share the --writers; SQLite takes one")
			cli.IntWithin(flags, &f.Writers, "writers", lane.DefaultWriters, 1, 64, "batches sent at a time; SQLite takes one")
			cli.IntWithin(flags, &f.Rows, "batch", 0, 0, math.MaxInt32, "rows of a batch; 0 begins with 5000, and adapts to the server")
			flags.DurationVar(&f.RetryFor, "retry", 5*time.Minute, "how long to retry when the server can't be reached or a lock is not granted; -1s is forever")
		}},
		{"Streams", func(flags *pflag.FlagSet) {
			flags.DurationVar(&f.Flush, "flush", ingest.DefaultFlush, "how long rows of a stream wait for their batch to fill")
			flags.StringVar(&f.Spool, "spool", "", "keep a stream's rows in `DIRECTORY` until they are loaded (default nowhere)")
			cli.SizeVar(flags, &f.SpoolBytes, "spool-size", "1GiB", 1<<20, "`SIZE` of the spool at which the sender has to wait")
		}},
		{"Output", func(flags *pflag.FlagSet) {
			flags.BoolVar(&f.list, "list", false, "list what was loaded into the table, and how far, and change nothing (default false)")
			flags.BoolVar(&f.withJSON, "json", false, "print JSON (default false)")
		}},
	})
	return c
}

// A flagGroup has flags that a command's help lists together.
type flagGroup struct {
	title  string
	define func(*pflag.FlagSet)
}

// flagGroups defines the flags of a command, and makes the command's help list them by group.
func flagGroups(c *cobra.Command, groups []flagGroup) {
	sets := make([]*pflag.FlagSet, len(groups))
	c.Flags().SortFlags = false
	for i, g := range groups {
		sets[i] = pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		sets[i].SortFlags = false
		g.define(sets[i])
		c.Flags().AddFlagSet(sets[i])
	}
	c.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		for i, g := range groups {
			fmt.Fprintf(out, "\n%s:\n%s", g.title, sets[i].FlagUsages())
		}
		return nil
	})
}

// Values of --create-periods.
const (
	createPeriods    = "true"
	createNoPeriods  = "false"
	createAnyPeriods = "always"
)

// check returns an error if the flags are invalid. It also parses the flags whose values are texts,
// and sets the load's options from them.
func (f *loadFlags) check(sources []string) (err error) {
	if err := f.checkFrom(sources); err != nil {
		return err
	}
	streams := 0
	for _, s := range sources {
		if s == "-" {
			streams++
		}
	}
	switch {
	case f.list && (len(sources) > 0 || f.Spool != "" || f.Dry):
		return cli.Usagef("rowmill load FILE.toml --list", "--list is about all that was loaded: it takes no source, and neither --spool nor --dry-run")
	case len(sources) == 0 && f.Spool == "" && !f.list && f.from.url == "":
		return cli.Usagef("rowmill load FILE.toml SOURCE..., or - for stdin", "no source is given")
	case streams > 1 || streams == 1 && len(sources) > 1:
		return cli.Usagef("rowmill load FILE.toml - alone", "- is stdin, and can't be combined with another source")
	case f.Spool != "" && len(sources) > 0 && streams == 0:
		return cli.Usagef("the file without --spool", "--spool is for stdin: a file can be read again")
	case f.Spool != "" && f.Dry:
		return cli.Usagef("--dry-run without --spool", "--spool keeps rows, and --dry-run sends none")
	case (f.Again || f.AcceptMissing) && (len(sources) == 0 && f.from.url == "" || streams > 0):
		return cli.Usagef("rowmill load FILE.toml SOURCE... with the files", "--again and --accept-missing are about files that are loaded already")
	case f.Again && f.AcceptMissing:
		return cli.Usagef("one of them", "--again loads what is missing, and --accept-missing leaves it")
	case (f.Lane == lane.Publish || f.Lane == lane.Merge) && (streams > 0 || len(sources) == 0):
		return cli.Usagef("--lane "+string(f.Lane)+" with files", "--lane %s needs all rows of a period before the first is sent, and a stream is sent as it arrives", f.Lane)
	case f.Flush <= 0:
		return cli.Usagef("--flush 1s", "--flush %s: want more than 0s", f.Flush)
	case f.MaxBad < -1:
		return cli.Usagef("--max-bad 1000", "--max-bad %d: want 0 or more, or -1 for any number", f.MaxBad)
	}
	return f.checkFormat()
}

// processMemory is the memory that a load needs besides the rows that it collects.
const processMemory = 48 << 20

func (a loads) load(ctx context.Context, sources []string, f loadFlags) (err error) {
	if sources, err = f.checkWatch(sources); err != nil {
		return err
	}
	if err := f.check(sources); err != nil {
		return err
	}
	memory := int64(processMemory)
	if f.Lane != lane.Live {
		memory += f.Memory
	}
	debug.SetMemoryLimit(memory)
	if f.watch == "" {
		if sources, err = a.expand(sources, &f); err != nil {
			return err
		}
	}
	if f.Name != "" && len(sources) > 1 {
		return cli.Usagef("one rowmill load for each", "--source names one source, and there are %s", strings.Join(sources, ", "))
	}
	d, err := a.declared(ctx, f.file, f.kept)
	if err != nil {
		return err
	}
	if d.Sharded() {
		return a.loadShards(ctx, sources, f, d)
	}
	return a.loadInto(ctx, sources, f, d)
}

// loadInto loads sources into the table of one server.
func (a loads) loadInto(ctx context.Context, sources []string, f loadFlags, d *declared.File) (err error) {
	wait := f.RetryFor
	if f.list {
		wait = 0
	}
	k, err := untilReached(ctx, a.app, wait, func() (*declared.Table, error) { return d.OpenApplied(ctx) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if f.list {
		return a.listLoaded(ctx, k, f.withJSON)
	}
	f.node = d.Node
	o := f.Options
	o.FromTable, o.Format.Dumps = f.from.table, target.Dumps()
	o.DB, o.Table, o.Schema, o.Late = k.DB, k.Table.Table, k.Schema, k.Declared.Late == rolling.LateReject
	if o.Share, err = format.ShareOf(k.DB, k.Table.Table, k.Declared.Shards, k.Node); err != nil {
		return err
	}
	k.Table.Reached = a.reached
	if o.AnyPeriods = f.periods == createAnyPeriods; f.periods != createNoPeriods {
		o.Periods = k.Table
	}
	o.Say = a.Say
	o.Reached = a.reached
	if k.Say = a.sayEvent; live.IsTerminal(a.Stderr) {
		k.Say = func(e maintain.Event) {
			if e.Err != nil {
				a.sayEvent(e)
			} else {
				a.StatusLine(e.String())
			}
		}
	}
	o.ListSkipped = f.Bad != ""
	o.Publisher = k.Table
	if f.from.url != "" {
		return a.loadFrom(ctx, k, f, o)
	}
	if f.watch != "" {
		return a.watch(ctx, o, f)
	}
	return a.loadAll(ctx, o, f, sources, k.Declared.Name)
}

func (a loads) printLoads(all []ingest.Outcome) error {
	return a.PrintFormat("rowmill.load/1", map[string]any{"sources": all})
}

// loadError adds a hint to the error of a load: what to do about too many bad rows, or what to do
// next after an interrupt.
func loadError(ctx context.Context, err error, next string) error {
	if many, ok := errors.AsType[*lane.TooManyError](err); ok {
		return engine.Hinted(err, "the bad rows so far in %s; rowmill load with --dry-run, which lists them all with --max-bad -1; or --max-bad with a higher number", many.Path)
	}
	return cli.Stopped(ctx, err, "%s", next)
}

// stoppedHint is the hint after an interrupted load. last is the outcome of the load's last source.
func stoppedHint(last ingest.Outcome, source, spool string) string {
	switch {
	case last.Lost > 0:
		return "the stream once more from its start: rows whose key is in the table are skipped. A large enough --spool keeps what is read"
	case source == "-" && spool == "":
		return "the rest of the stream, what was read of it is loaded"
	}
	return "the same command, which continues"
}

// untilReached calls open, and calls it again while the server can't be reached. It tries for as
// long as wait, or forever if wait is negative.
func untilReached[T any](ctx context.Context, a *app, wait time.Duration, open func() (T, error)) (T, error) {
	opened, err := engine.UntilReached(ctx, wait, func(err error) { a.Log("will be tried again: %v", err) }, open)
	return opened, cli.Stopped(ctx, err, "")
}

// sayLoad returns a function that prints the progress.
func (a loads) sayLoad(source string, dry bool) func(lane.Progress) {
	say := a.EveryTenth()
	return func(p lane.Progress) {
		line := p.Text(dry)
		if source != "" && source != "-" {
			line = filepath.Base(source) + ": " + line
		}
		say(line)
	}
}

// listLoaded prints the sources that were loaded into a table, the newest first.
func (a loads) listLoaded(ctx context.Context, k *declared.Table, withJSON bool) error {
	all, err := ingest.Sources(ctx, k.State, k.Declared.Name)
	if err != nil {
		return err
	}
	if withJSON {
		return a.PrintFormat("rowmill.sources/1", map[string]any{"table": k.Declared.Name, "sources": all})
	}
	if len(all) == 0 {
		fmt.Fprintf(a.Stdout, "nothing has been loaded into %s\n", k.Declared.Name)
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LOADED (UTC)\tSTATE\tROWS\tINSERTED\tUPDATED\tTHERE ALREADY\tDIFFERENT\tTWICE\tREJECTED\tSOURCE")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.LoadedAt.Format("2006-01-02 15:04:05"), s.State(), figure.Count(s.Sent), figure.Count(s.Inserted),
			figure.Count(s.Updated), figure.Count(s.Duplicate), figure.Count(s.Different), figure.Count(s.Repeated), figure.Count(s.Rejected), s.Source)
	}
	return w.Flush()
}
