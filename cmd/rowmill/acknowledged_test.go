package main

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/rowmill/rowmill/internal/testdb"
)

// clientsOf opens a database as other programs do, without rowmill's settings.
func clientsOf(l *loading) *sql.DB {
	l.Helper()
	var db *sql.DB
	var err error
	if l.server == "postgres" {
		db, err = sql.Open("pgx", fmt.Sprintf("host=%s port=%s user=%s dbname=%s", l.at.Query.Get("host"), l.at.Query.Get("port"), l.at.User, l.at.Path))
	} else {
		c := mysqldriver.NewConfig()
		c.User, c.Net, c.Addr, c.DBName, c.InterpolateParams, c.ClientFoundRows = l.at.User, "unix", l.at.Query.Get("socket"), l.at.Path, true, true
		db, err = sql.Open("mysql", c.FormatDSN())
	}
	must(l, err)
	db.SetMaxIdleConns(20)
	l.Cleanup(func() { must(l, db.Close()) })
	return db
}

// unknown is the version of a row that is about to be deleted.
const unknown = -2

// An oracle knows what clients were told about the rows of an hour: the version of each key, -1 for
// a deleted one. A key has one writer.
type oracle struct {
	*loading
	db     *sql.DB
	from   time.Time
	mu     sync.Mutex
	told   map[int]int
	wrong  []string
	writes atomic.Int64
	reads  atomic.Int64
	paused atomic.Bool
	// longest are the longest statements of writers and of readers.
	longest [2]time.Duration
}

func (o *oracle) ts(key int) string {
	return o.from.Add(time.Duration(key*7%3600) * time.Second).Format("2006-01-02 15:04:05")
}

func (o *oracle) fails(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// exec executes a client's statement until the server has done it, and returns the rows affected. It
// is -1 if an attempt with an unknown result was made before.
func (o *oracle) exec(ctx context.Context, statement string) (rows int64, done bool) {
	began, again := time.Now(), false
	for ctx.Err() == nil {
		res, err := o.db.ExecContext(context.WithoutCancel(ctx), statement)
		took := time.Since(began)
		if err == nil {
			o.mu.Lock()
			o.longest[0] = max(o.longest[0], took)
			o.mu.Unlock()
			o.writes.Add(1)
			if rows, err = res.RowsAffected(); err != nil || again {
				rows = -1
			}
			return rows, true
		}
		again = true
		if !retried(err) {
			o.fails("%s: %v", statement, err)
			return 0, false
		}
		began = time.Now()
	}
	return 0, false
}

// retried reports an error after which clients repeat a statement: a deadlock, a lock that was not
// granted, a definition that has changed meanwhile.
func retried(err error) bool {
	return slices.ContainsFunc([]string{"1213", "1205", "1412", "1146", "40P01", "55P03"}, func(code string) bool { return strings.Contains(err.Error(), code) })
}

func (o *oracle) tell(key, version int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told[key] = version
}

// write runs the writers until ctx ends: once, retry, upsert, update and delete. Those that retry and
// upsert also write rows of the file, whose version is 0 there. They write in bursts, between which a
// period stays as it is for long enough to be changed.
func (o *oracle) write(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	insert := func(key, version int) string {
		return fmt.Sprintf("INSERT INTO readings (sensor, ts, value, note) VALUES (%d, '%s', %d, 'client')", key, o.ts(key), version)
	}
	ignored := func(q string) string {
		if o.server == "postgres" {
			return q + " ON CONFLICT DO NOTHING"
		}
		return strings.Replace(q, "INSERT", "INSERT IGNORE", 1)
	}
	upsert := func(key, version int) string {
		if o.server == "postgres" {
			return insert(key, version) + " ON CONFLICT (sensor, ts) DO UPDATE SET value = EXCLUDED.value"
		}
		return insert(key, version) + " ON DUPLICATE KEY UPDATE value = VALUES(value)"
	}
	where := func(key int) string { return fmt.Sprintf(" WHERE sensor = %d AND ts = '%s'", key, o.ts(key)) }
	for kind, step := range []func(n int){
		func(n int) { // once
			key := 1_000_000 + n
			if _, done := o.exec(ctx, ignored(insert(key, 1))); done {
				o.tell(key, 1)
			}
		},
		func(n int) { // retry
			for i, key := range []int{2_000_000 + n, n % fileRows} {
				if key%2 == 0 && i == 1 {
					key++ // those of the upserts are even
				}
				for range 2 {
					if _, done := o.exec(ctx, ignored(insert(key, 1))); done {
						o.tell(key, i^1)
					}
				}
			}
		},
		func(n int) { // upsert
			for _, key := range []int{3_000_000 + n%20, n % 40 * 2} {
				if _, done := o.exec(ctx, upsert(key, n)); done {
					o.tell(key, n)
				}
			}
		},
		func(n int) { // update
			key := 4_000_000 + n%30
			if n < 31 {
				o.exec(ctx, ignored(insert(key, 0)))
			}
			if rows, done := o.exec(ctx, fmt.Sprintf("UPDATE readings SET value = %d", n)+where(key)); done {
				if o.tell(key, n); rows == 0 {
					o.fails("an UPDATE of key %d finds no row", key)
				}
			}
		},
		func(n int) { // delete
			key := 5_000_000 + n
			if _, done := o.exec(ctx, ignored(insert(key, 1))); done {
				o.tell(key, 1)
				time.Sleep(time.Duration(rand.N(100)) * time.Millisecond)
				o.tell(key, unknown)
				if rows, done := o.exec(ctx, "DELETE FROM readings"+where(key)); done {
					if o.tell(key, -1); rows == 0 {
						o.fails("a DELETE of key %d finds no row", key)
					}
				}
			}
		},
	} {
		all.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				for o.paused.Load() && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				step(n)
				time.Sleep(time.Duration(1+kind) * time.Millisecond)
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			o.paused.Store(true)
			time.Sleep(time.Duration(rand.N(500)) * time.Millisecond)
			o.paused.Store(false)
		}
	})
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				o.look()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	return all.Wait
}

