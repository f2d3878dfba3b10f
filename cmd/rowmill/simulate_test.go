package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// monthDeclaration is the table of the simulated month. $KEEP are the days of retention.
const monthDeclaration = intsTable + `
[period]
every = "4h"
ahead = "16h"
keep  = "$KEEPd"

[seal]
after   = "2h"
merge   = "1d"
archive = "$DIR/archive"

[[rollup]]
name   = "readings_1h"
every  = "1h"
by     = ["sensor"]
select = { n = "count(*)", total = "sum(value)", peak = "max(value)", low = "min(value)" }

[[rollup]]
name  = "readings_1d"
from  = "readings_1h"
every = "1d"
`

// A month is a running simulation.
type month struct {
	*keptTable
	rng       *rand.Rand
	now       int64
	daemons   []*exec.Cmd
	logs      []*bytes.Buffer
	kills     int
	keep      int // days
	first     int64
	sent      map[string]int // value by sensor and time
	maxPeriod int
	batches   int
	retries   int  // of batches, after deadlocks and locks that weren't granted
	rival     bool // what kept the table before still does
}

// TestSimulatedMonth simulates thirty days at full speed, with late rows, the start of
// daylight saving time in Europe, two daemons, and kill -9 at any time. No row may be
// lost, no roll-up bucket may be wrong, and the number of periods must be bounded.
func TestSimulatedMonth(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestSimulatedWeek")
	for _, server := range []string{"sqlite", "mariadb", "mysql", "postgres"} {
		t.Run(server, func(t *testing.T) {
			simulate(t, server, time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC), 30, 12, false)
		})
	}
}

// TestSimulatedWeek simulates four days around the start of daylight saving time, of
// which two are kept.
func TestSimulatedWeek(t *testing.T) {
	t.Parallel()
	for _, server := range testdb.OneKind(t, keepers...) {
		t.Run(server, func(t *testing.T) { simulate(t, server, time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC), 4, 2, false) })
	}
}

// simulate runs a table for some days, beginning with first, and keeps the last keep days. With a
// rival, what kept the table before still does.
func simulate(t *testing.T, server string, first time.Time, days, keep int, rival bool) {
	m := &month{keptTable: declare(t, server, strings.Replace(monthDeclaration, "$KEEP", fmt.Sprint(keep), 1)),
		rng: rand.New(rand.NewPCG(4, uint64(days))), first: rolling.Position(first), keep: keep, sent: map[string]int{}, rival: rival}
	m.setTo(m.first)
	mustPass(t, m.run("apply", "--yes"))
	if rival {
		m.hireRival()
	}
	m.daemons, m.logs = make([]*exec.Cmd, 2), make([]*bytes.Buffer, 2)
	for i := range m.daemons {
		m.start(i)
	}
	t.Cleanup(m.stop)
	for step := range 6 * days {
		m.step(step)
	}
	m.stop()
	t.Logf("%d rows in %d batches with %d retries, %d kills, at most %d periods", len(m.sent), m.batches, m.retries, m.kills, m.maxPeriod)
	m.finish()
}

func (m *month) setTo(now int64) {
	m.Helper()
	m.now = now
	m.tick(rolling.Instant(now))
}

// start starts a daemon, in a time zone with daylight saving.
func (m *month) start(i int) {
	m.Helper()
	c := exec.Command(os.Args[0], "run", m.file, "--clock", m.clock, "--interval", "100ms")
	c.Env = append(os.Environ(), processVariable+"=1", "TZ=Europe/Berlin")
	m.logs[i] = &bytes.Buffer{}
	c.Stderr = m.logs[i]
	must(m, c.Start())
	m.daemons[i] = c
}

// kill kills a daemon, as an operating system short of memory would.
func (m *month) kill(i int) {
	c := m.daemons[i]
	if c == nil {
		return
	}
	_ = c.Process.Signal(syscall.SIGKILL)
	_ = c.Wait() // killed by the test
	m.daemons[i] = nil
	m.kills++
}

