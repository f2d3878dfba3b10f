package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload/oltp"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// A HotRowSpec has the options of bench hotrow: each way is measured with each number of clients.
type HotRowSpec struct {
	Clients []int    `json:"clients" toml:"clients"`
	Ways    []string `json:"ways" toml:"ways"`
	Slots   int      `json:"slots" toml:"slots"`
	Cache   Duration `json:"cache,omitzero" toml:"cache,omitzero"`
}

func (s *Spec) hotOptions(way string, clients int) oltp.HotRowOptions {
	return oltp.HotRowOptions{Way: way, Clients: clients, Slots: s.HotRow.Slots, Cache: s.HotRow.Cache.D()}
}

func (s *Spec) validateHotRow() error {
	h := s.HotRow
	if err := cmp.Or(s.validateTargets(1), s.validateInterval(), s.validateKills(),
		list(s, "ways", "way", h.Ways, oltp.HotWays()),
		list(s, "clients", "number", h.Clients, nil),
		s.limits("slots", h.Slots, 1, 10_000),
		s.limits("repeat", s.Repeat, 1, 0),
		s.no(s.MaxTime < 0, "--time 60s", "--time %v is negative", s.MaxTime.D()),
		s.no(s.Rows < 0, "--runs 100k", "--runs %d is negative", s.Rows),
		s.no(len(h.Clients) > 0 && (slices.Min(h.Clients) < 1 || slices.Max(h.Clients) > oltp.MaxHotClients), "--clients 1000,2000", "--clients: want 1 to %d each", oltp.MaxHotClients),
		s.no(h.Cache < 0, "--cache 5s", "--cache %v is negative", h.Cache.D()),
		s.no(s.Rows == 0 && s.MaxTime == 0, "--runs 100k, or --time 60s", "--runs 0: the experiment needs an end")); err != nil {
		return err
	}
	db, err := target.Dry(s.Target())
	for _, way := range h.Ways {
		for _, n := range h.Clients {
			if err == nil {
				_, err = oltp.NewHotRow(db, s.hotOptions(way, n))
			}
			if err == nil {
				_, err = target.ForClients(s.Target(), n, way)
			}
			if err == nil && way == oltp.HotAppend && !target.Private(s.Target()) {
				err = engine.Hinted(fmt.Errorf("way %s creates a rolling table with its state, which needs a private server, and %s is none", way, s.Target()), target.ExampleServer+", or --ways without it")
			}
		}
	}
	return s.refused(cmp.Or(err, enoughFiles(slices.Max(h.Clients))))
}

// spareFiles are rowmill's own open files beside the clients' connections.
const spareFiles = 100

// enoughFiles refuses more connections than this process may have open.
func enoughFiles(clients int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(clients+spareFiles) <= uint64(limit.Max) { // on FreeBSD, Max is signed
		return nil // Go raises the soft limit to the hard one
	}
	return engine.Hinted(fmt.Errorf("%d clients need %d open files, and this process may have %d", clients, clients+spareFiles, limit.Max),
		"ulimit -Hn %d as root, or fewer --clients", clients+spareFiles)
}

// hotRow measures each way of updating a hot row with each number of clients. Each run has a server
// of its own, whose settings depend on the way.
func (e *Env) hotRow(ctx context.Context, s *Spec) ([]result.Record, error) {
	var all []hotTrial
	for round := range s.Repeat {
		for _, n := range s.HotRow.Clients {
			for _, way := range inTurn(s.HotRow.Ways, round) {
				t := hotTrial{way, n, Trial{Spec: s, Whole: s, Again: len(all) > 0}}
				if s.Repeat > 1 {
					t.Repeat, t.Repeats = round+1, s.Repeat
				}
				all = append(all, t)
			}
		}
	}
	return each(ctx, all, func(t hotTrial) string { return fmt.Sprintf("way %s, %s", t.way, figure.Plural(t.clients, "client")) },
		func(t hotTrial) ([]result.Record, error) { return e.hotTrial(ctx, t.way, t.clients, t.Trial) })
}

type hotTrial struct {
	way     string
	clients int
	Trial
}

