package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLoaderPrivileges checks that a user with the privileges that docs/operations.md
// lists for loading can load files, look for their rows, and load them again.
func TestLoaderPrivileges(t *testing.T) {
	docs := readFile(t, filepath.Join(here(t), "../../docs/operations.md"))
	grants := regexp.MustCompile(`(?m)^(GRANT .* ON )db\.(\w+) TO 'loader'@'host';$`).FindAllStringSubmatch(string(docs), -1)
	if len(grants) < 8 {
		t.Fatalf("docs/operations.md lists %d privileges of a loader", len(grants))
	}
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			l := newLoading(t, kind)
			exec := func(q string) {
				t.Helper()
				execSQL(t, l.db, q)
			}
			user := "rowmill_loader"
			to := user + "@localhost"
			if kind == "postgres" {
				to = user
				exec("CREATE ROLE " + user + " LOGIN")
			} else {
				exec("CREATE USER " + to)
			}
			t.Cleanup(func() {
				drop := []string{"DROP USER " + to}
				if kind == "postgres" {
					drop = []string{"DROP OWNED BY " + user + " CASCADE", "DROP ROLE " + user}
				}
				for _, q := range drop {
					if _, err := l.db.SQL().Exec(q); err != nil {
						t.Error(err)
					}
				}
			})
			for _, g := range grants {
				exec(g[1] + l.db.Dialect().Quote(g[2]) + " TO " + to)
			}
			text := readFile(t, l.file)
			owner := regexp.MustCompile(`://(\w+)@`).FindStringSubmatch(string(text))
			if owner == nil {
				t.Fatalf("no user in %s", text)
			}
			l.file = l.write("loader.toml", strings.Replace(string(text), "://"+owner[1]+"@", "://"+user+"@", 1))
			path := l.write("day.csv", loadRows(0, 50, false).text)
			target := fmt.Sprintf("--target=%s", strings.Replace(l.target, "://"+owner[1]+"@", "://"+user+"@", 1))
			for i, args := range [][]string{{path}, {path}, {path, "--again"}, {"--list"}} {
				if s := rowmill(t.Context(), append([]string{"load", l.file, target}, args...)...); s.code != exitDone {
					t.Errorf("%d: load %v: exit %d\n%s%s", i, args, s.code, s.stdout, s.stderr)
				}
			}
		})
	}
}
