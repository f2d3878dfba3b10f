package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A CellsSpec has the options of Mixed and Points. They measure each operation with each number of
// clients, in turn on each target or, if settings are given, with each setting.
type CellsSpec struct {
	Ops     []string `json:"ops" toml:"ops"`
	Clients []int    `json:"clients" toml:"clients"`
	// Seconds is the time of each cell.
	Seconds float64 `json:"seconds" toml:"seconds"`
	// Mix is the percentage of clients that select, in the operation mixed.
	Mix float64 `json:"mix,omitempty" toml:"mix,omitempty"`
	// Points is the number of values in one select of the operation points.
	Points int `json:"points,omitempty" toml:"points,omitempty"`
	// Set are two settings of the server to compare, NAME=VALUE each; or none.
	Set []string `json:"set,omitempty" toml:"set,omitempty"`
}

// minCellSeconds is the shortest time of a cell.
const minCellSeconds = 0.2

// settings parses the two settings to compare; nil without any.
func (s *Spec) settings() (out []target.Setting, err error) {
	const try = "--set innodb_adaptive_hash_index=OFF,innodb_adaptive_hash_index=ON"
	given := s.Cells.Set
	switch len(given) {
	case 0:
		return nil, nil
	case 1:
		given = strings.Split(given[0], ",")
	}
	if len(given) != 2 {
		return nil, refuse(try, "--set takes two settings to compare, not %d; where a value has a comma, give --set twice", len(given))
	}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, refuse(try, "--set: %q is not NAME=VALUE", text)
		}
		out = append(out, target.Setting{Name: name, Value: value})
	}
	if out[0] == out[1] {
		return nil, refuse(try, "--set: both settings are %s", out[0])
	}
	return out, nil
}

func (s *Spec) mixedOptions() workload.MixedOptions {
	return workload.MixedOptions{Preset: s.Preset, Seed: uint64(s.Seed), Rows: s.Rows, Batch: s.Batch, Points: s.Cells.Points}
}

// A turn is an operation with a number of clients. It is measured on each contender.
type turn struct {
	op      string
	clients int
}

func (t turn) writes() bool { return t.op == workload.OpInsert || t.op == workload.OpMixed }

func (s *Spec) turns() []turn {
	var out []turn
	for _, op := range s.Cells.Ops {
		for _, n := range s.Cells.Clients {
			if op == workload.OpMixed && n < 2 {
				continue // one client can't both insert and select
			}
			out = append(out, turn{op, n})
		}
	}
	return out
}

// readers returns the number of clients that select during a turn. In a mixed operation, at least
// one client selects and at least one inserts.
func (s *Spec) readers(t turn) int {
	switch t.op {
	case workload.OpInsert:
		return 0
	case workload.OpMixed:
		return min(max(int(math.Round(s.Cells.Mix/100*float64(t.clients))), 1), t.clients-1)
	}
	return t.clients
}

// cellLoad returns the workload of a turn and how it runs. The interval between figures
// is a tenth of the cell's time, at least 50 ms and at most a second.
func (s *Spec) cellLoad(m *workload.Mixed, t turn, number int) (bench.Workload, bench.Config, error) {
	length := time.Duration(s.Cells.Seconds * float64(time.Second))
	cfg := bench.Config{Operation: t.op, Clients: t.clients, Batch: 1, MaxTime: length,
		Interval: min(max(length/10, 50*time.Millisecond), time.Second)}
	if t.writes() {
		cfg.Operation, cfg.Batch = workload.OpInsert, s.Batch
	}
	w, err := m.Clients(cfg.Operation, number)
	if err == nil && t.op == workload.OpMixed {
		beside := bench.Load{Operation: workload.OpSelectPK, Clients: s.readers(t), Batch: 1}
		beside.Client, err = m.Clients(workload.OpSelectPK, number)
		cfg.Clients -= beside.Clients
		cfg.Beside = []bench.Load{beside}
	}
	return w, cfg, err
}

