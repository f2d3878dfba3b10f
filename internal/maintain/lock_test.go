package maintain_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A counted Keeper counts the steps that run at the same time.
type counted struct {
	engine.Keeper
	active, most *atomic.Int32
}

func (c counted) Try(ctx context.Context, _ ...engine.Step) error {
	n := c.active.Add(1)
	defer c.active.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return engine.Sleep(ctx, 30*time.Millisecond)
}

// Lanes of one process, and of two, request the table's lock one after the other:
// an insert that queues behind one request never queues behind a second.
func TestTrapRequestsForTheLockQueueUp(t *testing.T) {
	on(t, []string{"mariadb", "mysql", "postgres"}, func(t *testing.T, db engine.Keeper) {
		var active, most atomic.Int32
		var all sync.WaitGroup
		name := &engine.Table{Name: "readings"}
		for range 2 {
			table := BareTable(counted{db, &active, &most}, name)
			for range 3 {
				all.Go(func() {
					if err := table.TryLocked(t.Context(), engine.CreatePartitions{Table: name, New: []rolling.Partition{{Name: "p"}}}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if n := most.Load(); n != 1 {
			t.Errorf("%d steps asked for the lock at a time", n)
		}
	})
}

// TestReplaceWaitsForCopy checks that a period is not replaced while this process copies the rows
// of another one, which keeps the table's lock.
func TestReplaceWaitsForCopy(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.5))
		var active, most atomic.Int32
		w.Table.DB = counted{db, &active, &most}
		w.Copying().RLock()
		var all sync.WaitGroup
		all.Go(func() {
			_ = w.SwapPublished(t.Context(), &state.Change{Table: "readings"}) // nothing is recorded of it
		})
		time.Sleep(50 * time.Millisecond)
		if n := most.Load(); n != 0 {
			t.Error("the period is replaced during the copy")
		}
		w.Copying().RUnlock()
		all.Wait()
		if n := most.Load(); n != 1 {
			t.Errorf("%d attempts after the copy, want 1", n)
		}
	})
}

// A busy Keeper returns a lock timeout for the next attempts of some steps.
type busy struct {
	engine.Keeper
	tries atomic.Int32
}

func (b *busy) Try(ctx context.Context, steps ...engine.Step) error {
	for _, s := range steps {
		switch s.(type) {
		case engine.Replace, engine.Detach:
			if b.tries.Add(-1) >= 0 {
				return engine.Classed(engine.ErrLockTimeout, errors.New("somebody has it"))
			}
		}
	}
	return b.Keeper.Try(ctx, steps...)
}

// Blockers returns no blockers. MariaDB and MySQL may return sessions that run a
// statement on a table of that name in any database, as other tests do.
func (b *busy) Blockers(context.Context, *engine.Table) ([]engine.Blocker, error) { return nil, nil }

// A step that didn't get the lock is continued later. After its success it is no
// longer reported as blocked.
func TestBlockedIsOver(t *testing.T) {
	onServers(t, func(t *testing.T, real engine.Keeper) {
		db := &busy{Keeper: real}
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
			d.Keep = span(6 * time.Hour)
			d.Seal.After = span(30 * time.Minute)
			d.Seal.Merge = grid(t, "3h")
		}), at(0.2))
		blocked := func(hour float64, want string) {
			t.Helper()
			w.now = at(hour)
			db.tries.Store(1000)
			for range 2 {
				if err := schedule.Once(t.Context(), w.Table); !errors.Is(err, engine.ErrLockTimeout) {
					t.Fatalf("with the lock taken: %v", err)
				}
				if got := w.problem("blocked"); !strings.HasPrefix(got, want+" ") {
					t.Errorf("with the lock taken: %q, want %s", got, want)
				}
			}
			db.tries.Store(0)
			w.keep()
			if got := w.problem("blocked"); got != "" {
				t.Errorf("%s is done: %s", want, got)
			}
			if got := w.problem("failed"); got != "" {
				t.Errorf("%s is done: %s", want, got)
			}
		}
		for hour := range 3 {
			w.now = at(float64(hour) + 0.1)
			w.keep()
			w.insert(w.now, 1, 2, 3)
		}
		name := func(hour float64) string {
			return w.Table.Table.Grid.Named(rolling.Period{From: at(hour), To: at(hour + 1)}).Name
		}
		blocked(3.6, fmt.Sprintf("merge %s, %s, %s", name(0), name(1), name(2)))
		w.wantParts("0-3 ")
		have := w.partitions()
		blocked(9.1, "drop "+have[0].Name)
		if got := w.parts(); strings.HasPrefix(got, "0-3 ") {
			t.Errorf("%s are left", got)
		}
	})
}

