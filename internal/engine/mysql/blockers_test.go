package mysql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestBlockersOfOtherDatabases: if the server doesn't report who holds a table's
// lock, statements in other databases are blockers only if they name this database.
func TestBlockersOfOtherDatabases(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := testdb.Open(t, kind+"?set=performance_schema=OFF").(*mysql.DB)
			k := keep(t, db, "DATETIME", 0, 2)
			var name string
			if err := db.SQL().QueryRowContext(within(t), "SELECT DATABASE()").Scan(&name); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			t.Cleanup(func() { // before the database is closed
				cancel()
				for range 2 {
					<-ended
				}
			})
			statements := []string{
				"SELECT SLEEP(300) /* of a table readings elsewhere */",
				fmt.Sprintf("SELECT SLEEP(300) /* of `%s`.readings */", name),
			}
			for _, q := range statements {
				conn, err := db.SQL().Conn(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.ExecContext(ctx, "USE information_schema"); err != nil {
					t.Fatal(err)
				}
				go func() {
					_, err := conn.ExecContext(ctx, q)
					_ = conn.Close()
					ended <- err
				}()
			}
			for running := 0; running < len(statements); time.Sleep(time.Millisecond) {
				if err := within(t).Err(); err != nil {
					t.Fatal(err)
				}
				sessions, err := db.Sessions(within(t))
				if err != nil {
					t.Fatal(err)
				}
				running = 0
				for _, s := range sessions {
					for _, q := range statements {
						if s.Statement == q {
							running++
						}
					}
				}
			}
			blockers, err := db.Blockers(within(t), k.Table)
			if err != nil || len(blockers) != 1 || !strings.Contains(blockers[0].Statement, name) {
				t.Errorf("blockers %+v, %v, want the one that names %s", blockers, err, name)
			}
		})
	}
}
