package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/tabular"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
)

type queryFlags struct {
	target, file, out string
	shards            string
	format            tabular.Format
	snapshot          string
	noHeader, json    bool
	explain, check    bool
	options           query.Options
	tabular           tabular.Options
}

// Values of --snapshot.
const (
	snapshotAuto    = "auto"
	snapshotLock    = "lock"
	snapshotRequire = "require"
)

type queries struct{ *app }

func (a queries) queryCommand() *cobra.Command {
	var f queryFlags
	c := &cobra.Command{
		Use:   "query [SQL]",
		Short: "Answer a query over a partitioned table on several connections",
		Long: "Answer a query over a partitioned table on several connections. The query is split into\n" +
			"pieces, each for some of the partitions. The pieces run in parallel in one snapshot, and\n" +
			"their results are merged into the answer that the server itself would give, byte for\n" +
			"byte. If that answer can't be guaranteed, the query is sent to the server unsplit:\n" +
			"--explain says why. --check compares the split answer with the unsplit one.\n\n" +
			"The query is the argument, or comes from --file, or from standard input. Several\n" +
			"statements, with semicolons between them, are run in turn. Only queries are run, in\n" +
			"read-only transactions. Ctrl-C ends them on the server.\n\n" +
			"Formats:\n" +
			"  table    boxes as the mysql client draws them; the default on a terminal\n" +
			"  tsv      as mysql --batch, except that NULL is \\N; the default elsewhere\n" +
			"  csv      RFC 4180; NULL is an empty field, the empty text is \"\"\n" +
			"  ndjson   a JSON object for each row; numbers have all their digits\n" +
			"  parquet  native types; with --out, or into a pipe",
		Example: "  rowmill query --target mariadb://report@db1/metrics \\\n" +
			"      'SELECT sensor, COUNT(*), MAX(value) FROM readings GROUP BY sensor ORDER BY 2 DESC LIMIT 10'\n" +
			"  rowmill query --target mariadb://report@db1/metrics --file month.sql --out month.parquet",
		Args: cli.WantArgs(0, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.query(c.Context(), args, f) },
	}
	flagGroups(c, []flagGroup{
		{"What is asked", func(flags *pflag.FlagSet) {
			flags.StringVar(&f.target, "target", "", "the database, as a `URL`, such as mariadb://USER@HOST/DB")
			flags.StringVar(&f.shards, "shards", "", "the declaration `FILE.toml` of a table with [shards]: read the table's nodes directly;\nthe target in the declaration is the default of --target")
			flags.StringVar(&f.file, "file", "", "read the statements from `FILE`, - for standard input (default the argument)")
			flags.BoolVar(&f.explain, "explain", false, "say how the query would be answered, and run nothing (default false)")
			flags.BoolVar(&f.check, "check", false, "answer the query whole and split, and compare the answers byte for byte; exit code 1 if they differ (default false)")
		}},
		{"How it is answered", func(flags *pflag.FlagSet) {
			cli.IntWithin(flags, &f.options.Parallel, "parallel", 0, 0, 256, "connections that read; 0 is one for each core of the server if it is on\nthis machine, else 4")
			cli.SizeVar(flags, &f.options.Memory, "memory", "256MiB", 1<<20, "`SIZE` of the memory for merging; beyond it the server merges, in a temporary table")
			flags.BoolVar(&f.options.Inexact, "inexact", false, "also split sums and averages of floating-point numbers, and variances: their last digits may then differ (default false)")
			flags.BoolVar(&f.options.ByRange, "by-range", false, "also split a table without partitions, by ranges of its primary key (default false)")
			cli.ChoiceVar(flags, &f.snapshot, "snapshot", snapshotAuto, []string{snapshotAuto, snapshotLock, snapshotRequire}, "let all connections see the same rows: `HOW` auto (if the server can do it without a lock, else it\nwarns), lock (by a brief lock against writes, if needed), or require (if it can't, don't split)")
			flags.BoolVar(&f.options.NoRollups, "no-rollups", false, "don't read roll-ups in place of the table (default false)")
			flags.BoolVar(&f.options.NoCache, "no-cache", false, "don't use cached results of sealed periods (default false)")
		}},
		{"Output", func(flags *pflag.FlagSet) {
			cli.ChoiceVar(flags, &f.format, "format", "", tabular.Formats(), "`FORMAT` table, tsv, csv, ndjson or parquet (default by the name of --out; table on a terminal, else tsv)")
			flags.StringVar(&f.out, "out", "", "write the answer to `FILE`, completely or not at all (default standard output)")
			flags.BoolVar(&f.noHeader, "no-header", false, "omit the line with the columns' names (default false)")
			flags.BoolVar(&f.json, "json", false, "print JSON, with --explain or --check (default false)")
		}},
	})
	return c
}

