package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// errBroken is the error with which a test interrupts a change.
var errBroken = errors.New("broken off")

// TestTrapBrokenOff: every DDL statement commits. Wherever a change is interrupted,
// trying it again leads to the same result, also if rows were inserted meanwhile.
func TestTrapBrokenOff(t *testing.T) {
	t.Parallel()
	kinds := []string{"mariadb", "mysql"}
	if testdb.Nightly() {
		kinds = append(kinds, "mariadb-rocksdb")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testBrokenOff(t, testdb.Open(t, kind).(*mysql.DB), kind == "mysql")
		})
	}
}

// TestTrapBrokenOffWithoutPrivileges: without access to tablespaces, tables are
// distinguished by their rows.
func TestTrapBrokenOffWithoutPrivileges(t *testing.T) {
	onEach(t, func(t *testing.T, db *mysql.DB) { testBrokenOff(t, few(t, db, "ALL"), false) })
}

// keepers counts the accounts that few has created.
var keepers atomic.Int64

// few opens the database as an account with some privileges on it only.
func few(t *testing.T, db *mysql.DB, privileges string) *mysql.DB {
	t.Helper()
	// Accounts belong to the whole server, which other tests share.
	s, user := session(t, db), fmt.Sprintf("keeper_%d_%d", os.Getpid(), keepers.Add(1))
	exec(t, s, "CREATE USER "+user+"@localhost IDENTIFIED BY 'geheim'", "GRANT "+privileges+" ON "+db.Dialect().Quote(db.Target().Path)+".* TO "+user+"@localhost")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("geheim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := db.Target()
	target.User = user
	target.Query.Set("password-file", file)
	out, err := mysql.Open(within(t), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		if _, err := db.Pool().ExecContext(context.Background(), "DROP USER "+user+"@localhost"); err != nil {
			t.Error(err)
		}
	})
	return out
}

