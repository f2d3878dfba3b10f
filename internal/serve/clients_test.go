package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/testdb"
)

// startCounting starts a front that splits all queries that can be split, however small.
func startCounting(t testing.TB, kind string, change func(*Options)) (*fixture, *counting) {
	t.Helper()
	a := &counting{}
	x := start(t, kind, func(o *Options) {
		a.options(o)
		if change != nil {
			change(o)
		}
	})
	t.Cleanup(func() {
		x.stop()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return x, a
}

// options sets a runner that splits all queries.
func (a *counting) options(o *Options) {
	a.Runner = query.New(o.Reader, query.Options{Parallel: 2, NoRerun: true, Always: true})
	o.Answer, o.MaxPieces, o.Parallel = a, 4, 2
}

// program runs a client and returns what it prints.
func program(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, &stderr)
	}
	return string(out)
}

// installed skips a test whose program isn't there.
func installed(t *testing.T, what, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	testdb.Require(t, what, err)
	return path
}

func TestCommandLineClients(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		x, a := startCounting(t, kind, nil)
		table(t, x)
		_, port, _ := net.SplitHostPort(x.address)
		options := []string{"--no-defaults", "-h127.0.0.1", "-P" + port, "-uroot", "--skip-ssl"}
		for _, name := range []string{"mariadb", "mysql"} {
			got := program(t, "SELECT COUNT(*), SUM(id) FROM t;\nSHOW WARNINGS;\nSELECT vc FROM t WHERE id = 1;\nSTATUS\nUSE information_schema\nSELECT DATABASE();\n",
				installed(t, "mariadb", name), append(options, "--default-character-set=utf8mb4", x.name)...)
			for _, want := range []string{"5\t15\n", "Note\t1105\trowmill: answered in", "é\n", "Connection id:", "DATABASE()\ninformation_schema\n"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: %q is missing in\n%s", name, want, got)
				}
			}
		}
		if a.ran.Load() == 0 {
			t.Error("no query was split")
		}
		// What mysqldump writes through the front, it writes directly, but for the host and the
		// date.
		dump := installed(t, "mariadb", "mysqldump")
		lines := func(s string) string {
			var out []string
			for line := range strings.Lines(s) {
				if !strings.HasPrefix(line, "-- ") {
					out = append(out, line)
				}
			}
			return strings.Join(out, "")
		}
		through := program(t, "", dump, append(options, "--single-transaction", "--default-character-set=utf8mb4", x.name)...)
		direct := program(t, "", dump, "--no-defaults", "-uroot", "-S"+x.wire.Address, "--single-transaction", "--default-character-set=utf8mb4", x.name)
		if lines(through) != lines(direct) || !strings.Contains(through, "INSERT INTO") {
			t.Errorf("mysqldump writes\n%s\nand directly\n%s", through, direct)
		}
		program(t, through, installed(t, "mariadb", "mariadb"), append(options, "--default-character-set=utf8mb4", x.name)...)
		if got, err := answer(x.client(t), "SELECT COUNT(*) FROM t"); err != nil || !strings.HasSuffix(got, "5|") {
			t.Errorf("after loading the dump: %s, %v", got, err)
		}
		file := filepath.Join(t.TempDir(), "rows")
		if err := os.WriteFile(file, []byte("100\n101\n102\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		db := x.client(t)
		if _, err := db.Exec("SET GLOBAL local_infile = 1"); err != nil {
			t.Fatal(err)
		}
		program(t, "LOAD DATA LOCAL INFILE '"+file+"' INTO TABLE t (id); SELECT COUNT(*) FROM t;", installed(t, "mariadb", "mariadb"), append(options, "--local-infile=1", x.name)...)
		if got, err := answer(db, "SELECT COUNT(*) FROM t"); err != nil || !strings.HasSuffix(got, "8|") {
			t.Errorf("after LOAD DATA LOCAL: %s, %v", got, err)
		}
	})
}

func TestPython(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		python := installed(t, "connectors", "python3")
		if exec.Command(python, "-c", "import pymysql").Run() != nil {
			python = "/usr/bin/python3" // Debian's, which sees Debian's packages
		}
		testdb.Require(t, "connectors", exec.Command(python, "-c", "import pymysql").Run())
		x, a := startCounting(t, kind, nil)
		_, port, _ := net.SplitHostPort(x.address)
		got := program(t, "", python, "testdata/client.py", port, x.name)
		row := "SUM(amount) ((None, 10, Decimal('1552.50')), ('näme 101', 1, Decimal('101.25')))\n"
		if want := "rolled back (0,)\nas drivers begin: rowmill: passed on whole: autocommit is off, as it is for Python's drivers unless they connect with autocommit=True\n" + row + row + row + "error 1054\nstreamed 200\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if a.ran.Load() == 0 {
			t.Error("no query was split")
		}
	})
}

func TestJava(t *testing.T) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) {
		java := installed(t, "connectors", "java")
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		x, a := startCounting(t, kind, nil)
		for i, c := range []struct{ jar, scheme, options string }{
			{"mysql-connector-j-8.4.0.jar", "mysql", "sslMode=DISABLED"},
			{"mysql-connector-j-8.4.0.jar", "mysql", "sslMode=DISABLED&useServerPrepStmts=true&useCursorFetch=true&rewriteBatchedStatements=true"},
			{"mariadb-java-client-3.4.1.jar", "mariadb", "sslMode=disable"},
			{"mariadb-java-client-3.4.1.jar", "mariadb", "sslMode=disable&useServerPrepStmts=true&useBulkStmts=true"},
		} {
			if !testdb.Nightly() && i > 0 { // each takes two seconds
				continue
			}
			jar := filepath.Join(cache, "rowmill", "connectors", c.jar)
			if _, err := os.Stat(jar); err != nil {
				testdb.Require(t, "connectors", errors.Join(err, errors.New("run scripts/install.sh connectors")))
			}
			a.ran.Store(0)
			got := program(t, "", java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", jar, "testdata/Client.java", fmt.Sprintf("jdbc:%s://%s/%s?user=root&%s", c.scheme, x.address, x.name, c.options), fmt.Sprintf("j%d", i))
			rows := "total null 10 1552.50 2024-02-03 04:05:06.0\ntotal näme 101 1 101.25 2024-02-03 04:05:06.0\n"
			want := "batch 200\nrolled back 0\ncommitted 200\n" + rows + rows + rows + "streamed 200\nerror 1054 42S22\ntimed out\nstill there 200\n"
			if got != want {
				t.Errorf("%s %s: got\n%s\nwant\n%s", c.jar, c.options, got, want)
			}
			if a.ran.Load() == 0 {
				t.Errorf("%s %s: no query was split", c.jar, c.options)
			}
		}
	})
}
