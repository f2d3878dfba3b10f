package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program writes a program that prints answer for --version, and returns its path.
func program(t *testing.T, dir, name, answer string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+answer+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	saysMySQL   = "echo '/x/mysqld  Ver 8.0.15 for linux-glibc2.12 on x86_64 (MySQL Community Server - GPL)'"
	saysPercona = "echo '/x/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28)'"
	saysMariaDB = "echo 'mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)'"
	lacksParts  = "echo 'mysqld: error while loading shared libraries: libaio.so.1: cannot open shared object file' >&2; exit 127"
)

func TestFindMySQL(t *testing.T) {
	for name, test := range map[string]struct {
		// the version output of the mysqld in two directories on PATH, and of
		// one from scripts/install.sh
		first, second, fetched string
		// named is the version output of the program in MySQLVariable, which is
		// named namedAs
		named, namedAs string
		want           string // the directory of the server found
		version        string
		wantErr        string
	}{
		"on PATH":                  {first: saysMySQL, want: "first", version: "8.0.15"},
		"MariaDB before it":        {first: saysMariaDB, second: saysPercona, want: "second", version: "8.0.36-28"},
		"fetched":                  {first: saysMariaDB, fetched: saysMySQL, want: "cache", version: "8.0.15"},
		"PATH before what was":     {second: saysMySQL, fetched: saysPercona, want: "second", version: "8.0.15"},
		"named":                    {first: saysPercona, named: saysMySQL, namedAs: "mysqld", want: "named", version: "8.0.15"},
		"a MariaDB is named":       {first: saysMySQL, named: saysMariaDB, namedAs: "mysqld", wantErr: "is not mysql"},
		"named and not there":      {first: saysMySQL, namedAs: "mysqld", wantErr: "no such file"},
		"named otherwise":          {first: saysMySQL, named: saysMySQL, namedAs: "mysqld-8.0", wantErr: "symbolic link"},
		"broken":                   {first: lacksParts, second: saysMySQL, wantErr: "apt install libaio1 libnuma1"},
		"broken in an unknown way": {first: "echo hello", wantErr: "unexpected answer \"hello\""},
		"broken without an answer": {first: "exit 3", wantErr: "exit status 3"},
		"broken and of many words": {first: "echo; echo ' Ver '", wantErr: "unexpected answer"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", filepath.Join(dir, "first")+":"+filepath.Join(dir, "second")+":relative:/usr/bin:/bin")
			t.Setenv("HOME", dir)
			t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
			t.Setenv(MySQLVariable, "")
			for where, answer := range map[string]string{
				"first": test.first, "second": test.second, "cache/rowmill/mysql-8.0.15/bin": test.fetched,
			} {
				if answer != "" {
					program(t, filepath.Join(dir, where), "mysqld", answer)
				}
			}
			if test.namedAs != "" {
				t.Setenv(MySQLVariable, filepath.Join(dir, "named", test.namedAs))
				if test.named != "" {
					program(t, filepath.Join(dir, "named"), test.namedAs, test.named)
				}
			}
			bin, err := mysqld().find(t.Context(), "")
			if test.wantErr != "" {
				if err == nil || errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(bin.server, filepath.Join(dir, test.want)) || bin.version != test.version {
				t.Errorf("found %+v", bin)
			}
		})
	}
}

