package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A speedTest measures operations with several numbers of clients on several
// contenders. The cells alternate between the contenders, so that a change on the
// machine doesn't affect only one of them.
type speedTest struct {
	f    cellFlags
	name string // of the workload: "mixed" or "points"
	args []string
	out  *recordFile
	show *cellProgress

	databases  []*database
	contenders []contender
}

// A database is an open target with its table.
type database struct {
	*target.DB
	w      *workload.Mixed
	schema []string
	// warnings come from filling the table.
	warnings []string
}

// A contender is the subject of a line of the matrix: a database, or a database with a
// setting.
type contender struct {
	db *database
	// side is "A" or "B" if two settings are compared. setting is the setting, and how
	// the way in which it is made.
	side    string
	setting target.Setting
	how     string
}

// open opens a target with its workload.
func (s *speedTest) open(ctx context.Context, text string) (*database, error) {
	t, err := target.Open(ctx, text, s.show.Note)
	if err != nil {
		return nil, err
	}
	db := &database{DB: t}
	s.databases = append(s.databases, db)
	db.w, err = workload.NewMixed(t, s.f.options())
	for _, other := range s.databases[:len(s.databases)-1] {
		if err == nil && other.Info().Target == t.Info().Target && other.Info().Engine != "null" {
			err = usagef("one database for each --target", "--target %s is the same database as %s: both would use one table", text, other.Text)
		}
	}
	return db, err
}

func (s *speedTest) close() error {
	var errs []error
	for _, db := range s.databases {
		errs = append(errs, db.Close())
	}
	s.databases = nil
	return errors.Join(errs...)
}

// fillNote is the interval at which filling reports its progress.
const fillNote = 5 * time.Second

// fill recreates and fills the table of a database.
func (s *speedTest) fill(ctx context.Context, db *database, dropExisting bool) error {
	s.show.Note(fmt.Sprintf("%s: filling the table with %s", db.Info().Engine, plural(s.f.rows, "row")))
	said := time.Now()
	var err error
	db.schema, db.warnings, err = db.w.Fill(ctx, dropExisting, func(rows int64) {
		if time.Since(said) > fillNote {
			said = time.Now()
			s.show.Note(fmt.Sprintf("%s: filled %d of %d rows", db.Info().Engine, rows, s.f.rows))
		}
	})
	return err
}

// run fills the tables and measures all cells. It returns the records of the cells
// that began, and stops at the first failure.
func (s *speedTest) run(ctx context.Context) (recs []result.Record, err error) {
	turns := s.turns()
	s.show.expect(s.f.repeat*len(turns)*len(s.contenders), s.f.seconds)
	for _, db := range s.databases {
		if err := s.fill(ctx, db, s.f.dropExisting); err != nil {
			return nil, s.early(ctx, err)
		}
	}
	for round := range s.f.repeat {
		for i, t := range turns {
			for _, c := range inTurn(s.contenders, round+i) {
				rec, err := s.cell(ctx, c, t, round, round*len(turns)+i)
				if rec != nil {
					recs = append(recs, *rec)
				} else {
					err = s.early(ctx, err)
				}
				if err == nil && ctx.Err() != nil {
					err = errInterrupted
				}
				if err != nil {
					return recs, fmt.Errorf("%s with %d clients on %s: %w", t.op, t.clients, c.db.Text, err)
				}
			}
		}
	}
	return recs, nil
}

// early marks an error caused by an interrupt before the measurement.
func (s *speedTest) early(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errInterruptedEarly, err)
	}
	return err
}

// A turn is a cell that is measured on each contender.
type turn struct {
	op      string
	clients int
}

func (s *speedTest) turns() []turn {
	var out []turn
	for _, op := range s.f.ops {
		for _, n := range s.f.clients {
			if op == workload.OpMixed && n < 2 {
				continue // one client can't both insert and select
			}
			out = append(out, turn{op, n})
		}
	}
	return out
}

