package mysql_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/rolling"
)

// TestTimestampBounds: a position as a bound of a TIMESTAMP column selects the same
// rows whether the server or Go converts it, in every time zone. This includes
// positions that the column can't hold: the beginning of the axis, which means "not
// yet" in state tables, is a lower bound of every row. NULL stays NULL.
func TestTimestampBounds(t *testing.T) { onEach(t, testTimestampBounds) }

func testTimestampBounds(t *testing.T, db *mysql.DB) {
	hour := time.Hour.Microseconds()
	grid, err := rolling.EveryDuration(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"TIMESTAMP", "TIMESTAMP(6)"} {
		t.Run(typ, func(t *testing.T) {
			def, err := rolling.ReadDefinition("CREATE TABLE x (ts " + typ + " NOT NULL, PRIMARY KEY (ts))")
			if err != nil {
				t.Fatal(err)
			}
			table := &engine.Table{Name: "x", Definition: def, By: "ts", Grid: grid}
			conn, err := db.SQL().Conn(within(t))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			exec := func(query string, args ...any) {
				t.Helper()
				if _, err := conn.ExecContext(within(t), query, args...); err != nil {
					t.Fatalf("%s: %v", query, err)
				}
			}
			exec("CREATE TABLE x (ts " + typ + " NOT NULL, PRIMARY KEY (ts))")
			exec("CREATE TABLE bounds (id INT PRIMARY KEY, pos BIGINT)")
			defer exec("DROP TABLE x, bounds")
			rows := []int64{1e6, hour - 1e6, hour, 1774666800e6, 1774670400e6, 2147483646e6}
			for _, pos := range rows {
				exec("INSERT INTO x VALUES (FROM_UNIXTIME(?))", pos/1e6)
			}
			w := db.Words()
			made := w.FromPosition(table, "pos")
			for _, zone := range []string{"+00:00", "+05:30", "-07:00"} {
				exec("SET time_zone = ?", zone)
				for _, pos := range []int64{rolling.MinTime, -hour, -1, 0, 1, 1e6, hour, 1774666800e6, 1774670400e6 - 1e6, 2147483646e6, rolling.MaxTime - 1} {
					exec("DELETE FROM bounds")
					exec("INSERT INTO bounds VALUES (1, ?)", pos)
					var from, below int
					q := fmt.Sprintf("SELECT (SELECT COUNT(*) FROM x WHERE ts >= (SELECT %s FROM bounds)), (SELECT COUNT(*) FROM x WHERE ts < (SELECT %s FROM bounds))", made, made)
					if err := conn.QueryRowContext(within(t), q).Scan(&from, &below); err != nil {
						t.Fatalf("%s: %v", q, err)
					}
					i := slices.IndexFunc(rows, func(row int64) bool { return row >= pos })
					if i < 0 {
						i = len(rows)
					}
					if from != len(rows)-i || below != i {
						t.Errorf("%s, position %d: %d rows from there on and %d below; want %d and %d", zone, pos, from, below, len(rows)-i, i)
					}
				}
				var none sql.NullString
				if err := conn.QueryRowContext(within(t), "SELECT "+w.FromPosition(table, "NULL")).Scan(&none); err != nil || none.Valid {
					t.Errorf("%s: NULL is the time %v, %v", zone, none, err)
				}
			}
			exec("SET time_zone = '+00:00'")
		})
	}
}