// ceilingRuns is how often a single client locks the counter, to measure how long it holds the
// lock.
const ceilingRuns = 200

// hotTrial measures one way with one number of clients.
func (e *Env) hotTrial(ctx context.Context, way string, clients int, t Trial) ([]result.Record, error) {
	own := *t.Spec
	// All numbers of clients are measured on a server of the same settings.
	url, err := target.ForClients(own.Target(), slices.Max(own.HotRow.Clients), way)
	if err != nil {
		return nil, err
	}
	own.Targets, t.Spec = []string{url}, &own
	m := measurement{env: e, polled: true, trial: &t}
	return m.run(ctx, func() error { return m.hotRow(ctx, way, clients) })
}

func (m *measurement) hotRow(ctx context.Context, way string, clients int) error {
	s := m.trial.Spec
	if err := m.roomFor(ctx, clients); err != nil {
		return err
	}
	head := &result.HotRow{Way: way, CacheSeconds: s.HotRow.Cache.D().Seconds()}
	if way == oltp.HotSlots {
		head.Slots = s.HotRow.Slots
	}
	if err := m.ceiling(ctx, head); err != nil {
		return err
	}
	if err := m.clientAlone(ctx, head, clients); err != nil {
		return err
	}
	w, err := oltp.NewHotRow(m.db.DB, s.hotOptions(way, clients))
	if err != nil {
		return err
	}
	schema, err := w.Setup(ctx, m.db.Capabilities().Stores) // it replaces the tables that ceiling has created
	if err != nil {
		return err
	}
	if way == oltp.HotAppend {
		if schema, w.Roll, err = m.hotEvents(ctx, w.Tables()[0]); err != nil {
			return err
		}
	}
	own := result.Run{
		Name:      m.trial.named(fmt.Sprintf("%s, %s on %s", way, figure.Plural(clients, "client"), m.db.Info().Engine)),
		Benchmark: result.Benchmark{HotRow: head}, Database: result.Database{Schema: schema}, Deviations: w.Deviations(),
	}
	cfg := bench.Config{Operation: oltp.OpRun, Clients: clients, Batch: 1, Rows: s.Rows, MaxTime: s.MaxTime.D(),
		Interval: s.Interval.D(), RetryFor: s.RetryFor.D(), Grace: oltp.HotGrace(clients)}
	var parts bench.Parts
	w.Took, m.note = parts.Took, parts.Note
	if err := m.begin(ctx, w.Tables(), cfg, own, own.Name); err != nil {
		return err
	}
	return m.measure(ctx, m.withKills(ctx, w), func(ctx context.Context, end *result.End) (err error) {
		end.Causes = w.Causes()
		reader, ok := m.db.DB.(engine.Reader)
		if !ok || !m.db.Capabilities().Stores {
			return nil
		}
		v := result.Verified{Counted: true}
		v.Expected, v.Found, err = w.Prove(ctx, reader)
		end.Verified = &v
		if err == nil {
			err = m.proveReplicas(ctx, w)
		}
		return err
	})
}

// proveReplicas repeats the proof on each replica, which has caught up.
func (m *measurement) proveReplicas(ctx context.Context, w *oltp.HotRow) error {
	for i, text := range m.replicaTargets() {
		db, err := target.Open(ctx, text, m.env.Show.Note)
		if err == nil {
			_, _, err = w.Prove(ctx, db.DB.(engine.Reader))
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			return fmt.Errorf("replica %d: %w", i+1, err)
		}
	}
	return nil
}

// ceiling measures for how long a single client holds the counter's lock. It creates tables, which
// the run itself replaces.
func (m *measurement) ceiling(ctx context.Context, head *result.HotRow) error {
	if !m.db.Capabilities().Stores || head.Way == oltp.HotAppend { // append locks no common row
		return nil
	}
	s := m.trial.Spec
	o := s.hotOptions(head.Way, 1)
	w, err := oltp.NewHotRow(m.db.DB, o)
	if err != nil {
		return err
	}
	if _, err := w.Setup(ctx, s.DropExisting || m.trial.Again); err != nil {
		return err
	}
	held, err := w.Held(ctx, ceilingRuns)
	if err != nil {
		return fmt.Errorf("measure the ceiling: %w", err)
	}
	head.HeldMicros = float64(held) / float64(time.Microsecond)
	if held > 0 {
		head.Ceiling = float64(max(head.Slots, 1)) / held.Seconds()
	}
	return nil
}

