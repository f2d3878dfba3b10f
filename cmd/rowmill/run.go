package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/receive"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/monitor"
	"github.com/rowmill/rowmill/internal/state"
)

// runFlags are the flags of `rowmill run`.
type runFlags struct {
	kept     keptFlags
	once     bool
	listen   string
	interval time.Duration
	limits   limitFlags
	ingest   ingestFlags
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run FILE.toml...",
		Short: "Keep rolling tables: periods, roll-ups, archive, retention",
		Long: "Keep rolling tables until the command ends. Periods are created ahead of the\n" +
			"inserts; rows are rolled up; periods that are over are sealed, rebuilt sorted and\n" +
			"compressed, merged and archived; those that have passed retention are dropped,\n" +
			"and only when they are sealed, rolled up and archived, which is proven first.\n\n" +
			"Each lock is waited for at most one second and requested again later, so that\n" +
			"inserts don't queue behind it. Several rowmill run may keep a table: one leads, by\n" +
			"a lock in the database, and another takes over within seconds when it ends.\n" +
			"SIGTERM ends the command cleanly; the next one completes what a killed one left.\n\n" +
			"With --ingest, rows are taken over HTTP: POST /write/TABLE with CSV, JSON or line\n" +
			"protocol, or InfluxDB's /api/v2/write. A request is acknowledged once its rows are\n" +
			"on disk below --ingest-spool, from where each is loaded once; while the database is\n" +
			"down they wait there.\n\n" +
			"With --replica, the delay of a replica is measured, and shown in /metrics: a row of\n" +
			"the table rowmill_heartbeat is updated once a second, and read on the replica. The delay\n" +
			"of one that doesn't answer, or repeats nothing, grows.",
		Example: "  rowmill run readings.toml --listen :9187\n" +
			"  rowmill run readings.toml --once\n" +
			"  rowmill run readings.toml --ingest :8186 --ingest-spool /var/spool/rowmill",
		Args: wantArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error { return a.keep(c.Context(), args, f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.kept.define(flags)
	flags.BoolVar(&f.once, "once", false, "do all that is due and end, for cron; exit 1 if something is left (default false)")
	flags.StringVar(&f.listen, "listen", "", "serve /metrics, /healthz and a page at `ADDRESS`: :9187 is on loopback, 0.0.0.0:9187 on all interfaces (nowhere)")
	flags.DurationVar(&f.interval, "interval", 10*time.Second, "how often to look for late rows and other unplanned work")
	f.limits.define(flags)
	f.ingest.define(flags)
	return c
}

func (a *app) keep(ctx context.Context, files []string, f runFlags) (err error) {
	if f.interval <= 0 {
		return usagef("--interval 10s", "--interval %s: want more than 0s", f.interval)
	}
	if err := f.limits.check(f.listen != ""); err != nil {
		return err
	}
	if f.once && f.listen != "" {
		return usagef("one of them", "--listen serves for as long as rowmill runs, and --once ends")
	}
	if f.listen != "" && len(files) > 1 {
		return usagef("one rowmill run for each table", "--listen serves one table, and %d are given", len(files))
	}
	if err := errors.Join(onLoopback("listen", &f.listen), f.ingest.check(f.once)); err != nil {
		return err
	}
	var tables []*declared.Table
	defer func() {
		for _, k := range tables {
			err = errors.Join(err, k.Close())
		}
	}()
	units, err := a.unitsOfRun(ctx, files, f)
	if err != nil {
		return err
	}
	var away []unit // nodes that can't be reached yet
	var missing []error
	for _, u := range units {
		k, err := a.openForRun(ctx, u, f)
		if errors.Is(err, errStopped) {
			fmt.Fprintf(a.stderr, "%s ended before the database could be reached\n", stamp(time.Now()))
			return nil
		}
		if err != nil && u.node != "" && errors.Is(err, engine.ErrUnreachable) {
			away, missing = append(away, u), append(missing, err)
			continue
		}
		if err != nil {
			return err
		}
		tables = append(tables, k)
	}
	w, err := a.watchTables(ctx, f.limits, tables)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, k := range tables {
		if err := a.prepareForRun(ctx, k, w); err != nil {
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
	var leads atomic.Int32 // lanes in which this process is the leader
	served, err := a.serveStatus(ctx, f.listen, tables, received, w, func() bool { return leads.Load() > 0 })
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
	daemon := func(k *declared.Table) {
		a.logLine(fmt.Sprintf("%s keeps %s on %s: periods of %s", stamp(time.Now()), k.Title(), k.DB.Info().Target, k.Table.Table.Grid))
		d := &maintain.Daemon{Table: k.Table, Poll: f.interval, Leads: func(lane maintain.Lane, is bool) {
			word, change := "leads", int32(1)
			if !is {
				word, change = "no longer leads", -1
			}
			leads.Add(change)
			a.logLine(fmt.Sprintf("%s %s %s: %s", stamp(time.Now()), word, k.Title(), lane))
		}}
		d.Run(ctx)
	}
	for _, k := range tables {
		all.Go(func() { daemon(k) })
	}
	for i, u := range away {
		a.logLine(fmt.Sprintf("%s will be tried again: %v", stamp(time.Now()), missing[i]))
		all.Go(func() { a.runLater(ctx, u, w, daemon) })
	}
	all.Wait()
	if receiving != nil {
		return errors.Join(receiving, served())
	}
	fmt.Fprintf(a.stderr, "%s ended cleanly\n", stamp(time.Now()))
	return served()
}

// openForRun opens a table. With --ingest it waits for a server that can't be reached:
// senders expect an address that comes back.
func (a *app) openForRun(ctx context.Context, u unit, f runFlags) (*declared.Table, error) {
	if f.ingest.addr == "" {
		return u.open(ctx)
	}
	return a.untilOpen(ctx, u)
}

func (a *app) prepareForRun(ctx context.Context, k *declared.Table, w *lagWatch) error {
	if err := k.MissingTriggers(ctx); errors.Is(err, maintain.ErrTriggers) {
		a.logLine(fmt.Sprintf("%s warning: %v. Try: %s", stamp(time.Now()), err, hintOf(err)))
	} else if err != nil {
		return err
	}
	k.Say = a.sayEventOf(k.Node)
	k.Limits = w.limits(k.DB)
	k.Reached = a.reached
	return nil
}

// keepOnce executes the due maintenance once, and prints a message if a table was
// skipped because of a lock.
func (a *app) keepOnce(ctx context.Context, tables []*declared.Table) error {
	var failed []error
	for _, k := range tables {
		err := (&maintain.Daemon{Table: k.Table}).Once(ctx)
		if errors.Is(err, engine.ErrLockTimeout) {
			fmt.Fprintf(a.stderr, "%s: another rowmill run keeps it, or a lock was not granted\n", k.Title())
		}
		failed = append(failed, maintain.InNode(k.Node, err))
	}
	return errors.Join(failed...)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// sayEvent writes a keeper's action as a log line.
func (a *app) sayEvent(e maintain.Event) {
	a.logLine(stamp(e.At) + " " + e.String())
	a.printGrants(e.Err)
}

// logLine writes a log line. It may be called from several goroutines.
func (a *app) logLine(line string) {
	a.logs.Lock()
	defer a.logs.Unlock()
	if a.lastLine != "" { // it is written again at its next change
		line, a.lastLine = clearLine+line, ""
	}
	fmt.Fprintln(a.stderr, line)
}

// clearLine is what a terminal takes to clear the line.
const clearLine = "\r\x1b[K"

// statusLine rewrites the last line of a terminal, which stays until the next line of the
// log; "" removes it.
func (a *app) statusLine(text string) {
	a.logs.Lock()
	defer a.logs.Unlock()
	if text == "" && a.lastLine == "" {
		return
	}
	if width := (&results{w: a.stderr}).columns(); width > 0 && len(text) >= width {
		text = text[:width-1] // a wrapped line can't be rewritten
	}
	a.lastLine = text
	fmt.Fprint(a.stderr, clearLine+text)
}

// serveStatus serves metrics, health and the page of a table until ctx ends. wait
// waits for the server to end.
func (a *app) serveStatus(ctx context.Context, addr string, tables []*declared.Table, received *receive.Service, w *lagWatch, leads func() bool) (wait func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	listener, err := a.listen("metrics and a page", addr)
	if err != nil {
		return nil, err
	}
	k := tables[0] // the only one
	o := monitor.Options{Table: k.Declared.Name, Look: k.Status, Self: state.Me(), Leads: leads, Version: versionString()}
	if received != nil {
		o.Collectors = append(o.Collectors, received.Server)
	}
	if w.delays != nil {
		o.Delays = w.behind
	}
	m := monitor.New(o)
	k.Count = m.Count
	var all sync.WaitGroup
	var served error
	all.Go(func() { served = monitor.ServeOn(ctx, listener, m) })
	all.Go(func() { m.Run(ctx) })
	return func() error { all.Wait(); return served }, nil
}