// A cellsRun measures the cells of a Spec. Contenders are measured alternately, so that a change of
// the machine affects all of them.
type cellsRun struct {
	*Env
	spec       *Spec
	databases  []*database
	contenders []contender
	began      time.Time // the first cell
}

type database struct {
	*target.DB
	w      *workload.Mixed
	schema []string
	// warnings come from filling the table.
	warnings []string
}

// A contender is what a line of the matrix measures: a database, or a database with a setting.
type contender struct {
	db *database
	// side is "A" or "B" if two settings are compared.
	side    string
	setting target.Setting
}

func (e *Env) cells(ctx context.Context, s *Spec) (recs []result.Record, err error) {
	r := &cellsRun{Env: e, spec: s}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.openAll(ctx); err != nil {
		return nil, early(ctx, err)
	}
	turns := s.turns()
	total := s.Repeat * len(turns) * len(r.contenders)
	least := time.Duration(s.Cells.Seconds * float64(total) * float64(time.Second))
	e.Show.Note(fmt.Sprintf("measuring %s of %v s each: at least %v, and before it the tables are filled", figure.Plural(total, "cell"), s.Cells.Seconds, least.Round(100*time.Millisecond)))
	for _, db := range r.databases {
		if err := r.fill(ctx, db, s.DropExisting); err != nil {
			return nil, early(ctx, err)
		}
	}
	var all []cell
	for round := range s.Repeat {
		for i, t := range turns {
			number := round*len(turns) + i
			for _, c := range inTurn(r.contenders, round+i) {
				all = append(all, cell{turn: t, contender: c, number: number, round: round, order: len(all), of: total})
			}
		}
	}
	r.began = time.Now()
	return each(ctx, all, cell.label, func(c cell) ([]result.Record, error) {
		rec, err := r.measure(ctx, c)
		if rec == nil {
			err = early(ctx, err)
		}
		return recorded(rec, err)
	})
}

// openAll opens the contenders: a private server or a temporary file for each setting, or else the
// targets.
func (r *cellsRun) openAll(ctx context.Context) error {
	settings, err := r.spec.settings()
	if err != nil {
		return err
	}
	for i, setting := range settings {
		url, err := target.WithSetting(r.spec.Target(), setting)
		if err != nil {
			return fmt.Errorf("--set: %w", err)
		}
		if err := r.open(ctx, url, contender{side: "AB"[i : i+1], setting: setting}); err != nil {
			return err
		}
	}
	if settings != nil {
		return nil
	}
	for _, url := range r.spec.Targets {
		if err := r.open(ctx, url, contender{}); err != nil {
			return err
		}
	}
	return nil
}

// open opens the database of a contender and adds both to the run.
func (r *cellsRun) open(ctx context.Context, url string, c contender) error {
	t, err := target.Open(ctx, url, r.Show.Note)
	if err != nil {
		return err
	}
	for _, other := range r.databases {
		if other.Info().Target == t.Info().Target && t.Capabilities().Stores {
			err = refuse("one database for each --target", "--target %s is the same database as %s: both would use one table", url, other.Text)
		}
	}
	c.db = &database{DB: t}
	r.databases, r.contenders = append(r.databases, c.db), append(r.contenders, c)
	if err == nil {
		c.db.w, err = workload.NewMixed(t, r.spec.mixedOptions())
	}
	return err
}

