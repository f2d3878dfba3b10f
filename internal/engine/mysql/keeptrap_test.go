package mysql_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapMetadataLock: a change waits for the table's lock for no longer than
// about a second, and so do the statements that queue behind it.
func TestTrapMetadataLock(t *testing.T) { onEach(t, testTrapMetadataLock) }

func testTrapMetadataLock(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 3)
	k.insert(first, 1, 10)
	k.fill("with_it", 0)
	other := session(t, db)
	exec(t, other, "BEGIN", "SELECT * FROM readings")
	if _, err := db.Pool().ExecContext(t.Context(), "CREATE TABLE unused (id BIGINT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	// The second table is not changed. Its delays are the machine's, and are
	// subtracted.
	done, longest := make(chan struct{}), [2]time.Duration{}
	var inserting sync.WaitGroup
	for i, insert := range []string{"INSERT INTO readings VALUES (?, '2026-11-22', 1)", "INSERT INTO unused VALUES (?)"} {
		inserting.Go(func() {
			for id := 1000; ; id++ {
				began := time.Now()
				if _, err := db.Pool().ExecContext(t.Context(), insert, id); err != nil {
					t.Error(err)
				}
				longest[i] = max(longest[i], time.Since(began))
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for _, s := range []engine.Step{
		engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"},
		k.replace(0, 1),
		engine.AddColumn{Table: k.Table, Have: k.parts, Name: "x", Definition: "x INT"},
		engine.CreatePartitions{Table: k.Table, Have: k.parts, New: []rolling.Partition{{Name: "late", Period: rolling.Period{From: k.parts[2].To, To: k.parts[2].To + day}}}},
	} {
		began := time.Now()
		if err := db.Try(within(t), s); !errors.Is(err, engine.ErrLockTimeout) {
			t.Errorf("%T: %v", s, err)
		}
		if took := time.Since(began); took > 2500*time.Millisecond {
			t.Errorf("%T took %v", s, took)
		}
		time.Sleep(200 * time.Millisecond) // let the queued statements pass
	}
	close(done)
	inserting.Wait()
	if most := longest[0] - longest[1]; most > 1800*time.Millisecond {
		t.Errorf("an insert waited for %v, and %v into a table that nothing is done with", longest[0], longest[1])
	}
	blockers, err := db.Blockers(within(t), k.Table)
	if err != nil || len(blockers) == 0 || blockers[0].User != "root" {
		t.Errorf("blockers %+v, %v", blockers, err)
	}
	exec(t, other, "ROLLBACK")
	k.try(engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"})
	k.want("gone", "10 rows, 55")
}

// TestTrapDropHoldsLock: the rows of a detached period are dropped while the table
// is in use. Dropping the partition itself would wait for the table's transactions,
// and then lock the table during the drop.
func TestTrapDropHoldsLock(t *testing.T) { onEach(t, testTrapDropHoldsLock) }

func testTrapDropHoldsLock(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 3)
	k.insert(first, 1, 10)
	k.try(engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"})
	other := session(t, db)
	exec(t, other, "BEGIN", "SELECT * FROM readings")
	if err := db.Try(within(t), engine.DropPartition{Table: k.Table, Have: k.parts[1:], Drop: k.parts[1]}); !errors.Is(err, engine.ErrLockTimeout) {
		t.Errorf("a partition in use: %v", err)
	}
	k.try(engine.DropTables{Names: []string{"gone"}})
	if _, err := db.Describe(within(t), "gone"); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("the table is left: %v", err)
	}
}

// TestTrapInstantColumn: MySQL refuses to exchange partitions of a table to which a
// column was added instantly. Changes of periods work nevertheless.
func TestTrapInstantColumn(t *testing.T) { onEach(t, testTrapInstantColumn) }

func testTrapInstantColumn(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 4)
	for i := range k.parts {
		k.insert(k.parts[i].From, i*100+1, 10)
	}
	k.try(engine.AddColumn{Table: k.Table, Have: k.parts, Name: "w", Definition: "w INT NOT NULL DEFAULT 5"})
	k.fill("with_it", 1, 2)
	if db.Info().Engine == "mysql" {
		_, err := db.SQL().ExecContext(within(t), "ALTER TABLE readings EXCHANGE PARTITION "+k.parts[1].Name+" WITH TABLE with_it WITHOUT VALIDATION")
		if err == nil || !strings.Contains(err.Error(), "1731") {
			t.Fatalf("the exchange: %v", err)
		}
	}
	whole := k.ids("readings")
	r := k.replace(1, 3)
	k.try(r)
	k.try(r)
	k.want("readings WHERE w = 5", whole)
	k.want("out_1", "10 rows, 1055")
	k.want("out_2", "10 rows, 2055")
	parts := []rolling.Partition{k.parts[0], r.New, k.parts[3]}
	if got := k.have(); got != fmt.Sprint(parts) {
		t.Errorf("partitions %s", got)
	}
	detach := engine.Detach{Table: k.Table, Have: parts, Part: k.parts[0], Into: "gone"}
	k.try(detach)
	k.try(detach)
	k.want("gone WHERE w = 5", "10 rows, 55")
	k.try(engine.Attach{Table: k.Table, Have: parts[1:], Part: k.parts[0], From: "gone"})
	k.want("readings", whole)
	if got := k.have(); got != fmt.Sprint(parts) {
		t.Errorf("partitions %s", got)
	}
}

// TestTrapForcedCopy: if the server is configured to copy tables, dropping a
// partition would move its rows into the next one.
func TestTrapForcedCopy(t *testing.T) { onEachOwn(t, testTrapForcedCopy) }

func testTrapForcedCopy(t *testing.T, db *mysql.DB) {
	set, undo := "SET GLOBAL old_alter_table = ON", "SET GLOBAL old_alter_table = OFF"
	if db.Info().Engine == "mariadb" {
		set, undo = "SET GLOBAL alter_algorithm = 'COPY'", "SET GLOBAL alter_algorithm = 'DEFAULT'"
	}
	s := session(t, db)
	exec(t, s, set)
	defer exec(t, s, undo)
	forced, err := mysql.Open(within(t), db.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer forced.Close()
	k := keep(t, forced, "DATETIME", 0, 4)
	for i := range k.parts {
		k.insert(k.parts[i].From, i*100+1, 10)
	}
	k.try(engine.DropPartition{Table: k.Table, Have: k.parts, Drop: k.parts[1]})
	k.want(k.part(2), "10 rows, 2055")
	k.try(engine.DropPartition{Table: k.Table, Have: slices.Delete(slices.Clone(k.parts), 1, 2), Drop: k.parts[0]})
	k.want("readings", "20 rows, 5110")
	if n, err := forced.Outside(within(t), k.Table); n != 0 || err != nil {
		t.Errorf("%d rows in the floor, %v", n, err)
	}
}

// TestTrapMaxvalue: there is no MAXVALUE partition, so a row after the last period
// fails with ErrNoPartition.
func TestTrapMaxvalue(t *testing.T) { onEach(t, testTrapMaxvalue) }

func testTrapMaxvalue(t *testing.T, db *mysql.DB) {
	for _, c := range columnTypes {
		t.Run(c.name, func(t *testing.T) {
			k := keep(t, db, c.name, c.epoch, 2)
			defer k.run("DROP TABLE readings")
			var name, text string
			if err := db.SQL().QueryRowContext(within(t), "SHOW CREATE TABLE readings").Scan(&name, &text); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.ToUpper(text), "MAXVALUE") {
				t.Error(text)
			}
			_, err := db.SQL().ExecContext(within(t), "INSERT INTO readings VALUES (1, "+db.Words().Literal(k.Table, k.parts[1].To)+", 1)")
			if err := db.Classify(err); !errors.Is(err, engine.ErrNoPartition) {
				t.Errorf("got %v", err)
			}
		})
	}
}

var columnTypes = []struct {
	name  string
	epoch time.Duration
	// step is the column's resolution in microseconds.
	step int64
}{
	{"DATETIME", 0, 1e6}, {"DATETIME(6)", 0, 1}, {"DATE", 0, day}, {"TIMESTAMP", 0, 1e6},
	{"INT UNSIGNED", time.Second, 1e6}, {"BIGINT", time.Millisecond, 1e3}, {"BIGINT", time.Microsecond, 1},
}

// TestTrapTimestampPruning: a condition on the partitioning column reads only the
// matching periods. For a TIMESTAMP, this requires partitioning by UNIX_TIMESTAMP.
func TestTrapTimestampPruning(t *testing.T) { onEach(t, testTrapTimestampPruning) }

func testTrapTimestampPruning(t *testing.T, db *mysql.DB) {
	explain := "EXPLAIN FORMAT=TRADITIONAL "
	if db.Info().Engine == "mariadb" {
		explain = "EXPLAIN PARTITIONS "
	}
	for _, c := range columnTypes {
		t.Run(fmt.Sprint(c.name, c.epoch), func(t *testing.T) {
			k := keep(t, db, c.name, c.epoch, 5)
			defer k.run("DROP TABLE readings")
			w := db.Words()
			for i, p := range k.parts {
				k.insert(p.From, i*10, 1)
				if c.step < day {
					k.insert(p.To-c.step, i*10+1, 1)
				}
			}
			for i, p := range k.parts {
				var n, bad int
				q := fmt.Sprintf("SELECT COUNT(*), COALESCE(SUM(%s < %d OR %s >= %d OR id DIV 10 <> %d), 0) FROM %s", w.Position(k.Table, "ts"), p.From, w.Position(k.Table, "ts"), p.To, i, k.part(i))
				if err := db.SQL().QueryRowContext(within(t), q).Scan(&n, &bad); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				if n == 0 || bad > 0 {
					t.Errorf("period %s has %d rows, %d of them not its own", p.Name, n, bad)
				}
			}
			q := fmt.Sprintf("SELECT COUNT(*) FROM readings WHERE ts >= %s AND ts < %s", w.Literal(k.Table, k.parts[2].From), w.Literal(k.Table, k.parts[2].To))
			rows, err := db.SQL().QueryContext(within(t), explain+q)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			columns, err := rows.Columns()
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				values := make([]any, len(columns))
				for i := range values {
					values[i] = new(*string)
				}
				if err := rows.Scan(values...); err != nil {
					t.Fatal(err)
				}
				got := *values[slices.Index(columns, "partitions")].(**string)
				// The servers also read the first partition, because the
				// partitioning expression could be NULL.
				if got == nil || strings.TrimPrefix(*got, "rowmill_floor,") != k.parts[2].Name {
					t.Errorf("%s reads %v", q, got)
				}
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if db.Info().Engine == "mysql" {
		d, err := rolling.ReadDefinition("CREATE TABLE x (ts TIMESTAMP(6) NOT NULL, PRIMARY KEY (ts))")
		if err != nil {
			t.Fatal(err)
		}
		g, _ := rolling.Parse("1d")
		err = db.Try(within(t), engine.CreateTable{Table: &engine.Table{Name: "x", Definition: d, Grid: g, By: "ts"}, Partitions: []rolling.Partition{{Name: "p", Period: rolling.Period{From: first, To: first + day}}}})
		var hint *engine.HintError
		if !errors.Is(err, engine.ErrUnsupported) || !errors.As(err, &hint) {
			t.Errorf("TIMESTAMP(6): %v", err)
		}
	}
}
