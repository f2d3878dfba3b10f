package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/archive"
)

type restoreFlags struct {
	kept          keptFlags
	file, into    string
	list, verify  bool
	release       bool
	withoutSeal   bool
	yes, withJSON bool
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:   "restore FILE.toml [PERIOD]",
		Short: "Bring an archived period back",
		Long: "Bring an archived period back: its rows are read from the Parquet file into a new\n" +
			"table, and their number and checksum are compared with the file and with the\n" +
			"period's seal. Then that table becomes a period of the rolling table again, under a\n" +
			"short lock; with --into it remains a separate table.\n\n" +
			"A restored period isn't dropped again, however old it is, until --release returns\n" +
			"it to retention. Inserts and rowmill run continue meanwhile. After a crash, the same\n" +
			"command continues.\n\n" +
			"--list shows the existing archives; --list --verify reads each of them.",
		Example: "  rowmill restore readings.toml --list\n" +
			"  rowmill restore readings.toml p20261120\n" +
			"  rowmill restore readings.toml p20261120 --into readings_20261120 --yes\n" +
			"  rowmill restore readings.toml p20261120 --release",
		Args: cli.WantArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.restore(c.Context(), args[0], append(args[1:], "")[0], f)
		},
	}
	flags := c.Flags()
	f.kept.define(flags)
	flags.StringVar(&f.file, "file", "", "read this `FILE` instead of the period's own (default the table's archive)")
	flags.StringVar(&f.into, "into", "", "restore into a new `TABLE` of this name (default into a period of the table)")
	flags.BoolVar(&f.list, "list", false, "list the archives, and change nothing (default false)")
	flags.BoolVar(&f.verify, "verify", false, "with --list, verify each file by reading all of it (default false)")
	flags.BoolVar(&f.release, "release", false, "let retention drop the restored period again (default false)")
	flags.BoolVar(&f.withoutSeal, "without-seal", false, "trust the file alone: restore its rows even if their checksum differs from\nthe checksum of the period's seal (default false)")
	flags.BoolVarP(&f.yes, "yes", "y", false, "don't ask (default false)")
	flags.BoolVar(&f.withJSON, "json", false, "print JSON (default false)")
	return c
}

func (f *restoreFlags) check(period string) error {
	const try = "rowmill restore FILE.toml PERIOD, or --list"
	switch {
	case f.list && (period != "" || f.file != "" || f.into != "" || f.release || f.withoutSeal):
		return cli.Usagef(try, "--list takes no period and no other flag than --verify")
	case f.verify && !f.list:
		return cli.Usagef("--list --verify", "--verify requires --list; a restore is always verified")
	case f.release && (f.file != "" || f.into != "" || f.withoutSeal):
		return cli.Usagef("rowmill restore FILE.toml PERIOD --release", "--release takes a period, and neither --file nor --into nor --without-seal")
	case f.list:
		return nil
	case period == "" && f.file == "":
		return cli.Usagef(try, "no period is given")
	case period != "" && f.file != "":
		return cli.Usagef("one of them", "period %s and --file %s both name what to restore", period, f.file)
	}
	return nil
}

func (a *app) restore(ctx context.Context, file, period string, f restoreFlags) (err error) {
	if err := f.check(period); err != nil {
		return err
	}
	k, err := a.openApplied(ctx, file, f.kept)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	k.Reached = a.reached
	switch {
	case f.list:
		return a.listArchives(ctx, k, f)
	case f.release:
		plan := fmt.Sprintf("On %s:\n  1. let retention drop period %s of %s again, once its archive has been read back\n", k.DB.Info().Target, period, k.Declared.Name)
		if err := a.Confirm(ctx, plan, f.yes); err != nil {
			return err
		}
		if err := k.Release(ctx, period); err != nil {
			return err
		}
		if f.withJSON {
			return a.PrintFormat(restoreFormat, map[string]any{"table": k.Declared.Name, "period": period, "rows": 0, "released": true})
		}
		fmt.Fprintf(a.Stdout, "retention may drop %s of %s again\n", period, k.Declared.Name)
		return nil
	}
	path := f.file
	if path == "" {
		if path, err = k.FindArchive(ctx, period); err != nil {
			return err
		}
	}
	r, err := k.PlanRestore(ctx, path, f.into)
	if err != nil {
		return err
	}
	r.WithoutSeal = f.withoutSeal
	if err := a.Confirm(ctx, r.Plan(), f.yes); err != nil {
		return err
	}
	began, said := time.Now(), time.Now()
	progress := func(rows int64) {
		if rows == r.File.Rows || time.Since(said) >= time.Second {
			said = time.Now()
			fmt.Fprintf(a.Stderr, "%s of %s, %.0f rows/s\n", figure.Count(rows), figure.Plural(r.File.Rows, "row"), float64(rows)/max(time.Since(began).Seconds(), 1e-3))
		}
	}
	if err := r.Run(ctx, progress, func(why error) { fmt.Fprintln(a.Stderr, "waiting for the table's lock:", why) }); err != nil {
		return err
	}
	if f.withJSON {
		return a.PrintFormat(restoreFormat, map[string]any{"table": k.Declared.Name, "period": r.Part.Name, "from": k.Table.Table.Grid.Format(r.Part.From),
			"to": k.Table.Table.Grid.Format(r.Part.To), "into": f.into, "rows": r.File.Rows, "sum": r.File.Sum, "file": r.File.Path, "seconds": time.Since(began).Seconds()})
	}
	where := fmt.Sprintf("is period %s of %s again, until --release", r.Part.Name, k.Declared.Name)
	if f.into != "" {
		where = "is table " + f.into
	}
	fmt.Fprintf(a.Stdout, "%s %s: %s\n", r.File.Path, where, figure.Plural(r.File.Rows, "row"))
	return nil
}

// restoreFormat is the version of the --json output of a restoration.
const restoreFormat = "rowmill.restore/1"

// listArchives lists the archive files; with --verify, it also reads all of each file.
func (a *app) listArchives(ctx context.Context, k *declared.Table, f restoreFlags) error {
	all, err := k.Archives(ctx)
	if err == nil && f.verify {
		err = archive.VerifyAll(ctx, all)
	}
	if err != nil {
		return err
	}
	if f.withJSON {
		if err := a.PrintFormat("rowmill.archives/1", map[string]any{"table": k.Declared.Name, "archives": append([]archive.Info{}, all...)}); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "PERIOD\tBOUNDS\tROWS\tSIZE\tWRITTEN\tFILE")
		for _, i := range all {
			written := ""
			if !i.Written.IsZero() {
				written = i.Written.UTC().Format("2006-01-02 15:04")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", i.Name, i.Bounds, figure.Count(i.Rows), figure.Bytes(float64(i.Bytes)), written, i.Path)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	bad := 0
	for _, i := range all {
		if i.Problem != "" {
			if bad++; !f.withJSON {
				fmt.Fprintf(a.Stdout, "%s can't be used: %s\n", i.Path, i.Problem)
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d archives can't be used", bad, len(all))
	}
	return nil
}
