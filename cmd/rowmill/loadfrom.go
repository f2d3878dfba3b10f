package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// fromFlags are the flags of `rowmill load` for the rows of another server.
type fromFlags struct {
	url, table   string
	since, until string
}

func (f *fromFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "from", "", "load the rows of a table in another database; the `URL` is written like that of --target")
	flags.StringVar(&f.table, "from-table", "", "`NAME` of the table in the other database, or in a dump (default the name of the declared table)")
	flags.StringVar(&f.since, "since", "", "with --from, load only the rows since a `TIME`, or of the last 30m, 6h or 2d (default all)")
	flags.StringVar(&f.until, "until", "", "with --since, load only the rows before a `TIME`, or older than a time span such as 1m (default all)")
}

// checkFrom returns an error if the flags contradict --from.
func (f *loadFlags) checkFrom(sources []string) error {
	switch {
	case f.from.url == "" && f.from.since+f.from.until != "":
		return cli.Usagef("--from URL", "--since and --until are about the rows of another database")
	case f.from.url == "":
		return nil
	case len(sources) > 0:
		return cli.Usagef("one rowmill load for each", "--from is the source: it can't be combined with %s", sources[0])
	case f.from.until != "" && f.from.since == "":
		return cli.Usagef("--since TIME --until TIME", "--until needs --since")
	case f.list, f.Spool != "", f.AcceptMissing:
		return cli.Usagef("--from without them", "--list, --spool and --accept-missing are about files and streams")
	case f.Again && f.from.since != "":
		return cli.Usagef("--since without --again", "--since loads its rows each time")
	case f.aboutText():
		return cli.Usagef("--from without them", "--format, --delimiter, --header, --null, --bytes, --time-zone and the like are about text, and --from reads values; times are in UTC")
	}
	return nil
}

// rangeOf returns the range of --since and --until. The zero value is all rows.
func (f *fromFlags) rangeOf(d *rolling.Declaration, now time.Time) (r rolling.Period, err error) {
	if f.since == "" {
		return r, nil
	}
	if d.Period.Axis() != rolling.Time {
		return r, cli.Usagef("--from without --since", "--since %s: table %s rolls by a sequence, and not by time", f.since, d.Name)
	}
	r = d.Period.Bounds()
	if r.From, err = momentOf("since", f.since, now); err != nil {
		return r, err
	}
	if f.until != "" {
		if r.To, err = momentOf("until", f.until, now); err != nil {
			return r, err
		}
	}
	if r.From >= r.To {
		return r, cli.Usagef("--since 1h --until 1m", "--since %s is not before --until %s", f.since, f.until)
	}
	return r, nil
}

// momentOf returns the position of a time (2026-03-01), or of a span before the present (3d).
func momentOf(flag, text string, now time.Time) (int64, error) {
	if span, err := rolling.ParseSpan(text); err == nil && span.Rows == 0 {
		return span.Before(rolling.Position(now)), nil
	}
	us, _, err := value.ParseTime([]byte(text), time.UTC)
	if err != nil {
		return 0, cli.Usagef("--"+flag+" 30m, or --"+flag+" '2026-03-29 01:00:00', in UTC", "--%s %q: it is neither a length of time nor a time", flag, text)
	}
	return us, nil
}

// loadFrom loads the rows of another database's table.
func (a loads) loadFrom(ctx context.Context, k *declared.Table, f loadFlags, o ingest.Options) (err error) {
	within, err := f.from.rangeOf(k.Declared, f.kept.present()())
	if err != nil {
		return err
	}
	source, err := a.openSource(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	from := ingest.From{DB: source.DB.(engine.Keeper), Table: f.from.table, Range: within}
	if from.Table == "" {
		from.Table = k.Declared.Name
	}
	if from.Name, err = ingest.ServerName(source.Info().Target, from.Table); err != nil {
		return err
	}
	if to, err := ingest.ServerName(k.DB.Info().Target, k.Declared.Name); err != nil {
		return err
	} else if to == from.Name {
		return cli.Usagef("--from with the other database", "--from %s: it is the table into which it would be loaded", f.from.url)
	}
	o.Bad = f.badPath("", k.Declared.Name)
	// A load with --since is usually run by cron, which mails the output: show no progress there.
	if f.from.since == "" || live.IsTerminal(a.Stderr) {
		o.Progress = a.sayLoad("", f.Dry)
	}
	r, err := ingest.Server(ctx, o, from)
	one := ingest.NewOutcome(o, from.Name, r, err)
	a.StatusLine("")
	if f.withJSON {
		err = errors.Join(err, a.printLoads([]ingest.Outcome{one}))
	} else {
		fmt.Fprintln(a.Stdout, one.Text())
	}
	return loadError(ctx, cmp.Or(err, one.Err()), "the same command, which continues")
}

// openSource opens the database of --from. If the database can't be reached, openSource tries again
// for as long as --retry says.
func (a loads) openSource(ctx context.Context, f loadFlags) (*target.DB, error) {
	if missing := target.MissingFile(f.from.url); missing != "" {
		return nil, engine.Hinted(fmt.Errorf("--from: there is no file %s", missing), "the path of an existing database")
	}
	source, err := untilReached(ctx, a.app, f.RetryFor, func() (*target.DB, error) {
		return target.Open(ctx, f.from.url, a.Note)
	})
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	if _, ok := source.DB.(engine.Keeper); !ok || !source.Capabilities().Stores {
		err := cli.Usagef("--from mysql://USER@HOST/DB", "--from %s: it has no rows to read", f.from.url)
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}