// look reads the hour, and compares it with what clients had been told before.
func (o *oracle) look() map[int]int {
	o.mu.Lock()
	told := maps.Clone(o.told)
	o.mu.Unlock()
	began, found := time.Now(), map[int]int{}
	rows, err := o.db.Query(fmt.Sprintf("SELECT sensor, value FROM readings WHERE ts >= '%s' AND ts < '%s'",
		o.from.Format("2006-01-02 15:04:05"), o.from.Add(time.Hour).Format("2006-01-02 15:04:05")))
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			var key int
			var version float64
			if err = rows.Scan(&key, &version); err != nil {
				break
			}
			if _, twice := found[key]; twice {
				o.fails("key %d is there twice", key)
			}
			found[key] = int(version)
		}
		if err == nil {
			err = rows.Err()
		}
	}
	if err != nil {
		if !retried(err) {
			o.fails("read: %v", err)
		}
		return nil
	}
	o.reads.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	lost, older, back := 0, 0, 0
	for key, version := range told {
		switch is, there := found[key]; {
		case version != -1 && o.told[key] < 0: // deleted meanwhile
		case version < 0 && there:
			back++
		case version >= 0 && !there:
			lost++
		case version >= 0 && is < version:
			older++
		}
	}
	o.longest[1] = max(o.longest[1], time.Since(began))
	if lost+older+back > 0 {
		o.wrong = append(o.wrong, fmt.Sprintf("of %d acknowledged rows, %d aren't seen, %d are older, and %d are back", len(told), lost, older, back))
	}
	return found
}

// fileRows is the number of rows of a file, whose keys begin with 0.
const fileRows = 400

// changesOfPeriods are the changes of TestAcknowledged: what is there before, and the verbs.
var changesOfPeriods = []struct {
	name   string
	before bool // the clients write before the change begins
	verb   string
	args   []string
}{
	{"publish", false, "load", []string{"all.csv", "--lane", "publish", "--batch", "50"}},
	{"publish beside writers", true, "load", []string{"all.csv", "--lane", "publish", "--batch", "50"}},
	{"merge", true, "load", []string{"all.csv", "--lane", "merge", "--batch", "50"}},
	{"rebuild and merge", true, "run", []string{"--once"}},
}