func testBrokenOff(t *testing.T, db *mysql.DB, instantly bool) {
	next := func(k *kept) rolling.Partition {
		return rolling.Partition{Name: "next", Period: rolling.Period{From: k.parts[3].To, To: k.parts[3].To + day}}
	}
	type change struct {
		name string
		// make prepares a change and returns the expected partitions and rows.
		make func(k *kept) (step engine.Step, parts []rolling.Partition, rows map[string]string)
		// late is the partition into which a row is inserted after the
		// interruption; -1 is none.
		late int
	}
	whole := "40 rows, 6220"
	changes := []change{
		{"detach the first", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			return engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"}, k.parts[1:],
				map[string]string{"gone": "10 rows, 55", "readings": "30 rows, 6165"}
		}, -1},
		{"detach from the middle", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			parts := slices.Delete(slices.Clone(k.parts), 1, 2)
			parts[1].From = k.parts[1].From
			return engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[1], Into: "gone"}, parts,
				map[string]string{"gone": "10 rows, 1055", "readings": "30 rows, 5165"}
		}, -1},
		{"attach before the first", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			k.try(engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "back"})
			return engine.Attach{Table: k.Table, Have: k.parts[1:], Part: k.parts[0], From: "back"}, k.parts,
				map[string]string{k.part(0): "10 rows, 55", "readings": whole}
		}, -1},
		{"attach after the last", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			k.fill("back")
			k.run("INSERT INTO back (id, ts, v) VALUES (7, " + k.db.Words().Literal(k.Table, next(k).From) + ", 7)")
			return engine.Attach{Table: k.Table, Have: k.parts, Part: next(k), From: "back"}, append(slices.Clone(k.parts), next(k)),
				map[string]string{"readings": "41 rows, 6227"}
		}, -1},
		{"replace one", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			k.fill("with_it", 1)
			k.run("INSERT INTO with_it (id, ts, v) VALUES (9, " + k.db.Words().Literal(k.Table, k.parts[1].From) + ", 9)")
			return k.replace(1, 2), k.parts, map[string]string{"readings": "41 rows, 6229", "out_1": "10 rows, 1055"}
		}, -1},
		{"replace one by none", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			k.fill("with_it")
			return k.replace(1, 2), k.parts, map[string]string{"readings": "30 rows, 5165", "out_1": "10 rows, 1055"}
		}, -1},
		{"merge three", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			k.fill("with_it", 0, 1, 2)
			r := k.replace(0, 3)
			return r, []rolling.Partition{r.New, k.parts[3]}, map[string]string{"readings": whole, "out_0": "10 rows, 55", "out_1": "10 rows, 1055", "out_2": "10 rows, 2055"}
		}, -1},
		{"merge, with late rows", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			k.fill("with_it", 0, 1)
			r := k.replace(0, 2)
			return r, []rolling.Partition{r.New, k.parts[2], k.parts[3]}, nil
		}, 0},
		{"detach the first, with late rows", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			return engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"}, k.parts[1:], nil
		}, 0},
		{"detach from the middle, with late rows", func(k *kept) (engine.Step, []rolling.Partition, map[string]string) {
			parts := slices.Delete(slices.Clone(k.parts), 1, 2)
			parts[1].From = k.parts[1].From
			return engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[1], Into: "gone"}, parts, nil
		}, 1},
	}
	for _, added := range []bool{false, true} {
		if added && !instantly {
			continue
		}
		for _, c := range changes {
			t.Run(fmt.Sprintf("%s, column added %v", c.name, added), func(t *testing.T) {
				for n := 0; ; n++ {
					k := keep(t, db, "DATETIME", 0, 4)
					for i := range k.parts {
						k.insert(k.parts[i].From, i*100+1, 10)
					}
					if added {
						k.try(engine.AddColumn{Table: k.Table, Have: k.parts, Name: "w", Definition: "w INT NOT NULL DEFAULT 5"})
					}
					step, parts, rows := c.make(k)
					seen, at := 0, ""
					db.Interrupt(func(q string) error {
						if seen++; seen > n {
							at = q
							return errBroken
						}
						return nil
					})
					err := db.Try(within(t), step)
					db.Interrupt(nil)
					if err != nil && !errors.Is(err, errBroken) {
						t.Fatalf("after %d statements: %v", n, err)
					}
					broken := err != nil
					if broken && c.late >= 0 {
						lit := db.Words().Literal(k.Table, k.parts[c.late].From+3600e6)
						if _, err := db.SQL().ExecContext(within(t), "INSERT INTO readings (id, ts, v) VALUES (999, "+lit+", 1)"); err != nil {
							t.Fatal(err)
						}
					}
					for range 2 {
						if err := db.Try(within(t), step); err != nil {
							t.Fatalf("after %d statements, before %q, again: %v", n, at, err)
						}
					}
					if got := k.have(); got != fmt.Sprint(parts) {
						t.Fatalf("after %d statements, before %q: partitions %s, want %v", n, at, got, parts)
					}
					for from, want := range rows {
						if got := k.ids(from); got != want {
							t.Fatalf("after %d statements, before %q: %s has %s, want %s", n, at, from, got, want)
						}
					}
					if c.late >= 0 && broken {
						k.wantLate(at)
					}
					k.run("DROP TABLE IF EXISTS readings, gone, back, with_it, out_0, out_1, out_2")
					if !broken {
						if n < 1 {
							t.Fatalf("it was never broken off")
						}
						break
					}
				}
			})
		}
	}
}

// wantLate checks that the late row is in exactly one place: in the table, or in a
// table made from its partitions.
func (k *kept) wantLate(at string) {
	k.t.Helper()
	found := 0
	for _, name := range []string{"readings", "gone", "out_0", "out_1"} {
		var n int
		err := k.db.SQL().QueryRowContext(within(k.t), "SELECT COUNT(*) FROM "+name+" WHERE id = 999").Scan(&n)
		if err != nil && !errors.Is(k.db.Classify(err), engine.ErrNoTable) {
			k.t.Fatal(err)
		}
		found += n
	}
	if found != 1 {
		k.t.Fatalf("broken off before %q: the late row is there %d times", at, found)
	}
}

// TestFloor: rows older than every period are counted, and not removed with the
// oldest period.
func TestFloor(t *testing.T) { onEach(t, testFloor) }

