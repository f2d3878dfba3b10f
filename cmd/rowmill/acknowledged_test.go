package main

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
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

// many is the first sensor of rows that no client writes.
const many = 10_000_000

// inFlux is the version of a row that is about to be deleted.
const inFlux = -2

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
	// base is added to the keys of clients, before is what they were told before.
	base   int
	before map[int]int
	said   []string
	ctx    context.Context
	stop   context.CancelFunc
	all    sync.WaitGroup
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

// exec executes a client's statement until the server has done it, and returns the rows affected.
// It is -1 if an attempt with an unknown result was made before.
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
		if o.base > 0 && slices.ContainsFunc([]string{"1062", "23505"}, func(code string) bool { return strings.Contains(err.Error(), code) }) {
			return 0, true
		}
		again = true
		if strings.Contains(err.Error(), "1526") || strings.Contains(err.Error(), "no partition of relation") { // it was dropped
			time.Sleep(5 * time.Millisecond)
		} else if !retried(err) {
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

// write starts the clients, until end: once, retry, upsert, update and delete. Those that retry and
// upsert also write rows of the file, whose version is 0 there. They write in bursts, between which
// a period stays as it is for long enough to be changed.
func (o *oracle) write() {
	ctx, stop := context.WithCancel(o.Context())
	o.ctx, o.stop = ctx, stop
	all := &o.all
	insert := func(key, version int) string {
		return fmt.Sprintf("INSERT INTO readings (sensor, ts, value, note) VALUES (%d, '%s', %d, 'client')", key, o.ts(key), version)
	}
	ignored := func(q string) string {
		switch {
		case o.base > 0: // MySQL's IGNORE also drops a row without a partition
			return q
		case o.server == "postgres":
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
			key := o.base + 1_000_000 + n
			if _, done := o.exec(ctx, ignored(insert(key, 1))); done {
				o.tell(key, 1)
			}
		},
		func(n int) { // retry
			for i, key := range []int{o.base + 2_000_000 + n, o.base + n%fileRows} {
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
			for _, key := range []int{o.base + 3_000_000 + n%20, o.base + n%40*2} {
				if _, done := o.exec(ctx, upsert(key, n)); done {
					o.tell(key, n)
				}
			}
		},
		func(n int) { // update
			key := o.base + 4_000_000 + n%30
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
			key := o.base + 5_000_000 + n
			if _, done := o.exec(ctx, ignored(insert(key, 1))); done {
				o.tell(key, 1)
				time.Sleep(time.Duration(rand.N(100)) * time.Millisecond)
				o.tell(key, inFlux)
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
	readers, pause := 1, 40*time.Millisecond
	if testdb.Nightly() {
		readers, pause = 2, 8*time.Millisecond
	}
	for range readers {
		all.Go(func() {
			for ctx.Err() == nil {
				o.mu.Lock()
				told := maps.Clone(o.told)
				o.mu.Unlock()
				o.look(told)
				time.Sleep(pause)
			}
		})
	}
}

// end waits for the clients.
func (o *oracle) end() {
	o.stop()
	o.all.Wait()
}

// look reads the hour, and compares it with what clients had been told before.
func (o *oracle) look(told map[int]int) map[int]int {
	began, found := time.Now(), map[int]int{}
	rows, err := o.db.Query(fmt.Sprintf("SELECT sensor, value FROM readings WHERE sensor < %d AND ts >= '%s' AND ts < '%s'", many,
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
		case version == inFlux, version >= 0 && o.told[key] < 0: // deleted meanwhile
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

// A periodChange is a change of TestAcknowledged.
type periodChange struct {
	name string
	// replace are replacements in the declaration.
	replace []string
	// plain means that the table isn't rolling yet.
	plain bool
	// prepare runs before the change; nil: the clients begin to write at any time of it.
	prepare func(o *oracle)
	// verbs are run one after the other, each again after a kill.
	verbs []string
}

var periodChanges = []periodChange{
	{name: "publish", verbs: []string{"load all.csv --lane publish --batch 50"}},
	{name: "publish beside writers", prepare: (*oracle).begin, verbs: []string{"load all.csv --lane publish --batch 50"}},
	{name: "merge", prepare: (*oracle).begin, verbs: []string{"load all.csv --lane merge --batch 50"}},
	{name: "rebuild and merge", prepare: (*oracle).begin, verbs: []string{"run --once", "run --once"}},
	{name: "adopt and undo", plain: true, prepare: (*oracle).begin, verbs: []string{"apply --yes", "apply --undo --yes"}},
	{name: "restore", replace: []string{"keep  = \"7d\"", "keep = \"2h\"", "merge = \"1h\"", "archive = \"archive\""}, prepare: func(o *oracle) {
		o.begin()
		o.end()
		mustPass(o.T, o.run("run", "--once"))
		if len(o.look(map[int]int{})) > 0 {
			o.Fatal("its rows were not dropped")
		}
		o.before, o.told, o.base = o.told, map[int]int{}, 100_000
		o.write()
	}, verbs: []string{"restore p20260329_0100 --yes", "restore p20260329_0130 --yes"}},
}

// begin has the clients write for a while, after whose hour it is later.
func (o *oracle) begin() {
	o.write()
	o.waits("clients have written", func() bool { return o.writes.Load() > 300 })
	o.tick(loadStart.Add(5 * time.Hour))
}

// until runs a verb until it is done, killed at random points.
func (o *oracle) until(r *rand.Rand, verb string) (kills int) {
	args := strings.Fields(verb)
	args = slices.Insert(args, 1, o.file)
	if args[0] != "load" {
		args = append(args, "--clock", o.clock)
	}
	for try := 0; ; try++ {
		point := 0
		if try < 3 && r.IntN(2) == 0 {
			point = 1 + r.IntN(60)
		}
		p := killable(point, args...)
		p.Dir = o.dir
		s := ended(o.T, p, "")
		o.said = append(o.said, fmt.Sprintf("%s: exit %d at point %d: %s%s", verb, s.code, point, s.stdout, s.stderr))
		switch {
		case s.code == exitDone, strings.Contains(s.stderr, "has that period"): // killed after its last step
			return kills
		case s.code == -1:
			kills++
		case try > 20 || !strings.Contains(s.stderr, "another process") && !strings.Contains(s.stderr, "lock") && !strings.Contains(s.stderr, "another restoration"):
			o.fails("exit %d", s.code)
			return kills
		}
	}
}

// TestAcknowledged changes periods while clients write to them, and kills the change at random
// points: from the moment in which a client was told of a row, every reader must find it, with its
// newest version.
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	changes, seed := len(periodChanges), uint64(8)
	if testdb.Nightly() {
		changes, seed = 17*len(periodChanges), rand.Uint64()
	}
	onEach(t, servers, func(t *testing.T, server string) {
		r := rand.New(rand.NewPCG(seed, 30))
		var longest [2]time.Duration
		kills, writes, reads, exchanged, not := 0, int64(0), int64(0), 0, 0
		for n := range changes {
			c := periodChanges[n%len(periodChanges)]
			o := newOracle(t, server, c, n/len(periodChanges)%2 == 1)
			if c.prepare != nil {
				c.prepare(o)
			} else {
				// At any time of the change.
				time.AfterFunc(time.Duration(r.Int64N(int64(400*time.Millisecond))), o.write)
			}
			for _, verb := range c.verbs {
				kills += o.until(r, verb)
			}
			time.Sleep(20 * time.Millisecond)
			o.waits("clients have written", func() bool { return o.writes.Load() > 0 })
			o.end()
			found := o.look(o.told)
			o.look(o.before)
			for key := range fileRows {
				if _, there := found[key]; !there && strings.HasPrefix(c.verbs[0], "load") {
					o.fails("row %d of the file is missing", key)
					break
				}
			}
			if c.verbs[0] != "apply --yes" {
				o.has("", "SELECT id FROM rowmill_journal")
			}
			if kept := o.leftTables(); kept != "" {
				o.fails("left: %s", kept)
			}
			said := strings.Join(o.said, "\n")
			if len(o.wrong) > 0 {
				t.Errorf("%s, change %d, seed %d: %d findings: %s\n%s", c.name, n, seed, len(o.wrong), strings.Join(o.wrong[:min(len(o.wrong), 8)], "\n"), said)
			}
			exchanged += strings.Count(said, ": published,") + strings.Count(said, ": merged,") + strings.Count(said, " rows of 1 period") + strings.Count(said, " rows of 2 periods")
			not += strings.Count(said, "rows arrived while") + strings.Count(said, "live, because")
			writes, reads = writes+o.writes.Load(), reads+o.reads.Load()
			t.Logf("%s: the longest write %v, the longest read %v", c.name, o.longest[0], o.longest[1])
			longest = [2]time.Duration{max(longest[0], o.longest[0]), max(longest[1], o.longest[1])}
		}
		t.Logf("%d changes, %d kills, %d periods exchanged and %d not, %d writes, %d reads; the longest write %v, the longest read %v", changes, kills, exchanged, not, writes, reads, longest[0], longest[1])
	})
}

// newOracle creates the table of a change, and the file.
func newOracle(t *testing.T, server string, c periodChange, exact bool) *oracle {
	t.Helper()
	replace := []string{"every = \"1h\"", "every = \"30m\"", "keep  = \"7d\"", "[seal]\nafter = \"1h\"\nmerge = \"1h\"\ncompress = true\n"}
	if c.replace != nil {
		replace[3] = strings.NewReplacer(c.replace...).Replace("keep  = \"7d\"\n" + replace[3])
	}
	if exact {
		replace = append(replace, "time   = \"ts\"", "time   = \"ts\"\nexact  = true")
	}
	o := &oracle{loading: newLoading(t, server, replace...), from: loadStart.Add(20 * time.Minute), told: map[int]int{}}
	if strings.Contains(c.name, "merge") { // more than are compared under a lock
		var rows []string
		for i := range 21_000 {
			rows = append(rows, fmt.Sprintf("(%d, '%s', 0, 'many')", many+i, o.ts(i)))
		}
		for part := range slices.Chunk(rows, 1000) {
			o.does("INSERT INTO readings (sensor, ts, value, note) VALUES " + strings.Join(part, ", "))
		}
	}
	if c.plain {
		o.drop()
		o.does(o.table.Definition.Text)
	}
	o.db = clientsOf(o.loading)
	var text strings.Builder
	text.WriteString("sensor,ts,value,note\n")
	for key := range fileRows {
		fmt.Fprintf(&text, "%d,%s,0,file\n", key, o.ts(key))
	}
	o.loading.write("all.csv", text.String())
	return o
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
