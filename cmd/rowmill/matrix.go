package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// matrixFlags are the flags of `rowmill bench matrix`.
type matrixFlags struct {
	target, preset     string
	rows               int64
	maxTime, interval  time.Duration
	methods, layouts   []string
	durabilities       []string
	batches, writers   []int64
	indexes            []int64
	repeat             int
	seed               uint64
	periodRows         int64
	out, resume        string
	retryFailed        bool
	baseline           string
	threshold          float64
	reports            reportFlags
	dropExisting       bool
	noVerify           bool
	plan, yes          bool
	defaultMethods     bool          // --method wasn't given
	given              []*pflag.Flag // on the command line
	defined            *pflag.FlagSet
	baselineRecs, done []result.Record
}

const (
	// defaultMatrixRows is enough for a few seconds per cell. A matrix compares
	// methods; tables that outgrow memory must be requested.
	defaultMatrixRows = 100000
	defaultCellTime   = 20 * time.Second
	// manyRuns and longMatrix are the size beyond which a matrix asks for
	// confirmation.
	manyRuns   = 200
	longMatrix = 2 * time.Hour
	// maxCells bounds the effect of a typing error.
	maxCells = 100000
)

func (a *app) benchMatrixCommand() *cobra.Command {
	var f matrixFlags
	c := &cobra.Command{
		Use:   "matrix",
		Short: "Insert by every combination of method, batch, writers, ... and say what matters",
		Long: "Fill a table anew for every combination of insert method, batch, writers, indexes,\n" +
			"layout and durability, and say which of these choices matter: the share of the\n" +
			"variance of the rate that each explains, by itself and together with another, what\n" +
			"each does all else equal, and the best cell. Cells are run in a random order that\n" +
			"the seed gives, with --repeat all of them again in another order, so that a\n" +
			"machine that drifts doesn't fall on one choice.\n\n" +
			"Each cell is a run as `rowmill bench insert` makes it, on a private server of its\n" +
			"own, or in a table that is dropped afterwards; a server that stays is given time\n" +
			"to write its dirty pages first. What the engine can't do is left out and named;\n" +
			"what fails is recorded as failed, and the rest goes on.\n\n" +
			"Ctrl-C reports what was measured; --resume RUN.jsonl goes on, also after kill -9.\n" +
			"--baseline OLD.jsonl sets each cell beside the same cell of an older matrix.\n\n" +
			"Exit codes: 0 done, 1 failed (also when a cell did), 2 usage, 3 a regression beyond\n" +
			"--threshold is shown.",
		Example: "  rowmill bench matrix --batch 1,100,1k --writers 1,4 --out matrix.jsonl --plan\n" +
			"  rowmill bench matrix --target 'sandbox:mariadb?memory=64MB' --method multi,prepared,load \\\n" +
			"      --batch 1,100,1k --durability full,none --repeat 2 --out matrix.jsonl --html matrix.html\n" +
			"  rowmill bench matrix --resume matrix.jsonl",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef(matrixHelp, "unexpected argument %q: everything is a flag", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			c.Flags().Visit(func(g *pflag.Flag) { f.given = append(f.given, g) })
			return a.benchMatrix(c.Context(), &f)
		},
	}
	f.define(c.Flags())
	return c
}

const matrixHelp = "rowmill bench matrix --help"

