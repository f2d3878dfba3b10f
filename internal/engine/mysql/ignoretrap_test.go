package mysql_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapInsertIgnoreOutsidePartitions: INSERT IGNORE, and LOAD DATA LOCAL with
// IGNORE, skip a row outside every partition, with a warning at most. A writer that
// skips duplicates refuses it with every method, and rolls back the whole batch.
func TestTrapInsertIgnoreOutsidePartitions(t *testing.T) {
	onEach(t, testTrapInsertIgnoreOutsidePartitions)
}

func testTrapInsertIgnoreOutsidePartitions(t *testing.T, db *mysql.DB) {
	grid, err := rolling.EveryDuration(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	table := &engine.Table{Name: "ignores", PrimaryKey: []string{"id", "ts"}, Grid: grid, By: "ts", Ignore: true,
		Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "ts", Type: engine.Time}}}
	first, err := grid.At(rolling.Position(time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Apply(within(t), engine.CreateTable{Table: table, Partitions: []rolling.Partition{grid.Named(first)}}); err != nil {
		t.Fatal(err)
	}
	defer db.Apply(within(t), engine.DropTable{Table: table})
	count := func() (n int) {
		t.Helper()
		if err := db.SQL().QueryRowContext(within(t), "SELECT COUNT(*) FROM ignores").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The server's behavior.
	if _, err := db.SQL().ExecContext(within(t), "INSERT IGNORE INTO ignores VALUES (1, '2030-01-01 00:00:00')"); err != nil || count() != 0 {
		t.Fatalf("the server has mended its ways: %v, %d rows", err, count())
	}
	for _, m := range db.Capabilities().Methods {
		w, err := db.Writer(within(t), table, m)
		if err != nil {
			t.Fatal(err)
		}
		b := engine.NewBatch(table.Columns)
		for i, at := range []int64{first.From, first.To} {
			b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i))
			b.Columns[1].Ints = append(b.Columns[1].Ints, at)
			b.EndRow()
		}
		if _, err := w.Write(within(t), b); !errors.Is(err, engine.ErrNoPartition) {
			t.Errorf("%s: %v", m, err)
		}
		if n := count(); n != 0 {
			t.Errorf("%s: %d rows of a batch that was refused", m, n)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
