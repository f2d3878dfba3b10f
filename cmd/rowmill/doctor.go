package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/advise"
	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/cli/measure"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/tables"
	"github.com/rowmill/rowmill/internal/target"
)

// errFindings is returned by doctor if there is something to mend.
var errFindings = errors.New("there are findings")

type doctorFlags struct {
	target, table string
	interval      experiment.Duration
	json, sql     bool
	prove         bool
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find what slows down or endangers inserts on a server",
		Long: "Find what slows down or endangers inserts on a server: in its settings, in its\n" +
			"counters, which are read twice, and in the keys of one table, or of the ten largest\n" +
			"tables. Each finding has its evidence, the remedy, and what the remedy costs.\n\n" +
			"Exit status 1 means that there are findings. Nothing is changed.",
		Example: "  rowmill doctor --target mysql://ingest@db1/metrics\n" +
			"  rowmill doctor --target postgres://ingest@db1/metrics --table events --json",
		Args: cli.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.target, "target", "", "the database, a `URL` such as mysql://USER@HOST/DB, postgres://USER@HOST/DB")
	flags.StringVar(&f.table, "table", "", "the `TABLE` to look at (default the ten largest)")
	cli.DurationVar(flags, &f.interval, "interval", time.Second, "`time` between two readings of the counters")
	flags.BoolVar(&f.prove, "prove", false, "measure how much the remedy of each finding gains, if private servers can show it: insert rows like\nthose of --table, alternately with and without the remedy, for at most 4 minutes a finding (default false)")
	flags.BoolVar(&f.sql, "print-sql", false, "print the grants that each command of rowmill needs for --table, and do nothing else (default false)")
	flags.BoolVar(&f.json, "json", false, "print JSON (default false)")
	return c
}

func (a *app) doctor(ctx context.Context, f doctorFlags) (err error) {
	switch {
	case f.target == "":
		return cli.Usagef("--target mysql://USER@HOST/DB", "doctor needs --target, the database to look at")
	case time.Duration(f.interval) < 100*time.Millisecond || time.Duration(f.interval) > time.Hour:
		return cli.Usagef("--interval 10s", "--interval %v: want 100ms to 1h", f.interval)
	case f.prove && f.table == "":
		return cli.Usagef("--table TABLE", "--prove needs --table: what is gained depends on the rows")
	case f.sql && f.table == "":
		return cli.Usagef("--table TABLE", "--print-sql needs --table: most privileges are those of a table")
	}
	t, err := target.Open(ctx, f.target, a.Note)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if f.sql {
		return a.printSQL(ctx, t.DB, f.table)
	}
	db, ok := t.DB.(engine.Doctor)
	if !ok {
		return engine.Hinted(fmt.Errorf("target %s is no server: it has no settings or counters that slow down inserts", f.target), "rowmill init --target %s, for its tables", f.target)
	}
	var only []string
	if f.table != "" {
		only = []string{f.table}
	}
	found, err := advise.Examine(ctx, db, f.target, only, time.Duration(f.interval))
	if err != nil {
		return err
	}
	var proving error
	if f.prove {
		proving = a.prove(ctx, db, &f, found)
	}
	if f.json {
		err = a.PrintFormat("rowmill.doctor/1", map[string]any{"target": db.Info().Target, "findings": append([]engine.Finding{}, found...)})
	} else {
		err = tables.Findings(a.Stdout, found, db.Info().Target, a.Stdout.Columns())
	}
	if err = errors.Join(err, proving); err == nil && len(found) > 0 {
		err = errFindings
	}
	return err
}

// prove measures what each finding's remedy gains, with rows that are like the table's rows.
func (a *app) prove(ctx context.Context, db engine.Doctor, f *doctorFlags, found []engine.Finding) error {
	if !slices.ContainsFunc(found, func(f engine.Finding) bool { return f.Trial != nil }) {
		a.Note("no finding can be proved by private servers")
		return nil
	}
	p, err := advise.Propose(ctx, db, advise.Options{Table: f.table, Target: f.target, Now: time.Now})
	if err != nil {
		return fmt.Errorf("--prove: %w", err)
	}
	kind := db.Info().Engine
	table := &experiment.TableSpec{File: f.table + ".toml", Declaration: p.Text()}
	if err := measure.Learn(ctx, a.App, table, "sandbox:"+kind, f.target, f.table); err != nil {
		return fmt.Errorf("--prove: %w", err)
	}
	rows, err := advise.TrialRows(ctx, db, f.table, p.Time.Column)
	if err != nil {
		return fmt.Errorf("--prove: %w", err)
	}
	env, err := measure.Unrecorded(a.App)
	if err != nil {
		return err
	}
	for i := range found {
		if t := found[i].Trial; t != nil {
			n := rows(t)
			a.Note(fmt.Sprintf("proving %s with %s rows", found[i].Code, figure.Count(n)))
			if found[i].Gain, err = env.Prove(ctx, kind, table, t, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// printSQL prints the grants for each verb.
func (a *app) printSQL(ctx context.Context, db engine.DB, table string) error {
	granter, ok := db.(engine.Granter)
	if !ok {
		return fmt.Errorf("target %s has no accounts", db.Info().Target)
	}
	for _, verb := range []string{"init, doctor", "plan", "status", "load", "apply, run, rollup, restore"} {
		first, _, _ := strings.Cut(verb, ",")
		statements, err := granter.Grants(ctx, []string{table}, declared.Rights(first, table))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.Stdout, "-- %s\n%s;\n", verb, strings.Join(statements, ";\n")); err != nil {
			return err
		}
	}
	return nil
}