func (f *matrixFlags) define(flags *pflag.FlagSet) {
	f.defined = flags
	f.threshold = noThreshold
	f.rows, f.batches, f.writers, f.indexes = defaultMatrixRows, []int64{1, 100, 1000}, []int64{1, 4}, nil
	flags.SortFlags = false
	flags.StringVar(&f.target, "target", target.Default, target.Help+"\n`URL`")
	flags.StringVar(&f.preset, "preset", "classic", "`name` of the table and its rows: see rowmill bench insert --help")
	flags.Var(countValue{n: &f.rows}, "rows", "rows of each run; 0 is none but --max-time")
	flags.DurationVar(&f.maxTime, "max-time", defaultCellTime, "end each run after this `time`; 0 is none")
	flags.StringSliceVar(&f.methods, "method", nil, "insert methods, `list` of single, multi, prepared, pipeline, load (default those of multi, prepared, load that the engine has)")
	flags.Var(&countList{n: &f.batches}, "batch", "rows in one transaction, `list`")
	flags.Var(&countList{n: &f.writers}, "writers", "clients that insert at once, `list`")
	flags.Var(&countList{n: &f.indexes}, "indexes", "secondary indexes, the preset's first, `list` (default the preset's)")
	flags.StringSliceVar(&f.layouts, "layout", []string{workload.Plain}, "layouts, `list` of "+strings.Join(workload.Layouts(), ", "))
	flags.StringSliceVar(&f.durabilities, "durability", nil, "what a commit survives, `list` of full, relaxed, none; for private servers and SQLite (default the target's)")
	intVar(flags, &f.repeat, "repeat", 1, "run each cell `N` times; 2 and more tell noise from what matters")
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that all rows and the order of the cells derive from")
	flags.DurationVar(&f.interval, "interval", defaultInterval, "`time` between two readings of all figures")
	flags.Var(countValue{n: &f.periodRows, auto: true}, "period-rows", "rows of a rolling table's period; auto fits two periods into the database's cache")
	flags.StringVar(&f.out, "out", "", "write the record of all runs to this `file`, replacing it (default none: can't be resumed)")
	flags.StringVar(&f.resume, "resume", "", "go on with the matrix of this record `file`: run what is not complete in it, with the flags that it has")
	flags.BoolVar(&f.retryFailed, "retry-failed", false, "with --resume, also run again what failed (default false)")
	flags.StringVar(&f.baseline, "baseline", "", "compare each cell with that of this older record `file` of a matrix (default none)")
	flags.Var(fractionValue{&f.threshold}, "threshold", "with --baseline, exit with 3 when a cell, or all together, is shown to be slower by more than this `share`, such as 10% (default never)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with a heat map to this `file` (default none)")
	flags.StringVar(&f.reports.png, "png", "", "write a picture of what matters to this `file` (default none)")
	flags.StringVar(&f.reports.md, "md", "", "write Markdown tables to this `file` (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print the analysis as JSON instead of text (default false)")
	flags.BoolVar(&f.dropExisting, "drop-existing", false, "drop tables of these names that exist, with all their rows (default false)")
	flags.BoolVar(&f.noVerify, "no-verify", false, "don't read the tables back (default false)")
	flags.BoolVar(&f.plan, "plan", false, "print the cells, in their order, and how long they take, and run nothing (default false)")
	flags.BoolVar(&f.yes, "yes", false, fmt.Sprintf("don't ask before more than %d runs, or more than %s (default false)", manyRuns, longMatrix))
}

// A countList is a flag that holds several whole numbers: 1,100,10k.
type countList struct {
	n     *[]int64
	given bool
}

func (c *countList) Set(s string) error {
	if !c.given {
		*c.n, c.given = nil, true
	}
	for part := range strings.SplitSeq(s, ",") {
		var n int64
		if err := (countValue{n: &n}).Set(strings.TrimSpace(part)); err != nil {
			return err
		}
		*c.n = append(*c.n, n)
	}
	return nil
}

func (c *countList) String() string {
	if c.n == nil {
		return ""
	}
	return strings.Join(texts(*c.n), ",")
}

func (c *countList) Type() string { return "list" }

func texts(n []int64) []string {
	var out []string
	for _, v := range n {
		out = append(out, strconv.FormatInt(v, 10))
	}
	return out
}

