package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/receive"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/monitor"
)

type runFlags struct {
	kept     keptFlags
	once     bool
	listen   string
	interval time.Duration
	limits   limitFlags
	ingest   ingestFlags
}

// A runner keeps tables until it is stopped: `rowmill run`.
type runner struct{ *app }

func (a runner) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run FILE.toml|DIRECTORY...",
		Short: "Keep rolling tables: periods, roll-ups, archive, retention",
		Long: "Maintain rolling tables until the command ends: create periods ahead of the inserts,\n" +
			"refresh roll-ups, and seal periods once their time has passed; rebuild, merge and\n" +
			"archive sealed periods as declared; drop periods that have passed retention. A period is\n" +
			"dropped only after its rows are proven to be in every roll-up and in the archive.\n\n" +
			"A lock is waited for at most one second and requested again later, so that inserts\n" +
			"don't queue behind it. Several processes may run for a table: one leads, by a lock in\n" +
			"the database, and another takes over within seconds when the leader ends. SIGTERM ends\n" +
			"the command cleanly. After a kill, the next rowmill run completes the work.\n\n" +
			"A directory stands for its files *.toml. Added, changed and removed files are noticed\n" +
			"every --interval. A table that can't be maintained is reported and tried again, and\n" +
			"delays no other table; but if its file is the only one given, the command ends.\n\n" +
			"With --ingest, rows are taken over HTTP: POST /write/TABLE with CSV, JSON or line\n" +
			"protocol, or InfluxDB's /api/v2/write. A request is acknowledged once its rows are\n" +
			"on disk below --ingest-spool, and each row is loaded once. While the database is\n" +
			"down, rows wait in the spool.\n\n" +
			"With --replica, /metrics shows the delay of a replica: a row of the table\n" +
			"rowmill_heartbeat is updated once a second, and read on the replica. The delay grows\n" +
			"while the replica doesn't answer, or replicates nothing.",
		Example: "  rowmill run readings.toml --listen :9187\n" +
			"  rowmill run /etc/rowmill/tables --listen :9187\n" +
			"  rowmill run readings.toml --once\n" +
			"  rowmill run readings.toml --ingest :8186 --ingest-spool /var/spool/rowmill",
		Args: cli.WantArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error { return a.keep(c.Context(), args, f) },
	}
	flags := c.Flags()
	f.kept.define(flags)
	flags.BoolVar(&f.once, "once", false, "do all that is due and end, for cron; exit 1 if something is left (default false)")
	flags.StringVar(&f.listen, "listen", "", "serve /metrics, /healthz and a page at `ADDRESS`: :9187 is on loopback, 0.0.0.0:9187 on all interfaces (default nowhere)")
	flags.DurationVar(&f.interval, "interval", 10*time.Second, "how often to look for late rows, changed files and other unplanned work; with more\nthan 50 tables in a database, the interval is longer, up to a minute")
	f.limits.define(flags)
	f.ingest.define(flags)
	return c
}

func (a runner) keep(ctx context.Context, paths []string, f runFlags) (err error) {
	if f.interval <= 0 {
		return cli.Usagef("--interval 10s", "--interval %s: want more than 0s", f.interval)
	}
	if err := f.limits.check(f.listen != ""); err != nil {
		return err
	}
	if f.once && f.listen != "" {
		return cli.Usagef("one of them", "--listen serves for as long as rowmill runs, and --once ends")
	}
	if err := errors.Join(onLoopback("listen", &f.listen), f.ingest.check(f.once), f.kept.check()); err != nil {
		return err
	}
	watched, err := a.watches(ctx, paths, f)
	if err != nil {
		return err
	}
	servers := &declared.Servers{Bound: f.ingest.addr == ""}
	defer func() { err = errors.Join(err, servers.Close()) }()
	var tables []*declared.Table
	var missing []error // why nodes are left out
	if !watched {
		if tables, missing, err = a.openForRun(ctx, servers, paths, f); errors.Is(err, cli.ErrStopped) {
			a.Say("ended before the database could be reached")
			return nil
		} else if err != nil {
			return err
		}
	}
	w, err := a.watchTables(ctx, f.limits, tables)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, k := range tables {
		if err := a.prepareForRun(ctx, k, k.Node, w); err != nil {
			return err
		}
	}
	if f.once {
		return errors.Join(a.keepOnce(ctx, tables), errors.Join(missing...))
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	received, err := a.openIngest(ctx, f.ingest, tables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, received.Close()) }()
	fleet := a.fleetOf(servers, w, f)
	served, err := a.serveStatus(ctx, f.listen, fleet, tables, received, w)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var receiving error
	if received != nil {
		all.Go(func() {
			if receiving = received.Serve(ctx); receiving != nil {
				fail(receiving)
			}
		})
	}
	if watched {
		fleet.Paths = paths
	}
	for _, k := range tables {
		fleet.Keep(ctx, k)
	}
	fleet.Run(ctx)
	all.Wait()
	if receiving != nil {
		return errors.Join(receiving, served())
	}
	a.Say("ended cleanly")
	return served()
}

