package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/internal/workload/sample"
)

// A tableFlags is the user's own table, for rowmill bench insert.
type tableFlags struct {
	file string
	// sample is the URL of the database with the table from whose rows values are learned. sampled is
	// the table's name. learned is the file into which the learned values are written.
	sample, sampled, learned string
}

func (f *tableFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "table", "", "measure the table of this declaration, `FILE.toml`, in place of a preset's; needs --target,\nas the declaration's own target is never used")
	flags.StringVar(&f.sample, "sample", "", "with --table, learn how values are distributed and ordered from the table in the database\n`URL`, written like --target; this reads the server's statistics and at most 1% of the pages")
	flags.StringVar(&f.sampled, "sample-table", "", "`NAME` of the table in the database of --sample (default the declared table's name)")
	flags.StringVar(&f.learned, "learned", "", "write the declaration with what was learned to this `FILE.toml` (default none)")
}

// ownTable completes the Spec with the declared table, if there is one.
func (a benchmarks) ownTable(ctx context.Context, f *benchFlags, flags *pflag.FlagSet) error {
	t := &f.table
	switch {
	case t.file == "" && (t.sample != "" || t.sampled != "" || t.learned != ""):
		return cli.Usagef("--table FILE.toml, the declaration of the table to measure", "--sample, --sample-table and --learned are for --table")
	case t.file == "":
		return nil
	case t.sample == "" && (t.sampled != "" || t.learned != ""):
		return cli.Usagef("--sample URL", "--sample-table and --learned are for --sample")
	}
	const try = "rowmill bench insert --table FILE.toml --target URL"
	for _, name := range []string{"preset", "indexes", "table-per-writer"} {
		if flags.Changed(name) {
			return cli.Usagef(try, "--%s is for presets: --table measures the table as it is declared", name)
		}
	}
	if !flags.Changed("target") {
		return cli.Usagef("--target "+target.ExampleServer, "--table needs --target: the declaration's own target may be in use, and is measured only if it is named")
	}
	if t.sample != "" {
		if err := target.Check(t.sample); err != nil {
			return cli.Usagef(cli.HintOf(err), "--sample: %w", err)
		}
		if path := target.MissingFile(t.sample); path != "" { // opening would create it
			return cli.Usagef("--sample URL of a database with the table", "--sample: no such file: %s", path)
		}
	}
	text, err := textfile.Read(ctx, t.file)
	if err != nil {
		return engine.Hinted(cli.Usagef("", "--table: %w", err), "a declaration such as docs/declaration.md shows")
	}
	auto := flags.Changed("period-rows") && f.spec.PeriodRows == 0
	table := &experiment.TableSpec{File: t.file, Declaration: string(text)}
	if t.sample != "" {
		if err := Learn(ctx, a.App, table, f.spec.Target(), t.sample, t.sampled); err != nil {
			return err
		}
		if t.learned != "" {
			if err := os.WriteFile(t.learned, []byte(table.Declaration), 0o644); err != nil {
				return fmt.Errorf("--learned: %w", err)
			}
		}
	}
	return f.spec.SetTable(table, auto)
}

// Learn reads a sample of the table name in the database sampled; if name is "", the table has the
// declared name. From then on, table has values learned from the sample, in place of the values
// that its declaration describes. url is the target of the run.
func Learn(ctx context.Context, app *cli.App, table *experiment.TableSpec, url, sampled, name string) (err error) {
	d, err := table.Declared(url)
	if err != nil {
		return cli.Usagef("", "%w", err)
	}
	db, err := target.Open(ctx, sampled, app.Note)
	if err != nil {
		return fmt.Errorf("--sample: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	source, ok := db.DB.(engine.TableSampler)
	if !ok {
		return cli.Usagef("--sample URL of a database with the table", "--sample: %s has no tables to sample", db.Info().Engine)
	}
	name = cmp.Or(name, d.Name)
	learned, err := sample.Learn(ctx, d, source, name)
	if err != nil {
		return fmt.Errorf("--sample: %w", err)
	}
	note := fmt.Sprintf("learned from %s rows of about %s of table %s", figure.Count(learned.Sampled), figure.Count(learned.Rows), name)
	if len(learned.Without) > 0 {
		note += ", which has nothing to learn columns " + workload.Join(learned.Without) + " from"
	}
	app.Note(note)
	*table = *table.WithValues(&d.Values, "Values were "+note+".")
	return nil
}