// check refuses invalid flags before anything is started, and fills in their defaults.
func (f *matrixFlags) check() error {
	f.defaultMethods = f.methods == nil && !f.changed("method")
	if f.defaultMethods {
		f.methods = []string{string(engine.Multi), string(engine.Prepared), string(engine.Load)}
	}
	if f.indexes == nil && !f.changed("indexes") {
		n, err := f.presetIndexes()
		if err != nil {
			return err
		}
		f.indexes = []int64{n}
	}
	for _, l := range f.lists() {
		if len(l.levels) == 0 {
			if l.flag == "--durability" && !f.changed("durability") {
				continue
			}
			return usagef(matrixHelp, "%s: the list is empty", l.flag)
		}
		for i, v := range l.levels {
			switch {
			case v == "":
				return usagef(matrixHelp, "%s: an entry of the list is empty", l.flag)
			case slices.Contains(l.levels[:i], v):
				return usagef(matrixHelp, "%s: %s is named twice", l.flag, v)
			case l.known != nil && !slices.Contains(l.known, v):
				return usagef(matrixHelp, "%s: unknown %s %q: there are %s", l.flag, l.name, v, strings.Join(l.known, ", "))
			}
		}
	}
	if err := f.checkDurability(); err != nil {
		return err
	}
	switch {
	case f.rows == 0 && f.maxTime == 0:
		return usagef("--rows 100k, or --max-time 20s", "--rows 0 and --max-time 0: a run needs an end")
	case f.repeat < 1:
		return usagef(matrixHelp, "--repeat %d: want at least 1", f.repeat)
	case slices.Contains(f.batches, 0):
		return usagef(matrixHelp, "--batch 0: want at least 1")
	case f.rows > 0 && slices.Max(f.batches) > f.rows:
		return usagef("--rows "+strconv.FormatInt(10*slices.Max(f.batches), 10), "--batch %d is more than the %d rows of a run", slices.Max(f.batches), f.rows)
	case f.baseline == "" && f.threshold >= 0:
		return usagef("--baseline OLD.jsonl", "--threshold judges against a --baseline, which is missing")
	case f.retryFailed && f.resume == "":
		return usagef("--resume RUN.jsonl", "--retry-failed goes with --resume")
	case f.baseline != "" && filepath.Clean(f.baseline) == filepath.Clean(cmp.Or(f.out, f.resume, "-")):
		return usagef("give each its own file", "--baseline and the record of this matrix can't both be %s", f.baseline)
	}
	for _, o := range f.reports.outputs() {
		if f.baseline != "" && o.path != "" && filepath.Clean(f.baseline) == filepath.Clean(o.path) {
			return usagef("give each its own file", "--baseline and %s can't both be %s", o.flag, o.path)
		}
	}
	if len(f.methods)*len(f.batches)*len(f.writers)*len(f.indexes)*len(f.layouts)*max(1, len(f.durabilities))*f.repeat > maxCells {
		return usagef("shorter lists", "more than %d runs", maxCells)
	}
	return nil
}

// changed reports whether a flag was given, on this command line or in the record that
// is resumed.
func (f *matrixFlags) changed(name string) bool { return f.defined.Changed(name) }

// A levelList is one list of the flags.
type levelList struct {
	flag, name string
	levels     []string
	known      []string // nil: numbers
}

// lists returns the lists of the flags, in the order of the record's factors.
func (f *matrixFlags) lists() []levelList {
	return []levelList{
		{"--method", "method", f.methods, methods()},
		{"--batch", "batch", texts(f.batches), nil},
		{"--writers", "writers", texts(f.writers), nil},
		{"--indexes", "indexes", texts(f.indexes), nil},
		{"--layout", "layout", f.layouts, workload.Layouts()},
		{"--durability", "durability", f.durabilities, []string{sandbox.Full, sandbox.Relaxed, sandbox.None}},
	}
}

// presetIndexes returns how many secondary indexes the preset has by default.
func (f *matrixFlags) presetIndexes() (int64, error) {
	db, err := target.Dry(f.target)
	if err != nil {
		return 0, usagef(hintOf(err), "--target: %w", err)
	}
	w, err := workload.NewInsert(db, workload.InsertOptions{Preset: f.preset, Layout: workload.Plain})
	if err != nil {
		return 0, usagef(cmp.Or(hintOf(err), matrixHelp), "%w", err)
	}
	return int64(w.Indexes()), nil
}

// checkDurability refuses --durability if the target doesn't support it.
func (f *matrixFlags) checkDurability() error {
	if err := target.Check(f.target); err != nil {
		return usagef(hintOf(err), "--target: %w", err)
	}
	if len(f.durabilities) == 0 {
		return nil
	}
	settable, given := target.Durability(f.target)
	switch keep := target.Place(f.target); {
	case !settable:
		return usagef("without --durability: the server's own settings hold", "--durability: only sandboxes and SQLite can be told, not %s", f.target)
	case keep != "" && target.StartsServer(f.target):
		return usagef("a target without keep=", "--durability: the server in %s keeps its own", keep)
	case given:
		return usagef("leave it out of the target", "--durability: the target %s says it, too", f.target)
	}
	return nil
}

