package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload/oltp"
	"github.com/rowmill/rowmill/result"
)

// A TablesSpec has the options of the measurement of many tables.
type TablesSpec struct {
	// Tables is the number of tables, Partitions the number of partitions of each; 0 is none.
	Tables     int `json:"tables" toml:"tables"`
	Partitions int `json:"partitions,omitempty" toml:"partitions,omitempty"`
	// At the end, each of Connections connections opens Open tables.
	Connections int `json:"connections" toml:"connections"`
	Open        int `json:"open" toml:"open"`
}

const (
	// TablesDatabase is the database that the tables are created in.
	TablesDatabase = "rowmill_tables"
	// smallCache is the memory for pages if the target doesn't set it. A cache of this size is full
	// from the beginning, so that pages don't add to the growth of memory that the tables cause.
	smallCache = 8 << 20
	// dropPatience is how long the tables may take to be dropped after an interrupt.
	dropPatience = 30 * time.Minute
)

func (t *Trial) tablesOptions() oltp.TablesOptions {
	o := oltp.TablesOptions{Tables: t.Spec.Tables.Tables, Partitions: t.Spec.Tables.Partitions, Connections: t.Spec.Tables.Connections, Open: t.Spec.Tables.Open, Declared: t.calibrates}
	if t.calibrates != nil {
		o.Steps = calibrateSteps
	}
	return o
}

func (s *Spec) validateTables() error {
	t := s.Tables
	if err := cmp.Or(s.validateTargets(1), s.validateInterval(),
		s.limits("tables", t.Tables, 1, oltp.MaxTables),
		s.limits("partitions", t.Partitions, 0, oltp.MaxTables),
		s.limits("connections", t.Connections, 1, MaxWriters),
		s.limits("open", t.Open, 1, t.Tables),
		s.limits("repeat", s.Repeat, 1, 0)); err != nil {
		return err
	}
	db, err := target.Dry(s.Target())
	if err == nil {
		if _, err = oltp.NewTables(db, (&Trial{Spec: s}).tablesOptions()); errors.Is(err, engine.ErrUnsupported) {
			err = engine.Hinted(err, "--target %s", target.ExampleServer)
		}
	}
	if err == nil {
		_, err = target.ForClients(s.Target(), t.Connections, "")
	}
	return s.refused(cmp.Or(err, enoughFiles(t.Connections)))
}

// tables makes the runs of a Spec, each on tables of its own.
func (e *Env) tables(ctx context.Context, s *Spec) ([]result.Record, error) {
	rounds := make([]int, s.Repeat)
	for i := range rounds {
		rounds[i] = i + 1
	}
	return each(ctx, rounds, func(n int) string { return fmt.Sprintf("run %d", n) }, func(n int) ([]result.Record, error) {
		return e.tablesRun(ctx, s, &Trial{Spec: s, Whole: s, Repeat: n, Repeats: s.Repeat})
	})
}

// tablesRun makes one run.
func (e *Env) tablesRun(ctx context.Context, s *Spec, t *Trial) (recs []result.Record, err error) {
	own := *s
	if t.Repeats <= 1 {
		t.Repeat, t.Repeats = 0, 0
	}
	url, err := target.ForClients(s.Target(), s.Tables.Connections, "")
	if least, _, ok := target.MemoryFloor(url); err == nil && ok {
		url, err = target.WithMemory(url, max(least, smallCache))
	}
	if err != nil {
		return nil, err
	}
	own.Targets, t.Spec = []string{url}, &own
	r := &tablesRun{measurement: measurement{env: e, trial: t}, private: target.Private(url)}
	return r.run(ctx, func() error { return r.onServer(ctx) })
}

// A tablesRun is one run on an open target.
type tablesRun struct {
	measurement
	w *oltp.Tables
	// private means that the server is removed after the run.
	private bool
}

func (r *tablesRun) onServer(ctx context.Context) (err error) {
	s := r.trial.Spec
	h, ok := r.db.DB.(engine.Housekeeper)
	if !ok || len(r.db.Nodes) > 1 {
		return refuse("--target "+target.ExampleServer, "--target %s: it is not one server", s.Target())
	}
	if r.w, err = oltp.NewTables(h, r.trial.tablesOptions()); err != nil {
		return err
	}
	if err := r.roomFor(ctx, s.Tables.Connections); err != nil {
		return err
	}
	house, err := h.Household(ctx)
	if err == nil {
		err = filesFor(s.Target(), house.Caches)
	}
	if err != nil {
		return err
	}
	if _, err := probe.ReadFootprint(r.pid()); err != nil {
		return engine.Hinted(err, "a server on this machine, whose processes this account may read: --target %s", target.ExampleServer)
	}
	if err := r.prepare(ctx, h); err != nil {
		return err
	}
	if !r.private {
		defer func() { err = errors.Join(err, r.drop(ctx, h)) }()
	}
	db, err := r.db.In(ctx, TablesDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r.w.On(db.(engine.Housekeeper)) // it is of the same type as r.db
	r.w.Measure = r.footprint
	r.w.Processes = func() (int, error) {
		f, err := probe.ReadFootprint(r.pid())
		return f.Processes, err
	}
	return r.create(ctx, house)
}

// pid returns the ID of the server's process, which changes at a restart.
func (r *tablesRun) pid() int {
	if server := r.db.Server(); server != nil {
		return server.Process()
	}
	return r.db.Info().PID
}

// filesFor refuses a private server that may open fewer files than its settings need.
func filesFor(url string, is map[string]string) error {
	s, got, lowered := target.Lowered(url, is)
	if !lowered {
		return nil
	}
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) // 0 is not known
	return engine.Hinted(fmt.Errorf("the server lowered %s to %d: %s open tables need as many open files and one for each connection, and a process may have %d here", s, got, s.Value, limit.Max),
		"ulimit -Hn %s0 as root, or set=%s=%d", strings.TrimSuffix(s.Value, "0"), s.Name, got)
}