// maxGrowth is the share of its rows by which a table may grow before it is recreated,
// so that all cells measure the same table.
const maxGrowth = 0.1

// cell measures one cell. The record is nil if the measurement never began.
func (s *speedTest) cell(ctx context.Context, c contender, t turn, round, number int) (_ *result.Record, err error) {
	db := c.db
	if grown := db.w.Rows() - s.f.rows; float64(grown) > maxGrowth*float64(s.f.rows) {
		if err := s.fill(ctx, db, true); err != nil {
			return nil, err
		}
	}
	idle, err := watchIdle(ctx, s.databases, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, idle.close()) }()
	run := result.Run{
		Name: s.cellName(c, t), Side: c.side, Command: s.args,
		Workload: s.name, Preset: s.f.preset, Layout: workload.Plain, Seed: s.f.seed,
		MaxTimeSeconds: s.f.seconds, Writers: t.clients, Batch: 1, Indexes: db.w.Indexes(),
		Deviations: db.w.Deviations(), Schema: db.schema, Warnings: append(idle.settle(ctx), db.warnings...),
		Speed: &result.Speed{Operation: t.op, Clients: t.clients, Readers: t.clients, Counts: result.CountsQueries,
			Points: s.f.points, TableRows: db.w.Rows(), Filled: s.f.rows},
	}
	if s.f.repeat > 1 {
		run.Repeat = round + 1
		run.Name += fmt.Sprintf(" #%d", run.Repeat)
	}
	writes := t.op == workload.OpInsert || t.op == workload.OpMixed
	if writes {
		run.Batch, run.Method = s.f.batch, string(db.w.Options().Method)
		run.Speed.Counts, run.Speed.Readers = result.CountsRows, 0
		if t.op == workload.OpMixed {
			run.Speed.Readers = s.f.readers(t.clients)
		}
	}
	if c.side != "" {
		undo, err := c.apply(ctx, run.Speed)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	w, cfg, err := s.f.config(db.w, t.op, t.clients, number)
	if err != nil {
		return nil, err
	}
	m := measurement{db: db.DB, out: s.out, show: s.show, interval: s.f.interval()}
	if err := m.begin(ctx, db.w.Tables(), run, run.Name); err != nil {
		return nil, err
	}
	idle.start(ctx)
	err = m.measure(ctx, w, cfg, func(ctx context.Context, end *result.End) error {
		end.Warnings = append(end.Warnings, idle.stop(ctx)...)
		if !writes || end.Stopped == bench.StoppedFailed || ctx.Err() != nil || !db.Capabilities().Stores {
			return nil
		}
		return s.prove(ctx, &m, db, end)
	})
	m.rec.Source = s.out.path
	return m.rec, err
}

// prove compares the table with the rows that were sent, and then lets the database
// settle.
func (s *speedTest) prove(ctx context.Context, m *measurement, db *database, end *result.End) error {
	end.Warnings = append(end.Warnings, db.w.Warnings()...)
	if s.f.noVerify {
		end.Warnings = append(end.Warnings, "not verified: --no-verify was given")
	} else {
		proof, err := db.w.Verify(ctx, func(int64) {})
		end.Warnings = append(end.Warnings, proof.Warnings...)
		if err != nil {
			if ctx.Err() != nil {
				end.Warnings = append(end.Warnings, "not verified: interrupted meanwhile")
				return nil
			}
			return errors.Join(m.db.Death(err), err)
		}
		end.Verified = &result.Verified{Expected: proof.Expected, Found: proof.Found, Checksum: proof.Checksum}
		if !proof.Checksum {
			return fmt.Errorf("verification failed: of %d rows expected %d were found, and they are not all the rows that were sent",
				proof.Expected, proof.Found)
		}
	}
	// The remaining writes must not affect the next cell.
	warnings, err := db.w.Settle(ctx)
	end.Warnings = append(end.Warnings, warnings...)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *speedTest) cellName(c contender, t turn) string {
	name := t.op
	if t.op == workload.OpPoints {
		name = plural(s.f.points, "point")
	}
	name += fmt.Sprintf(", %s on %s", plural(t.clients, "client"), c.db.Info().Engine)
	if c.side != "" {
		name += " with " + c.setting.String()
	}
	return name
}