// watches reports whether the declarations are read again while the command runs. That is so for a
// directory, for several files, and for a table on several nodes. Otherwise the command ends if a
// table can't be kept.
func (a runner) watches(ctx context.Context, paths []string, f runFlags) (bool, error) {
	dir := ""
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			dir = path
		}
	}
	single := f.single()
	if single != "" && dir != "" {
		return false, cli.Usagef("the files of the tables", "%s is for tables that are named by their files, and %s is a directory", single, dir)
	}
	return !f.once && single == "" && (dir != "" || len(paths) > 1 || a.onNodes(ctx, paths[0], f)), nil
}

// single returns the name of a given flag that works only for tables of a single server, or "".
func (f *runFlags) single() string {
	switch {
	case f.ingest.addr != "":
		return "--ingest"
	case len(f.limits.replicas) > 0:
		return "--replica"
	}
	return ""
}

// onNodes reports whether a file declares a table on several nodes, and --target doesn't name one
// of the nodes.
func (a runner) onNodes(ctx context.Context, path string, f runFlags) bool {
	d, err := declared.Read(ctx, path, f.kept.target)
	return err == nil && d.Sharded()
}

// fleetOf returns a fleet without tables.
func (a runner) fleetOf(servers *declared.Servers, w *lagWatch, f runFlags) *declared.Fleet {
	return &declared.Fleet{
		Every: f.interval, Servers: servers,
		Read:    func(ctx context.Context, path string) (*declared.File, error) { return a.declared(ctx, path, f.kept) },
		Prepare: func(ctx context.Context, k *declared.Table) error { return a.prepareForRun(ctx, k, k.Title(), w) },
		Say: func(m *declared.Member, text string, err error) {
			line := m.Title() + " " + text
			if err != nil {
				line += fmt.Sprintf(": %v", err)
				if hint := cli.HintOf(err); hint != "" {
					line += ". Try: " + hint
				}
			}
			a.Say(line)
		},
		Leads: func(k *declared.Table, leads bool) {
			if !leads {
				a.Log("no longer keeps %s", k.Title())
				return
			}
			a.Log("keeps %s on %s: periods of %s", k.Title(), k.DB.Info().Target, k.Table.Table.Grid)
		},
	}
}

// filesOf returns the given files, and the files in the given directories.
func filesOf(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		files, err := declared.Files(path)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}

// openForRun opens the tables of files. With --ingest, it tries again until it reaches a server:
// meanwhile, senders keep their rows and try again too. With --once, it leaves out nodes that can't
// be reached.
func (a runner) openForRun(ctx context.Context, servers *declared.Servers, paths []string, f runFlags) (tables []*declared.Table, missing []error, err error) {
	files, err := filesOf(paths)
	if err != nil {
		return nil, nil, err
	}
	units, err := a.unitsOfRun(ctx, files, f, servers)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range units {
		k, err := u.open(ctx)
		if err != nil && f.ingest.addr != "" {
			k, err = untilReached(ctx, a.app, -1, func() (*declared.Table, error) { return u.open(ctx) })
		}
		switch {
		case err == nil:
			tables = append(tables, k)
		case f.once && (u.node != "" && errors.Is(err, engine.ErrUnreachable) || len(units) > 1 && u.node == ""):
			missing = append(missing, err)
		default:
			return nil, nil, err
		}
	}
	return tables, missing, nil
}

