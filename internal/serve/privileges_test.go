package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/testdb"
)

// poor opens the database of a fixture again, with an account that has the documented privileges
// alone.
func poor(t *testing.T, x *fixture) engine.Reader {
	t.Helper()
	user, root := "r"+x.name[:min(20, len(x.name))], connect(t, x.config(true))
	execute(t, root, "CREATE USER "+user+" IDENTIFIED BY 'secret'", "GRANT SELECT, CREATE TEMPORARY TABLES ON `"+x.name+"`.* TO "+user)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := engine.ParseTarget(x.db.Info().Target)
	if err != nil {
		t.Fatal(err)
	}
	at.User = user
	at.Query.Set("password-file", file)
	t.Cleanup(func() { execute(t, connect(t, x.config(true)), "DROP USER "+user) })
	return testdb.OpenAt(t, at).(engine.Reader)
}

// TestMergeWithFewPrivileges merges on the server with the documented privileges, whatever the
// session has set.
func TestMergeWithFewPrivileges(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		root := start(t, kind, nil)
		reader := poor(t, root)
		a := &counting{Runner: query.New(reader, query.Options{Parallel: 2, NoRerun: true, Always: true, Memory: 1})}
		x := startOn(t, root.db, func(o *Options) { o.Reader, o.Answer, o.MaxPieces, o.Parallel = reader, a, 4, 2 })
		t.Cleanup(func() {
			x.stop()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		through, direct := x.client(t), connect(t, x.config(true))
		execute(t, direct, "CREATE TABLE p (id INT PRIMARY KEY, v INT, d DATE) PARTITION BY HASH (id) PARTITIONS 4",
			"INSERT INTO p VALUES (1, 1, '2001-01-01'), (2, 2, '2010-01-01'), (3, 4, NULL), (4, 8, '2010-02-01')", "ANALYZE TABLE p")
		for i, setting := range []string{"sql_notes = 1", "sql_mode = ''", "sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'", "div_precision_increment = 9",
			"group_concat_max_len = 2000", "time_zone = '+05:30'", "lc_time_names = 'en_GB'"} {
			execute(t, through, "SET "+setting)
			execute(t, direct, "SET "+setting)
			clear(x.shapes[:])
			const q = "SELECT v % 3, SUM(id) / 7, COUNT(*), MAX(d), MIN(d) FROM p GROUP BY v % 3 ORDER BY 1"
			got, err := answer(through, q)
			want, wantErr := answer(direct, q)
			if got != want || err != nil || wantErr != nil {
				t.Errorf("%s: got %q, %v; want %q, %v", setting, got, err, want, wantErr)
			}
			testdb.Until(t, setting+": it is in pieces", func() bool { return x.shows(fmt.Sprintf("rowmill_serve_split_total %d\n", i+1)) })
		}
	})
}
