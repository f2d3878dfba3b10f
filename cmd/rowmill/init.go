package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/advise"
	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/report/tables"
	"github.com/rowmill/rowmill/internal/target"
)

type initFlags struct {
	target, table, column string
	rate                  float64
	memory                int64
	json                  bool
}

func (a *app) initCommand() *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:   "init",
		Short: "Write the declaration of an existing table, or list the tables that need one",
		Long: "Write the declaration of an existing table to standard output: the column that\n" +
			"divides the table into periods, the keys, and the period that fits into memory, each\n" +
			"with the reason. Further settings are proposed as comments. rowmill apply FILE\n" +
			"--dry-run then shows what apply would change.\n\n" +
			"Without --table, list the tables of the database, first those whose inserts read\n" +
			"the most pages from disk.\n\n" +
			"The command reads catalogs, statistics and some 2,000 rows. To learn the insert\n" +
			"rate, it counts the rows of the newest hour or, if they are few, of the newest day\n" +
			"or month. It changes nothing.",
		Example: "  rowmill init --target mysql://ingest@db1/metrics\n" +
			"  rowmill init --target mysql://ingest@db1/metrics --table events > events.toml",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.init(c.Context(), f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.target, "target", "", "the database, a `URL` such as mysql://USER@HOST/DB, postgres://USER@HOST/DB, sqlite:PATH")
	flags.StringVar(&f.table, "table", "", "the `TABLE` to declare")
	flags.StringVar(&f.column, "time", "", "the `COLUMN` that is to divide the table into periods (default found in the table)")
	flags.Var(cli.RateOf(&f.rate, "to have it measured on the table"), "rate", "rows inserted per second (default measured on the table)")
	cli.MemoryVar(flags, &f.memory, "memory for pages of tables and indexes, a `SIZE` such as 8GB (default the server's cache)")
	flags.BoolVar(&f.json, "json", false, "print the list of tables as JSON (default false)")
	return c
}

func (a *app) init(ctx context.Context, f initFlags) (err error) {
	switch {
	case f.target == "":
		return cli.Usagef("--target mysql://USER@HOST/DB", "init needs --target, the database with the table")
	case f.json && f.table != "":
		return cli.Usagef("no --json", "--json is for the list of tables, and a declaration is TOML")
	case f.table == "" && (f.column != "" || f.rate > 0):
		return cli.Usagef("--table TABLE", "--time and --rate are for one table")
	}
	if missing := target.MissingFile(f.target); missing != "" {
		return fmt.Errorf("open %s: there is no such file", missing)
	}
	t, err := target.Open(ctx, f.target, a.Note)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	db, ok := t.DB.(engine.Definer)
	if !ok {
		return fmt.Errorf("target %s has no tables that roll", f.target)
	}
	if f.table == "" {
		ranked, err := advise.Worst(ctx, db, f.memory)
		switch {
		case err != nil:
			return err
		case f.json:
			return a.PrintJSON(ranked)
		}
		return tables.Ranked(a.Stdout, ranked, db.Info().Target)
	}
	p, err := advise.Propose(ctx, db, advise.Options{Table: f.table, Target: f.target, Time: f.column, Rate: f.rate, Memory: f.memory, Now: time.Now})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(a.Stdout, p.Text()); err != nil {
		return err
	}
	file := strings.ToLower(f.table) + ".toml"
	a.Note(fmt.Sprintf("then: rowmill apply %s --dry-run, where %s is this text", file, file))
	return nil
}