// TestAcknowledged changes periods while clients write to them, and kills the change at random
// points: from the moment in which a client was told of a row, every reader must find it, with its
// newest version.
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	changes, seed := 4, uint64(8)
	if testdb.Nightly() {
		changes, seed = 104, rand.Uint64()
	}
	onEach(t, servers, func(t *testing.T, server string) {
		r := rand.New(rand.NewPCG(seed, 30))
		var longest [2]time.Duration
		kills, writes, reads, exchanged, not := 0, int64(0), int64(0), 0, 0
		for n := range changes {
			c := changesOfPeriods[n%len(changesOfPeriods)]
			replace := []string{"every = \"1h\"", "every = \"30m\"", "keep  = \"7d\"", "[seal]\nafter = \"1h\"\nmerge = \"1h\"\ncompress = true\n"}
			if n/len(changesOfPeriods)%2 == 1 {
				replace = append(replace, "time   = \"ts\"", "time   = \"ts\"\nexact  = true")
			}
			l := newLoading(t, server, replace...)
			o := &oracle{loading: l, db: clientsOf(l), from: loadStart.Add(20 * time.Minute), told: map[int]int{}}
			var text strings.Builder
			text.WriteString("sensor,ts,value,note\n")
			for key := range fileRows {
				fmt.Fprintf(&text, "%d,%s,0,file\n", key, o.ts(key))
			}
			l.write("all.csv", text.String())
			ctx, stop := context.WithCancel(t.Context())
			writing := func() {}
			if c.before {
				writing = o.write(ctx)
				l.waits("clients have written", func() bool { return o.writes.Load() > 300 })
				l.tick(loadStart.Add(5 * time.Hour))
			}
			args := append([]string{c.verb, l.file}, c.args...)
			if c.verb == "run" {
				args = append(args, "--clock", l.clock)
			}
			var said []string
			for try := 0; ; try++ {
				point := 0
				if try < 3 && r.IntN(2) == 0 {
					point = 1 + r.IntN(60)
				}
				p := killable(point, args...)
				p.Dir = l.dir
				began := make(chan struct{})
				if !c.before && try == 0 {
					// The clients begin at any time of the change.
					after := time.Duration(r.Int64N(int64(400 * time.Millisecond)))
					go func() {
						time.Sleep(after)
						writing = o.write(ctx)
						close(began)
					}()
				} else {
					close(began)
				}
				s := ended(t, p, "")
				<-began
				said = append(said, fmt.Sprintf("exit %d at point %d: %s%s", s.code, point, s.stdout, s.stderr))
				if s.code == exitDone {
					break
				}
				if kills++; s.code != -1 && !strings.Contains(s.stderr, "another process") && !strings.Contains(s.stderr, "lock") || try > 20 {
					kills--
					o.fails("exit %d", s.code)
					break
				}
			}
			time.Sleep(20 * time.Millisecond)
			stop()
			writing()
			found := o.look()
			if c.verb == "load" {
				for key := range fileRows {
					if _, there := found[key]; !there {
						o.fails("row %d of the file is missing", key)
						break
					}
				}
			}
			l.has("", "SELECT id FROM rowmill_journal")
			if kept := l.leftTables(); kept != "" {
				o.fails("left: %s", kept)
			}
			if len(o.wrong) > 0 {
				t.Errorf("%s, change %d, seed %d: %d findings: %s\n%s", c.name, n, seed, len(o.wrong), strings.Join(o.wrong[:min(len(o.wrong), 8)], "\n"), strings.Join(said, "\n"))
			}
			for _, s := range said {
				exchanged += strings.Count(s, ": published,") + strings.Count(s, ": merged,") + strings.Count(s, " rows of 1 period") + strings.Count(s, " rows of 2 periods")
				not += strings.Count(s, "rows arrived while") + strings.Count(s, "live, because")
			}
			writes, reads = writes+o.writes.Load(), reads+o.reads.Load()
			longest = [2]time.Duration{max(longest[0], o.longest[0]), max(longest[1], o.longest[1])}
			if os.Getenv("ROWMILL_TEST_EACH") != "" {
				t.Logf("%s: writers waited %v, readers %v\n%s", c.name, o.longest[0], o.longest[1], strings.Join(said, "\n"))
			}
			must(t, o.db.Close())
		}
		t.Logf("%d changes, %d kills, %d periods exchanged and %d not, %d writes, %d reads; the longest write %v, the longest read %v", changes, kills, exchanged, not, writes, reads, longest[0], longest[1])
	})
}

// leftTables returns the tables of changes that are there beside the periods.
func (l *loading) leftTables() string {
	l.Helper()
	schema := "DATABASE()"
	if l.server == "postgres" {
		schema = "current_schema()"
	}
	return strings.Join(l.query("SELECT table_name FROM information_schema.tables WHERE table_schema = "+schema+
		" AND (table_name LIKE 'rowmill!_in!_%' ESCAPE '!' OR table_name LIKE 'rowmill!_out!_%' ESCAPE '!' OR table_name LIKE 'rowmill!_rows!_%' ESCAPE '!' OR table_name LIKE 'rowmill!_new!_%' ESCAPE '!' OR table_name LIKE 'rowmill!_old!_%' ESCAPE '!')"), ", ")
}
