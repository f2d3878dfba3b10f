package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
)

// TestSizesOfManyPartitions: the size of a table with many partitions is derived
// from its files, and only a few partitions are analyzed, although the statistics
// of all are outdated: they show empty partitions.
func TestSizesOfManyPartitions(t *testing.T) { onEach(t, testSizesOfManyPartitions) }

func testSizesOfManyPartitions(t *testing.T, db *mysql.DB) {
	const parts, rows, bytes = 20, 800, 1000
	exec := func(q string) {
		t.Helper()
		if _, err := db.Pool().ExecContext(within(t), q); err != nil {
			t.Fatal(err)
		}
	}
	var defs []string
	for i := range parts {
		defs = append(defs, fmt.Sprintf("PARTITION p%d VALUES LESS THAN (%d)", i, (i+1)*rows))
	}
	exec("CREATE TABLE many (id INT NOT NULL PRIMARY KEY, filler VARCHAR(1000) NOT NULL, k INT NOT NULL, KEY k (k)) ENGINE=InnoDB STATS_AUTO_RECALC=0 STATS_PERSISTENT=1 " +
		"PARTITION BY RANGE (id) (" + strings.Join(defs, ", ") + ")")
	exec(fmt.Sprintf("INSERT INTO many WITH RECURSIVE n AS (SELECT 0 AS id UNION ALL SELECT id + 1 FROM n WHERE id < %d) SELECT id, REPEAT('x', %d), id FROM n", rows-1, bytes))
	for i := 1; i < parts; i++ {
		exec(fmt.Sprintf("INSERT INTO many SELECT id + %d, filler, k FROM many PARTITION (p0)", i*rows))
	}
	read := func() (n int) {
		t.Helper()
		q := "SELECT COUNT(*) FROM mysql.innodb_table_stats WHERE database_name = DATABASE() AND table_name LIKE 'many#%' AND n_rows > 0"
		if err := db.Pool().QueryRowContext(within(t), q).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := read(); n > 0 {
		t.Fatalf("%d partitions have statistics before", n)
	}
	table := &engine.Table{Name: "many"}
	var sizes engine.Sizes
	for range 2 {
		var err error
		if sizes, err = db.Catalog().Sizes(within(t), table); err != nil {
			t.Fatal(err)
		}
	}
	if n := read(); n > 4 {
		t.Errorf("%d of %d partitions were analyzed", n, parts)
	}
	// Each file has unused space, up to 8 MB for two indexes on MySQL.
	if both, want := sizes.Data+sizes.Index, int64(parts*rows*bytes); both < want || both > want+parts*10<<20 {
		t.Errorf("sizes %+v, want somewhat more than %d", sizes, want)
	}
	if sizes.Data < 5*sizes.Index || sizes.Index <= 0 {
		t.Errorf("sizes %+v: rows of %d bytes with an index of 4", sizes, bytes)
	}
}