func (m *month) stop() {
	for i := range m.daemons {
		if m.daemons[i] != nil {
			m.kill(i)
		}
		if m.Failed() && m.logs[i] != nil {
			lines := strings.Split(m.logs[i].String(), "\n")
			m.Logf("daemon %d said last:\n%s", i, strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	}
}

// step simulates four hours: rows of the present, sometimes late rows, and sometimes
// the kill or start of a daemon.
func (m *month) step(step int) {
	m.Helper()
	m.setTo(m.now + 4*3600e6)
	m.rivalKeeps(step)
	m.wait()
	m.insert(m.now, m.now+12000e6, 24)
	switch step % 7 {
	case 2:
		m.insert(m.now-30*3600e6, m.now-2*3600e6, 6)
	case 5:
		m.insert(m.now-int64(m.keep)*16*3600e6, m.now-24*3600e6, 4)
	}
	if m.rival && !testdb.Nightly() {
		return // which is quicker
	}
	if m.rng.IntN(3) == 0 {
		i := m.rng.IntN(2)
		m.kill(i)
		if m.daemons[1-i] == nil {
			m.start(1 - i)
		}
	} else if i := m.rng.IntN(2); m.daemons[i] == nil {
		m.start(i)
	}
}

// mostPeriods is the maximum number of periods: the kept days, merged; the day before
// and the current day in periods of 4 hours; the periods ahead; and some that two
// repeatedly killed daemons may leave undone.
func (m *month) mostPeriods() int { return m.keep + 6 + 6 + 4 + 10 }

// wait stops the clock until the periods of the next hours exist and the due
// maintenance is complete: a real clock would not run that fast.
func (m *month) wait() {
	m.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(25 * time.Millisecond) {
		have, err := m.db.Catalog().Partitions(m.Context(), m.table)
		must(m, err)
		m.maxPeriod = max(m.maxPeriod, len(have))
		if have[len(have)-1].To > m.now+4*3600e6 && len(have) < m.mostPeriods()-4 && (!m.rival || m.sealed(have)) {
			return
		}
		if time.Now().After(end) {
			m.Fatalf("in a minute nobody has caught up; it is %s, and %d periods end %s", rolling.Instant(m.now), len(have), rolling.Instant(have[len(have)-1].To))
		}
		for i := range m.daemons {
			if m.daemons[i] == nil {
				m.start(i)
			}
		}
	}
}

// mostRetries is the maximum number of retries of all batches together; most simulations need none.
const mostRetries = 20

// insert inserts rows at random times of a span, either as a loader with a ledger or
// as a client that bypasses it.
func (m *month) insert(from, to int64, rows int) {
	m.Helper()
	from = max(from, m.first)
	if to <= from {
		return
	}
	w, quote := m.db.Words(), m.db.Dialect().Quote
	var values []string
	lower, upper := int64(1<<62), int64(0)
	batch := map[string]int{}
	for range rows {
		at := (from + m.rng.Int64N(to-from)) / 1e6 * 1e6
		sensor, value := m.rng.IntN(3), m.rng.IntN(1000)
		key := fmt.Sprintf("%d %d", sensor, at)
		if _, twice := m.sent[key]; twice || batch[key] > 0 {
			continue
		}
		batch[key] = value
		lower, upper = min(lower, at), max(upper, at)
		values = append(values, fmt.Sprintf("(%d, %s, %d)", sensor, w.Literal(m.table, at), value))
	}
	if len(values) == 0 {
		return
	}
	q := fmt.Sprintf("INSERT INTO %s (sensor, ts, value) VALUES %s", quote("readings"), strings.Join(values, ", "))
	m.batches++
	err := m.send(q, lower, upper)
	for ; errors.Is(err, engine.ErrLockTimeout) || errors.Is(err, engine.ErrDeadlock); err = m.send(q, lower, upper) {
		if m.retries++; m.retries > mostRetries {
			m.Fatalf("%d retries in %d batches: %v", m.retries, m.batches, err)
		}
	}
	if err != nil {
		m.Fatalf("insert at %s: %v", rolling.Instant(m.now), err)
	}
	maps.Copy(m.sent, batch)
}

func (m *month) send(q string, lower, upper int64) error {
	ctx := m.Context()
	tx, err := m.db.SQL().BeginTx(ctx, nil)
	if err != nil {
		return m.db.Classify(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, q); err != nil {
		return m.db.Classify(err)
	}
	if m.batches%2 == 0 || m.rival { // which doesn't look for others before it drops a period
		if err := m.note(ctx, tx, lower, upper); err != nil {
			return m.db.Classify(err)
		}
	}
	return m.db.Classify(tx.Commit())
}

// finish lets the month's rows exceed their retention, and compares the roll-ups and
// the archive with the rows that were sent.
func (m *month) finish() {
	t := m.T
	// A period that a killed daemon has detached but not yet recorded is neither in
	// the table nor dropped: the next daemon finishes the change.
	wantDone(t, m.run("run", "--once"))
	m.check("before the end")
	more := 8
	if m.rival { // its statements are about the days before
		more = 2
	}
	m.setTo(m.now + int64(m.keep+more)*24*3600e6)
	for range 4 {
		wantDone(t, m.run("run", "--once"))
	}
	m.check("in the end")
	m.dismissRival()
	if s := m.run("status"); s.code != exitDone {
		t.Errorf("status: exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	for level, length := range map[string]int64{"readings_1h": 3600e6, "readings_1d": 24 * 3600e6} {
		m.compareLevel(level, length)
	}
	if t.Failed() {
		actions, err := state.New(m.db).Actions(t.Context(), "readings", 5000)
		must(t, err)
		for _, a := range slices.Backward(actions) {
			t.Logf("%s %s %s %s", a.At.UTC().Format(time.TimeOnly), a.Action, a.Detail, a.Error)
		}
	}
	if m.maxPeriod > m.mostPeriods() {
		t.Errorf("there were %d periods at a time, more than %d", m.maxPeriod, m.mostPeriods())
	}
}

// check counts every row that was sent: in the table or, if its period was dropped, in the archive.
func (m *month) check(when string) {
	t := m.T
	t.Helper()
	var there, gone int64
	must(t, m.db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+m.db.Dialect().Quote("readings")).Scan(&there))
	periods, err := state.New(m.db).Periods(t.Context(), "readings")
	must(t, err)
	for _, p := range periods {
		if p.State == state.Dropped {
			gone += p.Rows
		}
	}
	gone += m.rivalDropped()
	if there+gone != int64(len(m.sent)) {
		t.Errorf("%s: %d rows were sent; %d are there and %d were dropped, which makes %d", when, len(m.sent), there, gone, there+gone)
	}
}

// A bucket is a level's row of one sensor and one time bucket.
type bucket struct{ n, total, peak, low int64 }

// compareLevel compares a level with a direct computation.
func (m *month) compareLevel(level string, length int64) {
	t := m.T
	t.Helper()
	want := map[string]bucket{}
	for key, value := range m.sent {
		var sensor, at int64
		fmt.Sscan(key, &sensor, &at)
		key := fmt.Sprintf("%d %d", sensor, at/length*length)
		b, seen := want[key]
		v := int64(value)
		if !seen {
			b = bucket{peak: v, low: v}
		}
		want[key] = bucket{b.n + 1, b.total + v, max(b.peak, v), min(b.low, v)}
	}
	q := m.db.Dialect().Quote
	rows, err := m.db.SQL().QueryContext(t.Context(), fmt.Sprintf("SELECT sensor, %s, n, total, peak, low FROM %s", m.db.Words().Position(m.table, q("bucket")), q(level)))
	must(t, err)
	defer rows.Close()
	got := map[string]bucket{}
	for rows.Next() {
		var sensor, at int64
		var b bucket
		must(t, rows.Scan(&sensor, &at, &b.n, &b.total, &b.peak, &b.low))
		got[fmt.Sprintf("%d %d", sensor, at)] = b
	}
	must(t, rows.Err())
	wrong := 0
	for key, b := range want {
		if got[key] != b {
			if wrong++; wrong < 5 {
				t.Errorf("%s: bucket %s is %+v, want %+v", level, key, got[key], b)
			}
		}
	}
	if len(got) != len(want) || wrong > 0 {
		t.Errorf("%s: %d buckets, of which %d are wrong; want %d", level, len(got), wrong, len(want))
	}
}

// note records the changed range of a batch, in the transaction of its rows.
func (m *month) note(ctx context.Context, x state.Exec, lower, upper int64) error {
	return state.New(m.db).Touch(ctx, x, "readings", fmt.Sprintf("batch %d", m.batches), rolling.Period{From: lower, To: upper + 1})
}