// prepare creates the database.
func (r *tablesRun) prepare(ctx context.Context, h engine.Housekeeper) error {
	exists, err := h.HasDatabase(ctx, TablesDatabase)
	if err != nil {
		return err
	}
	if exists && !r.trial.Spec.DropExisting {
		return engine.Hinted(engine.Classed(engine.ErrTableExists, fmt.Errorf("database %s exists in %s", TablesDatabase, r.db.Info().Target)),
			"--drop-existing to drop it with all its tables, or another server")
	}
	if exists {
		if err := r.env.while("dropping database "+TablesDatabase, func() error { return h.DropDatabase(ctx, TablesDatabase) }); err != nil {
			return err
		}
	}
	return h.CreateDatabase(ctx, TablesDatabase)
}

// drop drops the database, also after an interrupt, unless its server has ended.
func (r *tablesRun) drop(ctx context.Context, h engine.Housekeeper) error {
	if server := r.db.Server(); server != nil && server.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
	defer cancel()
	return r.env.while("dropping database "+TablesDatabase, func() error { return h.DropDatabase(ctx, TablesDatabase) })
}

func (r *tablesRun) create(ctx context.Context, house engine.Household) error {
	s := r.trial.Spec
	head := &result.Tables{Tables: s.Tables.Tables, Partitions: s.Tables.Partitions, Connections: s.Tables.Connections, Held: s.Tables.Open,
		Definitions: r.w.Definitions(), Caches: house.Caches}
	own := result.Run{Name: figure.Plural(head.Tables, "table"), Benchmark: result.Benchmark{Tables: head}}
	if head.Partitions > 0 {
		own.Name += " of " + figure.Plural(head.Partitions, "partition")
	}
	own.Name = r.trial.named(own.Name + " on " + r.db.Info().Engine)
	for n := range min(3, s.Tables.Tables) { // the others are alike
		create, err := r.w.Create(n, 1)
		if err != nil {
			return err
		}
		text, err := r.db.Dialect().Render(create)
		if err != nil {
			return err
		}
		own.Schema = append(own.Schema, text...)
	}
	cfg := bench.Config{Operation: oltp.OpTables, Clients: 1, Batch: r.w.Batch(), Rows: int64(head.Objects()), Interval: s.Interval.D(), RetryFor: time.Nanosecond}
	var parts bench.Parts
	r.w.Took, r.note = parts.Took, func(iv *result.Interval) {
		parts.Note(iv)
		iv.Costs = r.w.Costs()
	}
	if err := r.begin(ctx, []*engine.Table{r.w.Table(0)}, cfg, own, own.Name); err != nil {
		return err
	}
	return r.measure(ctx, r.w, func(ctx context.Context, end *result.End) error {
		if ctx.Err() != nil {
			return nil
		}
		found, err := r.w.Found(ctx)
		if err != nil {
			if dead := r.db.Death(err); dead != nil || end.Stopped == bench.StoppedFailed { // the count failed for the same reason
				end.Warnings = append(end.Warnings, "not counted in the catalog: the run failed")
				return dead
			}
			return err
		}
		end.Verified = &result.Verified{Expected: int64(r.w.Made()), Found: found, Counted: true}
		switch {
		case found != end.Verified.Expected:
			err = fmt.Errorf("%s were created, and the catalog has %d", figure.Plural(r.w.Made(), head.Object()), found)
		case r.w.Made() == head.Objects():
			if err = r.afterwards(ctx); ctx.Err() != nil {
				err = nil // interrupted: what was measured is reported
			} else if err != nil {
				err = errors.Join(r.db.Death(err), err)
			}
		}
		end.Costs = r.w.Costs()
		return err
	})
}

// footprint completes a cost with the figures of the operating system.
func (r *tablesRun) footprint(c *result.TablesCost) error {
	f, err := probe.ReadFootprint(r.pid())
	if err != nil {
		return err
	}
	c.PSSBytes, c.OpenFiles, c.Processes = f.PSSBytes, f.OpenFiles, f.Processes
	dir := r.db.Info().DataDir
	if dir == "" {
		return nil
	}
	began := time.Now()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server has removed the file meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			c.Files++
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				c.DiskBytes += st.Blocks * 512
			}
		}
		return err
	})
	c.ListSeconds = time.Since(began).Seconds()
	return err
}

// afterwards measures costs after the creation of the tables: a restart, and opening the tables.
func (r *tablesRun) afterwards(ctx context.Context) error {
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{{"restarting the server", r.restart}, {"opening the tables", r.w.OpenAll}, {"opening tables on several connections", r.w.Connect}} {
		if err := r.env.while(phase.name, func() error { return phase.run(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// restart shuts a private server down and starts it again.
func (r *tablesRun) restart(ctx context.Context) error {
	server := r.db.Server()
	if server == nil {
		return nil
	}
	began := time.Now()
	server.Halt(ctx)
	if err := server.Restart(ctx); err != nil {
		return err
	}
	return r.w.Later(ctx, result.TablesCost{Phase: result.TablesRestarted}, began)
}