// complete returns an error if the flags are invalid. It parses the flags that are texts, and sets
// their options.
func (f *queryFlags) complete(args []string, terminal bool) error {
	const try = "rowmill query --target mariadb://USER@HOST/DB 'SELECT ...'"
	switch {
	case f.target == "" && f.shards == "":
		return cli.Usagef(try, "--target is missing: the database")
	case len(args) > 0 && f.file != "":
		return cli.Usagef("one of them", "the argument and --file both are the query")
	case f.explain && f.check:
		return cli.Usagef("one of them", "--explain runs nothing, and --check does")
	case (f.explain || f.check) && (f.out != "" || f.format != "" || f.noHeader):
		return cli.Usagef("--explain or --check, with --json or without", "--format, --out and --no-header are for an answer, and --explain and --check print none")
	case f.json && !f.explain && !f.check:
		return cli.Usagef("--format ndjson", "--json is for --explain and --check")
	}
	f.options.Always = f.check
	f.options.Lock, f.options.Require, f.options.ReadOnly = f.snapshot == snapshotLock, f.snapshot == snapshotRequire, true
	if f.format == "" {
		f.format = tabular.FormatOf(f.out)
		if ending := filepath.Ext(strings.TrimPrefix(filepath.Base(f.out), ".")); f.format == "" && len(ending) > 1 {
			return cli.Usagef("--format csv", "--out %s: no format has the ending %s; known are .csv, .tsv, .tab, .ndjson, .jsonl, .parquet and .txt, which is a table", f.out, ending)
		}
	}
	if f.format == "" {
		f.format = tabular.TSV
		if terminal && f.out == "" {
			f.format = tabular.Table
		}
	}
	switch {
	case f.noHeader && !f.format.HasHeader():
		return cli.Usagef("--format csv --no-header", "--no-header: %s has no header", f.format)
	case f.format == tabular.Parquet && terminal && f.out == "":
		return cli.Usagef("--out FILE.parquet", "--format parquet: a terminal can't show it")
	}
	f.tabular.NoHeader = f.noHeader
	return nil
}

// statements reads the text of the statements.
func (a queries) statements(ctx context.Context, args []string, file string) (string, error) {
	switch {
	case len(args) > 0 && args[0] != "-":
		return args[0], nil
	case file != "" && file != "-":
		text, err := textfile.ReadAny(ctx, file)
		return string(text), err
	}
	text, err := textfile.Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(a.Stdin, textfile.Limit+1)) })
	if err == nil && len(text) > textfile.Limit {
		err = fmt.Errorf("it has more than %s, the most that is read", figure.Bytes(int64(textfile.Limit)))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", cli.Stopped(ctx, ctx.Err(), "")
	case err != nil:
		return "", fmt.Errorf("read the statements from standard input: %w", err)
	}
	return string(text), nil
}