func (r *cellsRun) close() error {
	var errs []error
	for _, db := range r.databases {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

func (r *cellsRun) fill(ctx context.Context, db *database, dropExisting bool) (err error) {
	name, total := db.Info().Engine, r.spec.Rows
	r.Show.Note(fmt.Sprintf("%s: filling the table with %s", name, rows(total)))
	db.schema, err = db.w.Fill(ctx, dropExisting, r.noteRows(func(n int64) string {
		return fmt.Sprintf("%s: filled %d of %d rows", name, n, total)
	}))
	if err == nil {
		db.warnings, err = r.settle(ctx, db.DB, db.w.Tables())
	}
	return err
}

// A table is recreated once it has grown by more than the share maxGrowth of its rows, so that all
// cells measure about the same table.
const maxGrowth = 0.1

// A cell is one measurement: a turn, which is an operation with a number of clients, on a
// contender. The cells of one turn in one round have the same number, counted from 0.
type cell struct {
	turn
	contender
	number, round int
	order, of     int // its place among all cells, from 0
}

func (c cell) label() string {
	return fmt.Sprintf("%s with %d clients on %s", c.op, c.clients, c.db.Text)
}

// measure measures one cell. The record is nil if the measurement never began.
func (r *cellsRun) measure(ctx context.Context, c cell) (_ *result.Record, err error) {
	db, s := c.db, r.spec
	if grown := db.w.Rows() - s.Rows; float64(grown) > maxGrowth*float64(s.Rows) {
		if err := r.fill(ctx, db, true); err != nil {
			return nil, err
		}
	}
	var others []engine.Info
	for _, other := range r.databases {
		if other != db {
			others = append(others, other.Info())
		}
	}
	idle := probe.WatchIdle(ctx, others)
	defer func() { err = errors.Join(err, idle.Close()) }()
	t := &Trial{Spec: s, Whole: s, Side: c.side}
	own := result.Run{
		Name: r.name(c), Load: result.Load{Writers: c.clients, Indexes: db.w.Indexes()},
		Deviations: db.w.Deviations(), Database: result.Database{Schema: db.schema}, Warnings: append(idle.Settle(ctx), db.warnings...),
		Benchmark: result.Benchmark{Speed: &result.Speed{Operation: c.op, Clients: c.clients, Readers: s.readers(c.turn), Counts: result.CountsQueries,
			Points: s.Cells.Points, TableRows: db.w.Rows(), Filled: s.Rows}},
	}
	if s.Repeat > 1 {
		t.Repeat = c.round + 1
		own.Name = t.named(own.Name)
	}
	if c.writes() {
		own.Method, own.Speed.Counts = string(db.w.Options().Method), result.CountsRows
	}
	if c.side != "" {
		own.Speed.Setting = c.setting.String()
	}
	w, cfg, err := s.cellLoad(db.w, c.turn, c.number)
	if err != nil {
		return nil, err
	}
	m := measurement{env: r.Env, trial: t, db: db.DB}
	if err := m.begin(ctx, db.w.Tables(), cfg, own, place(c.order+1, c.of, c.order, r.began)+"  "+own.Name); err != nil {
		return nil, err
	}
	idle.Start(ctx)
	err = m.measure(ctx, w, func(ctx context.Context, end *result.End) error {
		end.Warnings = append(end.Warnings, idle.Stop(ctx)...)
		if !c.writes() || end.Stopped == bench.StoppedFailed || ctx.Err() != nil || !db.Capabilities().Stores {
			return nil
		}
		end.Warnings = append(end.Warnings, db.w.Warnings()...)
		if err := m.verifyUnless(ctx, db.w.Insert, db.w.Rows(), end); err != nil || ctx.Err() != nil {
			return err
		}
		// The remaining writes must not affect the next cell.
		warnings, err := r.settle(ctx, db.DB, db.w.Tables())
		end.Warnings = append(end.Warnings, warnings...)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	return m.rec, err
}

// place returns the place of an item among all items, and the time left if it is known: "3/12,
// about 40s left". The time left is estimated from the time since began, in which done items were
// completed.
func place(number, total, done int, began time.Time) string {
	text := fmt.Sprintf("%d/%d", number, total)
	if done > 0 {
		left := time.Since(began) / time.Duration(done) * time.Duration(total-number+1)
		text += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return text
}

func (r *cellsRun) name(c cell) string {
	name := c.op
	if c.op == workload.OpPoints {
		name = figure.Plural(r.spec.Cells.Points, "point")
	}
	name += fmt.Sprintf(", %s on %s", figure.Plural(c.clients, "client"), c.db.Info().Engine)
	if c.side != "" {
		name += " with " + c.setting.String()
	}
	return name
}