// prepareForRun prepares a table. If of isn't "", its log lines begin with of.
func (a *app) prepareForRun(ctx context.Context, k *declared.Table, of string, w *lagWatch) error {
	if err := k.MissingTriggers(ctx); errors.Is(err, maintain.ErrTriggers) {
		a.Log("warning: %v. Try: %s", err, cli.HintOf(err))
	} else if err != nil {
		return err
	}
	k.Say = a.sayEventOf(of)
	k.Limits = w.limits(k.DB)
	k.Limits.Waits = append(slices.Clone(k.Limits.Waits), k.WhilePaused(string(maintain.Rebuilding)))
	k.Reached = a.reached
	return nil
}

// keepOnce executes the due maintenance once, and prints a message if a table was
// skipped because of a lock.
func (a runner) keepOnce(ctx context.Context, tables []*declared.Table) error {
	var failed []error
	for _, k := range tables {
		err := schedule.Once(ctx, k.Table)
		if errors.Is(err, engine.ErrLockTimeout) {
			fmt.Fprintf(a.Stderr, "%s: another rowmill run keeps it, or a lock was not granted\n", k.Title())
		}
		failed = append(failed, maintain.InNode(k.Node, err))
	}
	return errors.Join(failed...)
}

// sayEvent writes a keeper's action as a log line.
func (a *app) sayEvent(e maintain.Event) {
	a.LogLine(cli.Stamp(e.At) + " " + e.String())
	a.printGrants(e.Err)
}

// serveStatus serves metrics, health and the page of the tables until ctx ends. The returned
// function wait returns when this HTTP server has ended.
func (a runner) serveStatus(ctx context.Context, addr string, fleet *declared.Fleet, tables []*declared.Table, received *receive.Service, w *lagWatch) (wait func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	listener, err := a.listen("metrics and a page", addr)
	if err != nil {
		return nil, err
	}
	var handler http.Handler
	run := func(context.Context) {}
	if len(tables) == 1 {
		k := tables[0]
		o := monitor.Options{Table: k.Declared.Name, Look: k.Status, Leads: func() bool {
			all := fleet.Standings()
			return len(all) > 0 && all[0].Leads
		}, Version: a.Version}
		if received != nil {
			o.Collectors = append(o.Collectors, received.Server)
		}
		if w.delays != nil {
			o.Delays = w.behind
		}
		m := monitor.New(o)
		k.Count = m.Count
		handler, run = m, m.Run
	} else {
		var further []prometheus.Collector
		if received != nil {
			further = append(further, received.Server)
		}
		if w.delays != nil {
			further = append(further, monitor.Delays(w.behind))
		}
		m := monitor.NewFleet(func() []monitor.Member { return membersOf(fleet) }, a.Version, further...)
		prepare := fleet.Prepare
		fleet.Prepare = func(ctx context.Context, k *declared.Table) error {
			k.Count = func(e maintain.Event) { m.Count(k.Title(), e) }
			return prepare(ctx, k)
		}
		for _, k := range tables {
			k.Count = func(e maintain.Event) { m.Count(k.Title(), e) }
		}
		handler = m
	}
	var all sync.WaitGroup
	var served error
	all.Go(func() { served = monitor.ServeOn(ctx, listener, handler) })
	all.Go(func() { run(ctx) })
	return func() error { all.Wait(); return served }, nil
}

// membersOf returns the tables of a fleet, each with its name. If two tables on different servers
// have the same name, the second one's name is the path of its file.
func membersOf(fleet *declared.Fleet) (out []monitor.Member) {
	named := map[string]bool{}
	for _, s := range fleet.Standings() {
		m := monitor.Member{Name: s.Title(), Path: s.Path, Target: s.Target, Err: s.Err, TableState: s.TableState}
		if named[m.Name] {
			m.Name = s.Path
		}
		named[m.Name] = true
		if s.Table != nil {
			m.Target, m.Look = s.Table.DB.Info().Target, s.Table.Status
		}
		out = append(out, m)
	}
	return out
}