// at returns the target with a durability; "" means the target's own.
func (f *matrixFlags) at(durability string) string {
	if durability == "" {
		return f.target
	}
	sep := "?"
	if strings.Contains(f.target, "?") {
		sep = "&"
	}
	return f.target + sep + "durability=" + durability
}

// benchMatrix runs the matrix, or the remaining part of it. It reports all
// measurements made, even if it fails.
func (a *app) benchMatrix(ctx context.Context, f *matrixFlags) error {
	command := a.args
	if f.resume != "" {
		var err error
		if command, err = f.takeRecord(ctx); err != nil {
			return err
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	d, err := newMatrixDesign(f)
	if err != nil {
		return err
	}
	if f.baseline != "" {
		if f.baselineRecs, err = readRecords(ctx, []string{f.baseline}); err != nil {
			return err
		}
		if !report.IsMatrix(f.baselineRecs) {
			return usagef("rowmill bench matrix --out "+f.baseline, "--baseline %s: it holds no matrix", f.baseline)
		}
	}
	left := d.left(f.done, f.retryFailed)
	if f.resume != "" && len(left) > 0 && !d.same(f.done[0].Run.Cell) {
		return usagef("rowmill bench matrix --out NEW.jsonl", "--resume %s: its matrix has other cells than this version of rowmill would run", f.resume)
	}
	took := d.estimate(left, f.done, f.baselineRecs)
	if f.plan {
		return d.print(a.stdout, left, took)
	}
	if len(left) > manyRuns || took.time > longMatrix {
		if err := a.confirm(ctx, d.summary(len(left), took)+"\n", f.yes); err != nil {
			return err
		}
	}
	var out *recordFile
	switch {
	case f.resume == "":
		out, err = openRecord(f.out)
	case len(left) > 0:
		out, err = appendRecord(f.resume)
	}
	if err != nil {
		return err
	}
	recs := f.done
	if out != nil {
		more, runErr := a.runMatrix(ctx, d, left, command, took, out)
		recs = append(recs, more...)
		err = errors.Join(runErr, out.close())
	}
	if len(recs) == 0 {
		return err
	}
	for i := range recs {
		recs[i].Source = cmp.Or(f.resume, f.out, "this run")
	}
	return a.reportMatrix(f, recs, err)
}

// takeRecord reads the record named by --resume and takes its flags. Contradicting
// flags on the command line are an error. It returns the command that made the record.
func (f *matrixFlags) takeRecord(ctx context.Context) (command []string, err error) {
	if f.out != "" {
		return nil, usagef("without --out", "--out and --resume: what is run goes into %s", f.resume)
	}
	if f.done, err = readRecords(ctx, []string{f.resume}); err != nil {
		return nil, engine.Hinted(fmt.Errorf("--resume: %w", err), "a record that rowmill bench matrix --out has begun")
	}
	command = f.done[0].Run.Command
	if !report.IsMatrix(f.done) || len(command) < 2 || command[0] != "bench" || command[1] != "matrix" {
		return nil, usagef("rowmill report "+f.resume, "--resume %s: its runs are not those of one rowmill bench matrix", f.resume)
	}
	var old matrixFlags
	recorded := pflag.NewFlagSet("", pflag.ContinueOnError)
	old.define(recorded)
	if err := recorded.Parse(command[2:]); err != nil {
		return nil, usagef("rowmill report "+f.resume, "--resume %s: its command doesn't fit this version of rowmill: %w", f.resume, err)
	}
	// Flags that affect only the report may differ.
	free := []string{"resume", "retry-failed", "baseline", "threshold", "html", "png", "md", "json", "plan", "yes"}
	for _, g := range f.given {
		if slices.Contains(free, g.Name) {
			continue
		}
		was := recorded.Lookup(g.Name)
		if was.Value.String() != g.Value.String() {
			return nil, usagef("leave --"+g.Name+" out", "--resume: --%s %s contradicts the record, which has %s", g.Name, g.Value, cmp.Or(was.Value.String(), "none"))
		}
	}
	old.resume, old.out, old.retryFailed, old.baseline, old.threshold = f.resume, "", f.retryFailed, f.baseline, f.threshold
	old.reports, old.plan, old.yes, old.given, old.done = f.reports, f.plan, f.yes, f.given, f.done
	*f = old
	return command, nil
}
