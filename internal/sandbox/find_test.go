package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program writes a program that prints answer for --version.
func program(t *testing.T, dir, name, answer string) {
	t.Helper()
	text := []byte("#!/bin/sh\n" + answer + "\n")
	must(t, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), text, 0o755)))
}

const (
	saysMySQL   = "echo '/x/mysqld  Ver 8.0.15 for linux-glibc2.12 on x86_64 (MySQL Community Server - GPL)'"
	saysPercona = "echo '/x/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28)'"
	saysMariaDB = "echo 'mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)'"
	lacksParts  = "echo 'mysqld: error while loading shared libraries: libaio.so.1: cannot open shared object file' >&2; exit 127"
)

// TestFind: the programs on PATH come first, then those from scripts/install.sh, lowest
// version first; a version selects one of them.
func TestFind(t *testing.T) {
	says := func(version string) string { return "echo 'mysqld  Ver " + version + " for Linux on x86_64'" }
	const cache80, cache97, cache101 = "cache/rowmill/mysql-8.0.15/bin", "cache/rowmill/mysql-9.7.4/usr/sbin", "cache/rowmill/mysql-10.1.0/usr/sbin"
	type programs map[string]string // what the mysqld in a directory prints; bin and more are on PATH
	both := programs{cache97: says("9.7.4-2"), "bin": says("8.0.15")}
	for name, test := range map[string]struct {
		installed programs
		version   string
		want      string // the directory and the version found
		wantErr   []string
	}{
		"on PATH":                  {installed: programs{"bin": saysMySQL}, want: "bin 8.0.15"},
		"MariaDB before it":        {installed: programs{"bin": saysMariaDB, "more": saysPercona}, want: "more 8.0.36-28"},
		"fetched":                  {installed: programs{"bin": saysMariaDB, cache80: saysMySQL}, want: cache80 + " 8.0.15"},
		"PATH before what was":     {installed: programs{"more": saysMySQL, cache80: saysPercona}, want: "more 8.0.15"},
		"broken":                   {installed: programs{"bin": lacksParts}, wantErr: []string{"apt install libaio1 libnuma1"}},
		"another is broken":        {installed: programs{"bin": lacksParts, "more": saysMySQL}, want: "more 8.0.15"},
		"broken in an unknown way": {installed: programs{"bin": "echo hello"}, wantErr: []string{`unexpected answer "hello"`}},
		"broken without an answer": {installed: programs{"bin": "exit 3"}, wantErr: []string{"exit status 3"}},
		"broken and of many words": {installed: programs{"bin": "echo; echo ' Ver '"}, wantErr: []string{"unexpected answer"}},

		"the system's first":      {installed: programs{"bin": says("8.4.1"), cache80: says("8.0.15")}, want: "bin 8.4.1"},
		"the lowest fetched":      {installed: programs{cache97: says("9.7.4-2"), cache80: says("8.0.15")}, want: cache80 + " 8.0.15"},
		"lowest as numbers":       {installed: programs{cache101: says("10.1.0"), cache97: says("9.7.4-2")}, want: cache97 + " 9.7.4-2"},
		"chosen":                  {installed: both, version: "9.7", want: cache97 + " 9.7.4-2"},
		"chosen by the first":     {installed: both, version: "9", want: cache97 + " 9.7.4-2"},
		"chosen exactly":          {installed: both, version: "9.7.4", want: cache97 + " 9.7.4-2"},
		"digits are not cut":      {installed: programs{"bin": says("9.70.1")}, version: "9.7", wantErr: []string{"find mysql 9.7", "not installed; there is 9.70.1", "scripts/install.sh mysql-new"}},
		"not there":               {installed: programs{"bin": says("8.0.15"), "more": says("8.4.2")}, version: "9.7", wantErr: []string{"there is 8.0.15, 8.4.2"}},
		"nothing there":           {version: "9.7", wantErr: []string{"find mysql 9.7", "not installed; put"}},
		"beside a broken one":     {installed: programs{"bin": lacksParts, "more": says("9.7.1")}, version: "9.7", want: "more 9.7.1"},
		"maybe the broken one is": {installed: programs{"bin": lacksParts, "more": says("8.4.1")}, version: "9.7", wantErr: []string{"apt install libaio1"}},
		"MariaDB alone is not it": {installed: programs{"bin": saysMariaDB}, version: "9.7", wantErr: []string{"PATH"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", filepath.Join(dir, "bin")+":"+filepath.Join(dir, "more")+":relative:/bin")
			t.Setenv("HOME", dir)
			t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
			for where, answer := range test.installed {
				program(t, filepath.Join(dir, where), "mysqld", answer)
			}
			bin, err := mysqld().find(t.Context(), test.version)
			if (err == nil) != (test.want != "") {
				t.Fatalf("found %+v, %v", bin, err)
			}
			if got := strings.TrimPrefix(filepath.Dir(bin.server), dir+"/") + " " + bin.version; err == nil && got != test.want {
				t.Errorf("found %s, want %s", got, test.want)
			}
			for _, want := range test.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if missing := test.version != "" && !slices.Contains(test.wantErr, "apt install libaio1"); err != nil && errors.Is(err, ErrNotInstalled) != missing {
				t.Errorf("error %v is ErrNotInstalled: %v, want %v", err, !missing, missing)
			}
		})
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