// TestFindVersion: version= selects one of the installed servers, in any
// directory; without it a server of the system comes first, then the lowest
// version from scripts/install.sh.
func TestFindVersion(t *testing.T) {
	says := func(version string) string { return "echo 'mysqld  Ver " + version + " for Linux on x86_64'" }
	for name, test := range map[string]struct {
		installed map[string]string // version output of the program in each directory
		version   string
		want      string // the version found
		wantErr   []string
	}{
		"the system's first":      {map[string]string{"bin": says("8.4.1"), "cache/rowmill/mysql-8.0.15/bin": says("8.0.15")}, "", "8.4.1", nil},
		"the lowest fetched":      {map[string]string{"cache/rowmill/mysql-9.7.4/usr/sbin": says("9.7.4-2"), "cache/rowmill/mysql-8.0.15/bin": says("8.0.15")}, "", "8.0.15", nil},
		"as numbers":              {map[string]string{"cache/rowmill/mysql-10.1.0/usr/sbin": says("10.1.0"), "cache/rowmill/mysql-9.7.4/usr/sbin": says("9.7.4-2")}, "", "9.7.4-2", nil},
		"chosen":                  {map[string]string{"cache/rowmill/mysql-9.7.4/usr/sbin": says("9.7.4-2"), "bin": says("8.0.15")}, "9.7", "9.7.4-2", nil},
		"chosen by the first":     {map[string]string{"cache/rowmill/mysql-9.7.4/usr/sbin": says("9.7.4-2"), "bin": says("8.0.15")}, "9", "9.7.4-2", nil},
		"chosen exactly":          {map[string]string{"cache/rowmill/mysql-9.7.4/usr/sbin": says("9.7.4-2"), "bin": says("8.0.15")}, "9.7.4", "9.7.4-2", nil},
		"digits are not cut":      {map[string]string{"bin": says("9.70.1")}, "9.7", "", []string{"find mysql 9.7", "not installed; there is 9.70.1", "scripts/install.sh mysql-new"}},
		"not there":               {map[string]string{"bin": says("8.0.15"), "more": says("8.4.2")}, "9.7", "", []string{"there is 8.0.15, 8.4.2", "scripts/install.sh mysql-new"}},
		"nothing there":           {nil, "9.7", "", []string{"find mysql 9.7", "not installed; put"}},
		"beside a broken one":     {map[string]string{"bin": lacksParts, "more": says("9.7.1")}, "9.7", "9.7.1", nil},
		"maybe the broken one is": {map[string]string{"bin": lacksParts, "more": says("8.4.1")}, "9.7", "", []string{"apt install libaio1"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", filepath.Join(dir, "bin")+":"+filepath.Join(dir, "more")+":/bin")
			t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
			t.Setenv(MySQLVariable, "")
			for where, answer := range test.installed {
				program(t, filepath.Join(dir, where), "mysqld", answer)
			}
			bin, err := mysqld().find(t.Context(), test.version)
			if bin.version != test.want || (err == nil) != (test.want != "") {
				t.Fatalf("found %+v, %v", bin, err)
			}
			for _, want := range test.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

// TestNamedAndVersion: the server in the variable comes first, if it has the
// requested version.
func TestNamedAndVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", "/bin")
	t.Setenv("XDG_CACHE_HOME", dir)
	named := program(t, filepath.Join(dir, "named"), "mysqld", saysMySQL)
	t.Setenv(MySQLVariable, named)
	fetched := program(t, filepath.Join(dir, "rowmill/mysql-9.7.4/usr/sbin"), "mysqld", "echo 'mysqld  Ver 9.7.4-2 for Linux'")
	for version, want := range map[string]string{"": named, "8.0": named, "9.7": fetched} {
		if bin, err := mysqld().find(t.Context(), version); err != nil || bin.server != want {
			t.Errorf("version %q: %+v, %v", version, bin, err)
		}
	}
}

// TestMySQLNotInstalled: a MariaDB server that is named mysqld is not MySQL.
func TestMySQLNotInstalled(t *testing.T) {
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin"} {
		if _, foreign, err := mysqld().ask(t.Context(), filepath.Join(dir, "mysqld")); err == nil && foreign == "" {
			t.Skipf("there is a MySQL in %s", dir)
		}
	}
	dir := t.TempDir()
	real := program(t, filepath.Join(dir, "there"), "mariadbd", saysMariaDB)
	if err := os.Symlink(real, filepath.Join(dir, "there", "mysqld")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "there")+":/bin")
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv(MySQLVariable, "")
	err := Installed(t.Context(), "mysql")
	if !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{filepath.Join(dir, "there", "mysqld"), "passed over as MariaDB", "PATH", MySQLVariable} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestCheckMySQL(t *testing.T) {
	for name, test := range map[string]struct{ settings, wantErr string }{
		"two files":       {"innodb_buffer_pool_size 67108864 innodb_log_file_size 4194304 innodb_log_files_in_group 2", ""},
		"capacity":        {"innodb_buffer_pool_size 67108864 innodb_log_file_size 50331648 innodb_log_files_in_group 2 innodb_redo_log_capacity 8388608", ""},
		"rounded pool":    {"innodb_buffer_pool_size 134217728 innodb_redo_log_capacity 8388608", "request memory=134217728"},
		"rounded redo":    {"innodb_buffer_pool_size 67108864 innodb_log_file_size 3145728 innodb_log_files_in_group 2", "request redo=6291456"},
		"nothing of redo": {"innodb_buffer_pool_size 67108864", "size of the redo log"},
		"nothing":         {"", "innodb_buffer_pool_size"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{}
			for pair := range slices.Chunk(strings.Fields(test.settings), 2) {
				settings[pair[0]] = pair[1]
			}
			err := checkMySQL(&launch{Options: Options{Memory: 64 << 20, Redo: 8 << 20}}, settings)
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("error %v, want %q", err, test.wantErr)
			}
		})
	}
}

// TestPoolArgsMySQL: the pool is a whole number of chunks in each instance.
func TestPoolArgsMySQL(t *testing.T) {
	for memory, want := range map[int64]string{
		5 << 20: "1048576", 64 << 20: "67108864", 100 << 20: "4194304", 1 << 30: "134217728", 1536 << 20: "67108864", 1032 << 20: "1048576",
	} {
		args := argsMySQL(&launch{Options: Options{Memory: memory, Redo: 8 << 20}})
		if !slices.Contains(args, "--innodb-buffer-pool-chunk-size="+want) {
			t.Errorf("%s: want chunks of %s in %q", FormatSize(memory), want, args)
		}
	}
}