// patience is how long a test waits for an expected event: far longer than it takes
// on a slow machine.
const patience = 2 * time.Minute

// lockBound is twice the time for which Try waits for a lock: an insert that queues
// behind one request never queues behind a second.
const lockBound = 2 * time.Second

// A refused Keeper counts the steps that didn't get their lock.
type refused struct {
	engine.Keeper
	times atomic.Int32
}

func (r *refused) Try(ctx context.Context, steps ...engine.Step) error {
	err := r.Keeper.Try(ctx, steps...)
	if errors.Is(err, engine.ErrLockTimeout) {
		r.times.Add(1)
	}
	return err
}

// TestTrapOpenTransaction: a transaction of another session left open on the table
// blocks steps that need its lock, and nothing else. No insert waits longer than
// the bound, the periods created ahead accept them, status names the blocking
// session, and all delayed steps are done once the transaction ends.
func TestTrapOpenTransaction(t *testing.T) {
	on(t, []string{"mariadb", "mysql", "postgres"}, openTransaction)
}

// An inserter inserts rows into a table, one after the other.
type inserter struct {
	longest, rows atomic.Int64
}

// run inserts until ctx ends.
func (i *inserter) run(ctx context.Context, t *testing.T, db engine.Keeper, query func(n int) string) {
	for n := 10; ctx.Err() == nil; n++ {
		began := time.Now()
		_, err := db.SQL().ExecContext(ctx, query(n))
		switch {
		case err == nil:
			i.rows.Add(1)
		case ctx.Err() == nil && !errors.Is(db.Classify(err), engine.ErrLockTimeout):
			t.Errorf("insert: %v", err)
		}
		i.longest.Store(max(i.longest.Load(), int64(time.Since(began))))
		_ = engine.Sleep(ctx, 10*time.Millisecond)
	}
}

// others returns a connection that isn't rowmill's own.
func others(t *testing.T, db engine.Keeper) *sql.Conn {
	t.Helper()
	pool := db.SQL()
	if db.Info().Engine != "postgres" {
		c := mysqldriver.NewConfig()
		c.Net = "unix"
		must(t, pool.QueryRowContext(t.Context(), "SELECT @@socket, DATABASE(), SUBSTRING_INDEX(CURRENT_USER(), '@', 1)").Scan(&c.Addr, &c.DBName, &c.User))
		connector, err := mysqldriver.NewConnector(c)
		must(t, err)
		pool = sql.OpenDB(connector)
		t.Cleanup(func() { pool.Close() })
	}
	conn, err := pool.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	if db.Info().Engine == "postgres" {
		exec(t, conn, "SET application_name = 'a report'")
	}
	return conn
}

// TestTrapOwnTransaction: the user can't end rowmill's own transactions. Status
// doesn't list them as blockers, and the error of a step that waits for one names
// it as rowmill's own.
func TestTrapOwnTransaction(t *testing.T) {
	on(t, []string{"mariadb", "mysql"}, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.5))
		w.insert(w.now, 1)
		begin := func(conn *sql.Conn) {
			t.Helper()
			for _, q := range []string{"BEGIN", "SELECT COUNT(*) FROM readings"} {
				exec(t, conn, q)
			}
		}
		own, err := db.SQL().Conn(t.Context())
		must(t, err)
		defer own.Close()
		begin(own)
		w.now = at(1.5) // a period is due to be created
		_, err = w.Pass(t.Context(), Creating, nil, time.Time{})
		if !errors.Is(err, engine.ErrLockTimeout) || !strings.Contains(err.Error(), "rowmill's own connection") {
			t.Errorf("create a period: %v", err)
		}
		blocked := func() bool {
			t.Helper()
			s := w.status()
			named := slices.ContainsFunc(s.Problems, func(p Problem) bool { return p.Code == "blocked" })
			if named != (len(s.Blockers) > 0) {
				t.Errorf("problems %+v, blockers %+v", s.Problems, s.Blockers)
			}
			return named
		}
		if blocked() {
			t.Error("status names rowmill's own transaction as what is in the way")
		}
		begin(others(t, db))
		if !blocked() {
			t.Error("status doesn't name somebody else's transaction")
		}
	})
}

