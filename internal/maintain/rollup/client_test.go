package rollup_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Any client of SQLite can read the live views, including versions older than the
// built-in one.
func TestViewByOtherClients(t *testing.T) {
	t.Parallel()
	clients := map[string]func(file, query string) *exec.Cmd{
		"sqlite3": func(file, query string) *exec.Cmd {
			return exec.Command("sqlite3", "-batch", "-noheader", "-separator", "|", file, query)
		},
		"python3": func(file, query string) *exec.Cmd {
			return exec.Command("python3", "-c", "import sqlite3, sys\n"+
				"for r in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print('|'.join('' if x is None else str(x) for x in r))", file, query)
		},
	}
	f := open(t, "sqlite", false, levels(t))
	f.load(row{1, "a", start + 5*minute, 1, 1e9 + 1, 3, "x"}, row{1, "a", start + 6*minute, 1, 1e9 + 3, 4, "y"}, row{2, "b", start + 70*minute, 1, nil, nil, nil})
	f.refresh(start + 30*minute)
	f.load(row{1, "a", start + 7*minute, 1, 1e9 + 5, 9, "z"}, row{1, "a", start + 3*hour, 1, 2.0, 4, "y"}, row{1, "a", start + 3*hour, 2, 8.0, 4, "y"})
	var file string
	must(t, f.db.SQL().QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file))
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil {
				t.Skip(err)
			}
			if out, err := client(file, "SELECT sqlite_version()").Output(); err != nil {
				t.Skipf("without SQLite: %v", err)
			} else {
				t.Logf("SQLite %s", out)
			}
			for _, view := range []string{"r10m_live", "r1h_live", "r1d_live"} {
				if out, err := client(file, "SELECT * FROM "+view).CombinedOutput(); err != nil || len(out) == 0 {
					t.Errorf("%s: %v %s", view, err, out)
				}
			}
			out, err := client(file, "SELECT sensor, c, round(sd, 6), round(vr, 6) FROM r10m_live ORDER BY bucket, sensor").CombinedOutput()
			if got, want := strings.TrimSpace(string(out)), "1|3|1.632993|6.888889\n2|1||\n1|2|3.0|0.0"; err != nil || got != want {
				t.Errorf("%v: %s, want %s", err, got, want)
			}
		})
	}
}
