package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/internal/testdb"
)

func openTarget(ctx context.Context, t engine.Target) (engine.DB, error) {
	return postgres.Open(ctx, t)
}

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("PGPASSWORD", "geheim")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("geheim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for target, where := range map[string]string{
		"postgres://joe@/db?host=/nowhere":                      "/nowhere/.s.PGSQL.5432 as user \"joe\"",
		"postgresql://joe@127.0.0.1:1/db?password-file=" + file: "127.0.0.1:1 as user \"joe\"",
		"postgres://joe@nowhere.invalid/db":                     "nowhere.invalid:5432 as user \"joe\"",
	} {
		enginetest.WantNotOpened(t, openTarget, target, where, engine.ErrUnreachable, "geheim")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	socket := "?host=" + testdb.Target(t, "postgres").Query.Get("host")
	for target, want := range map[string]string{
		"postgres://root@/" + socket:                                        "name of one database",
		"postgres://root@/a/b" + socket:                                     "name of one database",
		"postgres://root@h/db?colour=red":                                   `no option "colour"`,
		"postgres://root@h/db?port=a":                                       "invalid port",
		"postgres://root@h/db?sslmode=maybe":                                "sslmode=maybe; want prefer",
		"postgres://root@/nowhere" + socket:                                 `"nowhere" does not exist`,
		"postgres://joe@/postgres" + socket:                                 `role "joe" does not exist`,
		"postgres://root@/postgres" + socket + "&password-file=/nowhere/pw": "password file",
	} {
		enginetest.WantNotOpened(t, openTarget, target, want, nil, "")
	}
}

// TestPassword connects to a port that requires a password, with each source of
// passwords in order of precedence.
func TestPassword(t *testing.T) {
	s := testdb.Server(t, "postgres?port=auto")
	right, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		t.Fatal(err)
	}
	password := strings.TrimSpace(string(right))
	dir := t.TempDir()
	pgpass := filepath.Join(dir, "pgpass")
	if err := os.WriteFile(pgpass, fmt.Appendf(nil, "127.0.0.1:%d:*:root:%s\n", s.Port, password), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := fmt.Sprintf("postgres://root@127.0.0.1:%d/rowmill", s.Port)
	for name, c := range map[string]struct {
		target, env, passfile string
		ok                    bool
	}{
		"password-file":        {target: s.TCPTarget(), ok: true},
		"file before variable": {target: s.TCPTarget(), env: "wrong", ok: true},
		"variable":             {target: plain, env: password, ok: true},
		"pgpass":               {target: plain, passfile: pgpass, ok: true},
		"none":                 {target: plain},
		"wrong":                {target: plain, env: "wrong", passfile: pgpass},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PGPASSWORD", c.env)
			t.Setenv("PGPASSFILE", filepath.Join(dir, "none"))
			if c.passfile != "" {
				t.Setenv("PGPASSFILE", c.passfile)
			}
			target, err := engine.ParseTarget(c.target)
			if err != nil {
				t.Fatal(err)
			}
			db, err := postgres.Open(within(t), target)
			if err != nil {
				if c.ok || strings.Contains(err.Error(), password) {
					t.Errorf("got %v", err)
				}
				var hint *engine.HintError
				if !c.ok && (!errors.As(err, &hint) || !strings.Contains(hint.Hint, "PGPASSWORD")) {
					t.Errorf("no hint with %v", err)
				}
				return
			}
			defer db.Close()
			if !c.ok {
				t.Error("it was opened")
			}
			if info := db.Info(); strings.Contains(fmt.Sprint(info), password) || info.PID != s.PID || info.DataDir != s.DataDir {
				t.Errorf("info %+v", info)
			}
		})
	}
	if _, err := engine.ParseTarget("postgres://root:" + password + "@h/db"); err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("a password in the target: %v", err)
	}
}

func TestInfo(t *testing.T) {
	// The sandbox must be found regardless of the environment.
	t.Setenv("PGPORT", "1")
	t.Setenv("PGHOST", "192.0.2.1")
	for kind, durability := range map[string]string{"postgres": "none", "postgres?durability=relaxed": "relaxed", "postgres?durability=full": "full"} {
		if got := testdb.Open(t, kind).Info(); got.Durability != durability || got.Engine != "postgres" || got.Storage != "heap" ||
			got.CacheBytes != 64<<20 || got.Version != testdb.Server(t, kind).Version {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}