func openTransaction(t *testing.T, db engine.Keeper) {
	d := declare(t, db, func(d *rolling.Declaration) {
		d.Keep = span(3 * time.Hour)
		d.Ahead = span(6 * time.Hour)
	})
	w := applied(t, db, d, at(0.5))
	w.SetBreath(0) // inserts queue here
	var now atomic.Int64
	now.Store(w.now)
	w.Now = Clock(func() time.Time { return rolling.Instant(now.Load()) })
	w.Say = nil
	for hour := range 4 {
		now.Store(at(float64(hour) + 0.5))
		w.keep()
		w.insert(now.Load(), 1, 2, 3)
	}
	// Inserts into an unlocked table measure the machine's own delays.
	exec(t, db.SQL(), "CREATE TABLE beside (n INT NOT NULL)")
	tries := &refused{Keeper: db}
	w.Table.DB = tries

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		s := &schedule.Scheduler{Poll: 200 * time.Millisecond, LockPause: 200 * time.Millisecond}
		s.Add(w.Table)
		s.Run(ctx)
	})
	var inserts, beside inserter
	all.Go(func() {
		inserts.run(ctx, t, db, func(n int) string {
			return fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (%d, %s, 1)", n, db.Words().Literal(w.Table.Table, now.Load()))
		})
	})
	all.Go(func() {
		beside.run(ctx, t, db, func(n int) string { return fmt.Sprintf("INSERT INTO beside (n) VALUES (%d)", n) })
	})

	conn := others(t, db)
	exec := func(q string) {
		t.Helper()
		exec(t, conn, q)
	}
	exec("BEGIN")
	exec("SELECT COUNT(*) FROM readings")
	before := w.parts()
	now.Store(at(5.5)) // two periods are due to be created, and two to be dropped

	status := func(ok func(*Status) bool) *Status {
		t.Helper()
		var s *Status
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			var err error
			if s, err = w.Status(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ok(s) {
				return s
			}
		}
		t.Fatalf("after %s: problems %+v, blockers %+v, actions %+v", patience, s.Problems, s.Blockers, s.Actions)
		return nil
	}
	s := status(func(s *Status) bool {
		return len(s.Problems) > 0 && s.Problems[0].Code == "blocked" && len(s.Blockers) > 0
	})
	if p := s.Problems[0].Text; !strings.Contains(p, fmt.Sprint(s.Blockers[0].ID)) || !strings.Contains(p, "inserts have periods for") {
		t.Errorf("the problem names neither who is in the way nor what is left: %s", p)
	}
	// Attempts continue to drop and, if that needs the lock, to create periods, and
	// inserts get through between them.
	creates := db.Info().Engine == "postgres"
	tried, rows := tries.times.Load(), inserts.rows.Load()
	status(func(*Status) bool {
		return tries.times.Load() >= tried+2 && inserts.rows.Load() >= rows+20 && (!creates || strings.HasSuffix(w.parts(), " 11-12"))
	})
	if during := w.parts(); strings.HasSuffix(during, " 11-12") != creates || !strings.HasPrefix(during, strings.Fields(before)[0]) {
		t.Errorf("with the transaction open: before %s, now %s", before, during)
	}
	exec("ROLLBACK")
	status(func(s *Status) bool {
		return len(s.Problems) == 0 && strings.HasSuffix(w.parts(), " 11-12") && strings.HasPrefix(w.parts(), "2-3")
	})
	cancel()
	all.Wait()
	wait, machine := time.Duration(inserts.longest.Load()), time.Duration(beside.longest.Load())
	t.Logf("%d inserts, the longest took %s; beside the table %s", inserts.rows.Load(), wait.Round(time.Millisecond), machine.Round(time.Millisecond))
	if wait > lockBound+machine {
		t.Errorf("an insert waited %s behind maintenance, and %s for the machine; the bound is %s", wait, machine, lockBound)
	}
}