func (a queries) query(ctx context.Context, args []string, f queryFlags) (err error) {
	if err := f.complete(args, a.Stdout.Columns() > 0); err != nil {
		return err
	}
	text, err := a.statements(ctx, args, f.file)
	if err != nil {
		return err
	}
	nodes, err := a.openShards(ctx, &f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nodes.Close()) }()
	if path := target.MissingFile(f.target); path != "" { // opening would create it
		return fmt.Errorf("--target %s: there is no file %s", f.target, path)
	}
	t, err := target.Open(ctx, f.target, a.LogLine)
	if err != nil {
		return err
	}
	defer func() {
		if granter, ok := t.DB.(engine.Granter); ok && errors.Is(err, engine.ErrDenied) {
			a.needs, _ = granter.Grants(ctx, nil, []engine.Right{{Privileges: "SELECT, CREATE TEMPORARY TABLES"}}) // on an error, only the hint is shown
		}
		err = errors.Join(err, t.Close())
	}()
	reader, ok := t.DB.(engine.Reader)
	if !ok {
		return cli.Usagef("--target mariadb://USER@HOST/DB", "--target %s can't answer queries", f.target)
	}
	if err := nodes.Check(ctx, t.DB); err != nil {
		return err
	}
	var last atomic.Pointer[query.Progress]
	if live.IsTerminal(a.Stderr) {
		f.options.Progress = func(now query.Progress) { last.Store(&now) }
	}
	f.options.Rollups = maintain.NewRolled(reader)
	r := query.New(reader, f.options)
	defer func() { err = errors.Join(err, r.Close()) }()
	shards := make([]query.Shard, len(nodes.Nodes))
	for i, n := range nodes.Nodes {
		shards[i] = query.Shard(n)
	}
	r.ReadShards(nodes.Table, shards)
	batch, err := r.Statements(ctx, text)
	if err != nil {
		return err
	}
	if f.format == tabular.Parquet && len(batch.Texts) > 1 {
		return cli.Usagef("one rowmill query for each", "--format parquet: a file has one answer, and there are %d statements", len(batch.Texts))
	}
	one := func(w io.Writer) func(text string) error {
		return func(text string) error {
			if f.options.Progress != nil {
				began := time.Now()
				last.Store(&query.Progress{})
				defer a.Meanwhile(a.StatusLine, func() string { return last.Load().Text(time.Since(began)) })()
			}
			return a.queryOne(ctx, r, text, batch.State, f, w)
		}
	}
	if f.out == "" {
		return queryAll(ctx, batch, one(a.Stdout))
	}
	return a.WriteOutput(f.out, func(w io.Writer) error { return queryAll(ctx, batch, one(w)) })
}

// openShards opens the nodes of the table that the file --shards declares. If --target isn't given,
// it is set to the target in that file. If a node can't be reached, only queries that need the node
// fail.
func (a queries) openShards(ctx context.Context, f *queryFlags) (*declared.Readers, error) {
	if f.shards == "" {
		return &declared.Readers{}, nil
	}
	d, err := declared.Read(ctx, f.shards, "")
	if err != nil {
		return nil, err
	}
	if len(d.Shards.Nodes) == 0 {
		return nil, cli.Usagef("--target alone", "--shards %s: table %s has no [shards]", f.shards, d.Name)
	}
	if f.target == "" {
		if err := declared.WantTarget(d.Declaration); err != nil {
			return nil, err
		}
		f.target = d.Target
	}
	d.Note = a.LogLine
	return d.OpenReaders(ctx)
}

// queryAll runs the statements in turn, up to the first statement that fails. With --check, each
// statement is answered in two ways. If the two answers differ, queryAll goes on with the next
// statement, and returns errAnswersDiffer at the end.
func queryAll(ctx context.Context, batch *query.Batch, one func(text string) error) error {
	differ := false
	for n, text := range batch.Texts {
		err := one(text)
		if errors.Is(err, errAnswersDiffer) {
			differ = true
			continue
		}
		if err != nil {
			return cli.Stopped(ctx, fmt.Errorf("%s%w", batch.Place(n), err), "")
		}
	}
	if differ {
		return errAnswersDiffer
	}
	return nil
}

// errAnswersDiffer is returned by --check if answers differ.
var errAnswersDiffer = errors.New("the answers of the whole query and of the split one differ")

func (a queries) queryOne(ctx context.Context, r *query.Runner, text string, st engine.State, f queryFlags, w io.Writer) error {
	plan, err := r.Plan(ctx, text, st)
	switch {
	case err != nil:
		return err
	case f.explain:
		e, err := r.Explain(ctx, plan)
		if err != nil {
			return err
		}
		return a.show(w, f.json, e)
	case f.check:
		checked, err := r.Check(ctx, plan)
		if err != nil {
			return err
		}
		if err := a.show(w, f.json, checked); err != nil || checked.Same() {
			return err
		}
		return errAnswersDiffer
	}
	out, err := tabular.New(f.format, w, f.tabular)
	if err != nil {
		return err
	}
	report, err := r.Run(ctx, plan, out)
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return err
	}
	for _, warning := range report.Warnings {
		a.LogLine("warning: " + warning)
	}
	if f.options.Progress != nil {
		a.LogLine(report.Text())
	}
	return nil
}

// show prints what --explain and --check have found.
func (a queries) show(w io.Writer, asJSON bool, v interface{ Text(io.Writer) error }) error {
	if asJSON {
		return a.PrintJSON(v)
	}
	return v.Text(w)
}
