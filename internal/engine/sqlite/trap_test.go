package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestTrapCompoundSelectOf500Terms checks the limit on the terms of the view.
func TestTrapCompoundSelectOf500Terms(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, "CREATE TABLE r (id INTEGER NOT NULL, PRIMARY KEY (id)) WITHOUT ROWID", "id", "10 rows", 0, 501)
	if n := db.Capabilities().MaxPeriods; n != 500 {
		t.Fatalf("MaxPeriods is %d", n)
	}
	if err := db.Try(t.Context(), engine.CreateTable{Table: table, Partitions: parts}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("501 periods: %v", err)
	}
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts[:499]})
	mustTry(t, db, engine.CreatePartitions{Table: table, Have: parts[:499], New: parts[499:500]})
	for _, s := range []engine.Step{
		engine.CreatePartitions{Table: table, Have: parts[:500], New: parts[500:]},
		engine.Attach{Table: table, Have: parts[:500], Part: parts[500], From: "x"},
	} {
		if err := db.Try(t.Context(), s); !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("%T of the 501st period: %v", s, err)
		}
	}
	mustExec(t, db, "INSERT INTO r VALUES (0), (4995)")
	wantLines(t, db, "SELECT count(*), max(id) FROM r", "2|4995")
	mustExec(t, db, "CREATE TABLE r_p0000000000000005000 (id INTEGER)")
	_, err := db.SQL().Exec("CREATE VIEW too_many AS " + strings.TrimSuffix(strings.Repeat("SELECT id FROM r_p0000000000000005000 UNION ALL ", 501), "UNION ALL "))
	if err == nil || !strings.Contains(err.Error(), "too many terms") {
		t.Error("this SQLite has another limit")
	}
}

// TestTrapDroppedPeriodsFreeTheirPages checks that the pages of dropped periods are
// reused, so that the file doesn't keep growing.
func TestTrapDroppedPeriodsFreeTheirPages(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 60)
	const keep = 4
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts[:1]})
	fileSize := func() int64 {
		t.Helper()
		if _, err := db.Settle(t.Context(), engine.Settle{}); err != nil {
			t.Fatal(err)
		}
		return int64(size(db.path))
	}
	var full int64
	for i := range parts {
		if i > 0 {
			mustTry(t, db, engine.CreatePartitions{Table: table, New: parts[i : i+1]})
		}
		mustExec(t, db, fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO readings (sensor, ts) SELECT i, %s FROM n",
			db.Words().Literal(table, parts[i].From)))
		if i >= keep {
			// Detach the period, then drop its table, as retention does.
			mustTry(t, db, engine.Detach{Table: table, Part: parts[i-keep], Into: "gone"}, engine.DropTables{Names: []string{"gone"}})
		}
		if i == 2*keep {
			full = fileSize()
		}
	}
	if got := fileSize(); got > full+full/10 {
		t.Errorf("after %d periods of which %d are kept the file has %d bytes, after %d it had %d", len(parts), keep, got, 2*keep, full)
	}
	wantLines(t, db, "SELECT count(*) FROM readings", fmt.Sprint(keep*3000))
	wantLines(t, db, "SELECT count(*) FROM rowmill_periods", fmt.Sprint(keep))
	wantLines(t, db, "PRAGMA integrity_check", "ok")
}