func testFloor(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 3)
	k.insert(first, 1, 10)
	k.insert(first-day+5e6, 100, 3)
	k.insert(first-9*day, 200, 2)
	outside := func(want int64) {
		t.Helper()
		if n, err := db.Outside(within(t), k.Table); n != want || err != nil {
			t.Errorf("%d rows are before the first period, want %d; %v", n, want, err)
		}
	}
	outside(5)
	k.want(k.part(0), "10 rows, 55")
	if got := k.have(); got != fmt.Sprint(k.parts) {
		t.Errorf("partitions %s", got)
	}
	k.try(engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"})
	k.want("gone", "10 rows, 55")
	outside(5)
	k.insert(first+5e6, 300, 1)
	outside(6)
	// An attached older period gets its own rows and leaves the others in the floor.
	old := k.Grid.Named(rolling.Period{From: first - day, To: first})
	k.fill("back")
	k.run("INSERT INTO back VALUES (500, " + db.Words().Literal(k.Table, old.From) + ", 1)")
	k.try(engine.Attach{Table: k.Table, Have: k.parts[1:], Part: old, From: "back"})
	k.want(db.Words().From(k.Table, old), "4 rows, 803")
	outside(2)
	filler := k.parts[0] // the range between the old period and the first one
	if got, want := k.have(), fmt.Sprint(append([]rolling.Partition{old, filler}, k.parts[1:]...)); got != want {
		t.Errorf("partitions %s, want %s", got, want)
	}
	k.want(db.Words().From(k.Table, filler), "1 rows, 300")
	k.want("readings", "7 rows, 1504")
	// All periods can be removed.
	for _, p := range append([]rolling.Partition{old, filler}, k.parts[1:]...) {
		k.try(engine.DropTables{Names: []string{"gone"}})
		k.try(engine.Detach{Table: k.Table, Part: p, Into: "gone"})
	}
	if got := k.have(); got != "[]" {
		t.Errorf("partitions %s", got)
	}
	k.try(engine.CreatePartitions{Table: k.Table, New: k.parts[2:]})
	if got := k.have(); got != fmt.Sprint(k.parts[2:]) {
		t.Errorf("partitions %s", got)
	}
}

// TestTrapBrokenOffTwice: a merge that is interrupted, gets a late row, and is
// interrupted again at any statement ends with all rows, also if tables are
// distinguished by their rows.
func TestTrapBrokenOffTwice(t *testing.T) {
	t.Parallel()
	db := few(t, testdb.Open(t, "mysql").(*mysql.DB), "ALL")
	for m, broken := 0, true; broken; m++ {
		k := keep(t, db, "DATETIME", 0, 4)
		for i := range k.parts {
			k.insert(k.parts[i].From, i*100+1, 10)
		}
		k.fill("with_it", 0, 1)
		step := k.replace(0, 2)
		db.Interrupt(func(q string) error { // the rows of the first partition are exchanged, and the partition still exists
			if strings.Contains(q, "DROP PARTITION") {
				return errBroken
			}
			return nil
		})
		if err := db.Try(within(t), step); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		k.run("INSERT INTO readings (id, ts, v) VALUES (999, " + db.Words().Literal(k.Table, k.parts[0].From+3600e6) + ", 1)")
		seen, at := 0, ""
		db.Interrupt(func(q string) error {
			if seen++; seen > m {
				at = q
				return errBroken
			}
			return nil
		})
		err := db.Try(within(t), step)
		db.Interrupt(nil)
		if broken = errors.Is(err, errBroken); !broken && err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := db.Try(within(t), step); err != nil {
				t.Errorf("broken off before %q: %v", at, err)
				break
			}
		}
		if rows := k.ids("readings"); rows != "41 rows, 7219" || k.have() != fmt.Sprint([]any{step.New, k.parts[2], k.parts[3]}) {
			t.Errorf("broken off before %q: %s, partitions %s", at, rows, k.have())
		}
		k.run("DROP TABLE IF EXISTS readings, with_it, out_0, out_1")
	}
}