// undoWait bounds the time for restoring a setting, even after an interrupt.
const undoWait = 30 * time.Second

// apply sets the contender's setting on the server for a cell, and records it in the
// cell's header. undo restores the previous value.
func (c *contender) apply(ctx context.Context, cell *result.Speed) (undo func() error, err error) {
	cell.Setting, cell.SettingHow = c.setting.String(), c.how
	if c.how == result.SettingStarted {
		return func() error { return nil }, nil
	}
	tuner, ok := c.db.DB.DB.(engine.Tuner)
	if !ok {
		return nil, fmt.Errorf("--set %s: %s has no settings to change while it runs", c.setting, c.db.Info().Engine)
	}
	tuning, err := tuner.Tune(ctx, c.setting.Name, c.setting.Value)
	if err != nil {
		return nil, fmt.Errorf("--set: %w", err)
	}
	cell.SettingValue = tuning.Now
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWait)
		defer cancel()
		return tuning.Undo(ctx)
	}, nil
}

// An idleWatch monitors the servers that are not being measured, which should be idle.
type idleWatch struct {
	names  []string
	probes []*probe.Probe
	began  time.Time
}

// idleShare is the CPU time, as a share of one core, up to which a server counts as
// idle; a server's timers take a hundredth of a core. idleWindow is the interval of
// the check, and idleWait the longest wait for idle servers.
const (
	idleShare  = 0.05
	idleWindow = 200 * time.Millisecond
	idleWait   = 10 * time.Second
)

func watchIdle(ctx context.Context, all []*database, measured *database) (*idleWatch, error) {
	w := &idleWatch{}
	for _, db := range all {
		pid := db.Info().PID
		if db == measured || pid == 0 {
			continue
		}
		p, err := probe.New(ctx, probe.Config{Nodes: []probe.Node{{ServerPID: pid}}})
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.names, w.probes = append(w.names, db.Info().Engine), append(w.probes, p)
	}
	w.start(ctx)
	return w, nil
}

func (w *idleWatch) close() error {
	var errs []error
	for _, p := range w.probes {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

func (w *idleWatch) start(ctx context.Context) {
	for _, p := range w.probes {
		p.Start(ctx)
	}
	w.began = time.Now()
}

// busy returns a warning for each server that used more than the idle share since the
// start.
func (w *idleWatch) busy(ctx context.Context) []string {
	var out []string
	seconds := time.Since(w.began).Seconds()
	for i, p := range w.probes {
		p.Sample(ctx, 0)
		if cpu, ok := p.ServerCPUSeconds(); ok && seconds > 0 && cpu/seconds > idleShare {
			out = append(out, fmt.Sprintf("%s, which was not measured, used %.0f%% of a core", w.names[i], 100*cpu/seconds))
		}
	}
	return out
}

// settle waits until the other servers are idle. After idleWait it returns a warning
// for each server that is not.
func (w *idleWatch) settle(ctx context.Context) (warnings []string) {
	for end := time.Now().Add(idleWait); len(w.probes) > 0 && time.Now().Before(end); {
		select {
		case <-time.After(idleWindow):
		case <-ctx.Done():
			return nil
		}
		if warnings = w.busy(ctx); len(warnings) == 0 {
			return nil
		}
		w.start(ctx)
	}
	for i := range warnings {
		warnings[i] += " before the cell, and didn't settle"
	}
	return warnings
}

// stop returns a warning for each server that was not idle during the cell.
func (w *idleWatch) stop(ctx context.Context) []string {
	out := w.busy(ctx)
	for i := range out {
		out[i] += " during the cell"
	}
	return out
}