// TestTrapInsertOrIgnoreOutsidePeriods checks that a row outside every period is an
// error that undoes its statement, even with INSERT OR IGNORE.
func TestTrapInsertOrIgnoreOutsidePeriods(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 20)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	mustTry(t, db, engine.DropPartition{Table: table, Drop: parts[5]}) // a gap
	for _, verb := range []string{"INSERT", "INSERT OR IGNORE", "INSERT OR REPLACE", "REPLACE", "INSERT OR FAIL"} {
		for _, ts := range []string{"2026-11-19 23:59:59.999999", "2026-12-10 00:00:00", "2026-11-25 12:00:00", "9999-12-31 23:59:59"} {
			_, err := db.SQL().Exec(verb+" INTO readings (sensor, ts) VALUES (1, '2026-11-20 00:00:00'), (2, ?)", ts)
			if !errors.Is(db.Classify(err), engine.ErrNoPartition) {
				t.Errorf("%s of %s: %v", verb, ts, err)
			}
			wantLines(t, db, "SELECT count(*) FROM readings", "0")
		}
	}
	mustExec(t, db, "INSERT OR IGNORE INTO readings (sensor, ts) VALUES (1, '2026-11-20 00:00:00'), (1, '2026-11-20 00:00:00')")
	wantLines(t, db, "SELECT count(*) FROM readings", "1")
}

// TestTrapTimesInOtherForms checks that times in other formats are refused. Times
// are compared as text, so these would be stored in the wrong period.
func TestTrapTimesInOtherForms(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 3)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	for _, ts := range []any{"2026-11-21", "2026-11-21T10:00:00", "2026-11-21 10:00", "2026-11-21 10:00:00Z", "2026-11-21 10:00:00+01:00", "2026-11-21 10:00:00.", "2026-11-21 10:00:00.1234567",
		"2026-11-31 10:00:00", "2026-11-21 24:00:00", "2026-11-21 10:00:60", "2026-11-21 10:00:00.5Z", " 2026-11-21 10:00:00", "", "now", 1795219200, 2461000.5, nil, []byte("2026-11-21 10:00:00")} {
		if _, err := db.SQL().Exec("INSERT INTO readings (sensor, ts) VALUES (1, ?)", ts); err == nil || !strings.Contains(err.Error(), "must be YYYY-MM-DD") {
			t.Errorf("%v was taken: %v", ts, err)
		}
	}
	wantLines(t, db, "SELECT count(*) FROM readings", "0")
	for _, ts := range []string{"2026-11-21 00:00:00", "2026-11-21 10:00:00.1", "2026-11-21 10:00:00.123456", "2026-11-21 23:59:59.999999"} {
		mustExec(t, db, "INSERT INTO readings (sensor, ts) VALUES (1, ?)", ts)
	}
	wantLines(t, db, "SELECT count(*) FROM "+db.Words().From(table, parts[1]), "4")
}

// TestTrapReadTransactionThatWrites checks that write transactions of SQL lock
// first. Otherwise a write after a read fails if another has written in between.
func TestTrapReadTransactionThatWrites(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	mustExec(t, db, "CREATE TABLE t (n INTEGER)")
	mustExec(t, db, "INSERT INTO t VALUES (0)")
	const each, writers = 25, 4
	failed := make(chan error, writers)
	for range writers {
		go func() {
			failed <- func() error {
				for range each {
					tx, err := db.SQL().BeginTx(context.Background(), nil)
					if err != nil {
						return err
					}
					var n int
					if err = tx.QueryRow("SELECT n FROM t").Scan(&n); err == nil {
						_, err = tx.Exec("UPDATE t SET n = ?", n+1)
					}
					if err != nil {
						return errors.Join(err, tx.Rollback())
					}
					if err := tx.Commit(); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range writers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	wantLines(t, db, "SELECT n FROM t", fmt.Sprint(each*writers))
	// A plain BEGIN doesn't take the lock:
	reader, err := db.openReader(t.Context())
	must(t, err)
	defer reader.Close()
	for _, q := range []string{"BEGIN", "SELECT n FROM t"} {
		if _, err := reader.Exec(q, nil); err != nil {
			t.Fatal(err)
		}
	}
	mustExec(t, db, "UPDATE t SET n = 0")
	if _, err := reader.Exec("UPDATE t SET n = 1", nil); !errors.Is(classify(err), engine.ErrLockTimeout) {
		t.Errorf("the trap isn't there: %v", err)
	}
}
