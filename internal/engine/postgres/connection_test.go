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
	must(t, os.WriteFile(file, []byte("geheim\n"), 0o600))
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
	must(t, err)
	password := strings.TrimSpace(string(right))
	dir := t.TempDir()
	pgpass := filepath.Join(dir, "pgpass")
	must(t, os.WriteFile(pgpass, fmt.Appendf(nil, "127.0.0.1:%d:*:root:%s\n", s.Port, password), 0o600))
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
			must(t, err)
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

// TestHostile runs the suites on a server whose defaults all differ from the
// settings of our sessions. It runs a part of them, and nightly all.
func TestHostile(t *testing.T) {
	t.Parallel()
	hostile := testdb.Hostile(t, "postgres")
	enginetest.RunHostile(t, testdb.Nightly(), func(t testing.TB) engine.Keeper { return testdb.Open(t, hostile).(engine.Keeper) })
}

// sessionSettings is a query for the settings of a connection.
const sessionSettings = `SELECT concat_ws(' ', current_setting('client_encoding'), current_setting('standard_conforming_strings'), current_setting('DateStyle'),
	current_setting('TimeZone'), current_setting('extra_float_digits'), current_setting('bytea_output'), current_setting('IntervalStyle'),
	current_setting('quote_all_identifiers'), current_setting('transform_null_equals'), current_setting('transaction_isolation'),
	current_setting('transaction_read_only'), current_setting('transaction_deferrable'), current_setting('statement_timeout'),
	current_setting('idle_in_transaction_session_timeout'), current_setting('client_min_messages'), current_setting('search_path'))`

// TestHostileSessions checks that connections of all kinds have the same
// settings on such a server, including connections that are opened again.
func TestHostileSessions(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, testdb.Hostile(t, "postgres")).(*postgres.DB)
	const settings = "UTF8 on ISO, YMD UTC 1 hex postgres off off read committed off off 0 0 notice public"
	check := func(who, query, want string, ask func(query string) (string, error)) {
		t.Helper()
		if got, err := ask(query); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", who, got, err, want)
		}
	}
	pool := func(q string) (v string, err error) { return v, db.SQL().QueryRowContext(within(t), q).Scan(&v) }
	const wait = "SELECT current_setting('lock_timeout')"
	check("maintenance", sessionSettings, settings, pool)
	check("maintenance", wait, "2s", pool)
	catalog := func(q string) (string, error) { return value(t, db, q), nil }
	check("catalog", sessionSettings, settings, catalog)
	check("catalog", wait, "0", catalog)
	w, l := smallWriter(t, db, engine.Multi), loader(t, db)
	// These connections return no values: the statement makes the comparison.
	is := func(ask func(string) error) func(string) (string, error) {
		return func(q string) (string, error) {
			return "", ask("DO $$ BEGIN IF (" + q + ") THEN RETURN; END IF; RAISE 'no'; END $$")
		}
	}
	for range 2 { // the second time on a new connection
		check("writer", "("+sessionSettings+") = '"+settings+"'", "", is(func(q string) error { return postgres.Run(w, q) }))
		check("loader", "("+sessionSettings+") = '"+strings.Replace(settings, "notice", "error", 1)+"'", "", is(func(q string) error { return postgres.Run(l, q) }))
		check("loader", "("+wait+") = '10s'", "", is(func(q string) error { return postgres.Run(l, q) }))
		db.Kill(within(t), postgres.PID(w))
		db.Kill(within(t), postgres.PID(l))
		_ = l.Begin(within(t)) // it notices the lost connection
		for _, c := range []interface{ Reset(context.Context) error }{w, l} {
			must(t, c.Reset(within(t)))
		}
	}
}

// TestSearchPath checks that tables are found in the account's search path as
// of Open, and that the system catalog comes first.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	setup := open(t)
	run(t, setup, `CREATE SCHEMA metrics; CREATE SCHEMA "Odd name, quoted"`)
	for _, c := range []struct{ set, want string }{
		{`"$user", public`, "public"},
		{"metrics, public", "metrics, public"},
		{`"Odd name, quoted", pg_catalog, metrics, nowhere`, `"Odd name, quoted", metrics`},
		{"nowhere", "public"},
		{`''`, "public"},
	} {
		run(t, setup, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = "+strings.ReplaceAll(c.set, "'", "''")+"', current_database()); END $$")
		db, err := postgres.Open(within(t), setup.Target())
		must(t, err)
		run(t, setup, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = metrics', current_database()); END $$")
		var got string
		must(t, db.SQL().QueryRowContext(within(t), "SELECT current_setting('search_path')").Scan(&got))
		if got != c.want {
			t.Errorf("search_path = %s: sessions have %s, want %s", c.set, got, c.want)
		}
		must(t, db.Close())
	}
}
