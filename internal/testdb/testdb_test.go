//go:build linux

package testdb_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

func TestServerIsShared(t *testing.T) {
	a := testdb.Server(t, "mariadb")
	if b := testdb.Server(t, "mariadb"); a != b {
		t.Errorf("two servers: %s and %s", a.Dir, b.Dir)
	}
	b := testdb.Server(t, "mariadb?memory=16MB&redo=8MB&durability=full")
	if a == b {
		t.Error("one server with different settings")
	}
	for name, want := range map[string]string{"innodb_buffer_pool_size": "16777216", "innodb_log_file_size": "8388608", "innodb_flush_log_at_trx_commit": "1"} {
		if got := b.Params[name]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := a.Params["innodb_flush_log_at_trx_commit"]; got != "0" {
		t.Errorf("innodb_flush_log_at_trx_commit is %s by default", got)
	}
}

func TestDatabase(t *testing.T) {
	testdb.Kinds(t, "mariadb") // skips if the kind is not allowed
	var socket, name string
	t.Run("a test's own", func(t *testing.T) {
		socket, name = testdb.Database(t, "mariadb")
		if _, other := testdb.Database(t, "mariadb"); other == name {
			t.Errorf("%s twice", name)
		}
		if !strings.Contains(name, "testdatabase_a_test_s_own") || len(name) > 64 {
			t.Errorf("name %s", name)
		}
		if out := query(t, socket, "SHOW DATABASES LIKE '"+name+"'"); out != name {
			t.Errorf("databases %q", out)
		}
	})
	if out := query(t, socket, "SHOW DATABASES LIKE '"+name+"'"); out != "" {
		t.Errorf("not dropped: %q", out)
	}
}

func query(t *testing.T, socket, statement string) string {
	t.Helper()
	client, err := exec.LookPath("mariadb")
	testdb.Require(t, "mariadb", err)
	out, err := exec.Command(client, "--no-defaults", "--user=root", "--socket="+socket, "-BNe", statement).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// A recorder is a test that records how it ended.
type recorder struct {
	testing.TB
	outcome string
}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.outcome = "skipped: " + fmt.Sprintf(format, args...)
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.outcome = "failed: " + fmt.Sprintf(format, args...)
	panic(r) // like that of a real test, it does not return
}

func TestRequire(t *testing.T) {
	missing := errors.New("it is missing")
	for _, test := range []struct {
		name, variable string
		err            error
		want           string
	}{
		{"there", "all", nil, ""},
		{"missing", "", missing, "skipped: without mariadb: it is missing"},
		{"missing, another required", "rocksdb,sqlite", missing, "skipped"},
		{"missing, a longer name required", "mariadb-extra", missing, "skipped"},
		{"missing and required", "rocksdb, mariadb", missing, "failed: mariadb is required"},
		{"missing and all required", "all", missing, "failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(testdb.RequireVariable, test.variable)
			r := &recorder{TB: t}
			func() {
				defer func() {
					if p := recover(); p != nil && p != any(r) {
						panic(p)
					}
				}()
				testdb.Require(r, "mariadb", test.err)
			}()
			if !strings.HasPrefix(r.outcome, test.want) || (test.want == "") != (r.outcome == "") {
				t.Errorf("outcome %q, want %q", r.outcome, test.want)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	for kind, want := range map[string]engine.Info{
		"null":            {Engine: "null"},
		"sqlite":          {Engine: "sqlite", Durability: "none"},
		"mariadb":         {Engine: "mariadb", Storage: "InnoDB", Durability: "none"},
		"mariadb-rocksdb": {Engine: "mariadb", Storage: "ROCKSDB", Durability: "none"},
		"mysql":           {Engine: "mysql", Storage: "InnoDB", Durability: "none"},
		"postgres":        {Engine: "postgres", Storage: "heap", Durability: "none"},
	} {
		t.Run(kind, func(t *testing.T) {
			table := &engine.Table{Name: "t", Columns: []engine.Column{{Name: "id", Type: engine.Int64}}, PrimaryKey: []string{"id"}}
			for range 2 { // each is empty and separate
				db := testdb.Open(t, kind)
				got := db.Info()
				if got.Engine != want.Engine || got.Storage != want.Storage || got.Durability != want.Durability {
					t.Errorf("opened %+v, want %+v", got, want)
				}
				if err := db.Apply(t.Context(), engine.CreateTable{Table: table}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if a, b := testdb.Target(t, "sqlite"), testdb.Target(t, "sqlite"); a.Path == b.Path {
		t.Errorf("%s twice", a.Path)
	}
}