// hotEvents creates the rolling table of the way "append", and the table's roll-up. The returned
// function roll refreshes the roll-up.
func (m *measurement) hotEvents(ctx context.Context, t *engine.Table) (schema []string, roll func(context.Context, time.Time) error, err error) {
	bare := *t
	bare.Indexes = nil // not all servers create them with the table
	create, err := m.db.Dialect().Render(engine.CreateTable{Table: &bare})
	if err != nil {
		return nil, nil, err
	}
	d, err := rolling.ParseDeclarationFor("the events", fmt.Appendf(nil, hotDeclaration, t.Name, strings.Join(create, ";\n"), oltp.HotEventTime, oltp.HotLevel), m.db.Text)
	if err != nil {
		return nil, nil, err
	}
	table, err := maintain.Open(ctx, m.db.DB.(engine.Keeper), d, time.Now)
	if err != nil {
		return nil, nil, err
	}
	plan, err := apply.PlanTable(ctx, table)
	if err == nil {
		err = plan.Run(ctx, func(s apply.Step) {
			for _, q := range s.SQL {
				if strings.Contains(q, m.db.Dialect().Quote(t.Name)) { // not the statements for rowmill's own tables
					schema = append(schema, q)
				}
			}
		})
	}
	index := engine.CreateIndexes{Table: t, Indexes: t.Indexes}
	if err == nil {
		create, err = m.db.Dialect().Render(index)
	}
	if err == nil {
		schema, err = append(schema, create...), m.db.Apply(ctx, index)
	}
	return schema, func(ctx context.Context, upTo time.Time) error {
		_, err := table.Rollups.Refresh(ctx, rolling.Position(upTo))
		return err
	}, err
}

// hotDeclaration is the declaration of the table of events. Its periods are longer than a run.
const hotDeclaration = `
[table]
name = "%s"
create = '''
%s'''
time = "%s"

[period]
every = "7d"
ahead = "1d"

[[rollup]]
name = "%s"
every = "1s"
by = ["item_id"]
select = { fans = "count(*)" }
`

// aloneTime is for how long the clients are measured without a server.
const aloneTime = 500 * time.Millisecond

// clientAlone measures how fast the clients are without a server: they run on an engine that stores
// nothing.
func (m *measurement) clientAlone(ctx context.Context, head *result.HotRow, clients int) error {
	if !m.db.Capabilities().Stores {
		return nil
	}
	db, err := target.Open(ctx, "null:", m.env.Show.Note)
	if err != nil {
		return err
	}
	w, err := oltp.NewHotRow(db.DB, m.trial.Spec.hotOptions(oltp.HotPlain, clients))
	if err == nil {
		var done bench.Outcome
		done, err = bench.Run(ctx, w, bench.Config{Operation: oltp.OpRun, Clients: clients, Batch: 1, MaxTime: aloneTime})
		err = errors.Join(err, done.Err)
		if seconds := done.Elapsed.Seconds(); seconds > 0 {
			head.ClientAlone = float64(done.Rows) / seconds
		}
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("measure the clients alone: %w", err)
	}
	return nil
}

// roomFor refuses a server that accepts too few connections: servers lower their limit silently.
func (m *measurement) roomFor(ctx context.Context, clients int) error {
	settings, err := m.db.Catalog().Settings(ctx)
	if err != nil {
		return fmt.Errorf("read the server's settings: %w", err)
	}
	most, err := strconv.Atoi(settings["max_connections"])
	if err != nil || clients+2 <= most {
		return nil // not a server
	}
	return engine.Hinted(fmt.Errorf("the server takes %d connections, fewer than %d clients need", most, clients),
		"max_connections = %d and as many open files, or fewer --clients", clients+2)
}
