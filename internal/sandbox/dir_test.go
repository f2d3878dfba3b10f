package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMatches(t *testing.T) {
	const dir = "/w/.rowmill/sandbox-0123456789abcdef"
	moved := state{Kind: "mariadb", DataDir: "/old/.rowmill/sandbox-0123456789abcdef/data"}
	for _, test := range []struct {
		name string
		argv []string
		s    state
		want bool
	}{
		{"its server", []string{"/usr/sbin/mariadbd", "--no-defaults", "--datadir=" + dir + "/data"}, state{Kind: "mariadb"}, true},
		{"its server, by the path before", []string{"mariadbd", "--datadir=" + moved.DataDir}, moved, true},
		{"no arguments", nil, state{Kind: "mariadb"}, false},
		{"zombie", []string{""}, state{Kind: "mariadb"}, false},
		{"another program", []string{"grep", "--datadir=" + dir + "/data"}, state{Kind: "mariadb"}, false},
		{"another kind", []string{"mariadbd", "--datadir=" + dir + "/data"}, state{Kind: "postgres"}, false},
		{"another sandbox", []string{"mariadbd", "--datadir=/w/.rowmill/sandbox-0000000000000000/data"}, state{Kind: "mariadb"}, false},
		{"a directory in it", []string{"mariadbd", "--datadir=" + dir + "/data/x"}, state{Kind: "mariadb"}, false},
		{"the directory as another argument", []string{"mariadbd", dir + "/data"}, state{Kind: "mariadb"}, false},
		{"the system's server, by a forged state", []string{"mariadbd", "--datadir=/var/lib/mysql"},
			state{Kind: "mariadb", DataDir: "/var/lib/mysql"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, err := kindOf(test.s.Kind)
			must(t, err)
			test.s.dir, test.s.kind = dir, k
			if got := test.s.matches(test.argv); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// TestSweep: only provable leftovers in a root are removed.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	leftover := func(dir string) map[string]string {
		return map[string]string{"lock": "", "data/ibdata1": "x", "server.log": "x", "sandbox.json": stateText(t, state{
			Format: stateFormat, Kind: "mariadb", Throwaway: true, DataDir: filepath.Join(root, dir, "data")})}
	}
	with := func(files map[string]string, name, text string) map[string]string { files[name] = text; return files }
	dirs := []struct {
		name  string
		files map[string]string
		goes  bool
	}{
		{"sandbox-0000000000000001", leftover("sandbox-0000000000000001"), true},
		{"sandbox-0000000000000002", map[string]string{"lock": ""}, true},
		{"sandbox-0000000000000003", nil, true},
		{"sandbox-0000000000000004", map[string]string{"data/ibdata1": "x"}, false},
		{"sandbox-0000000000000005", with(leftover("sandbox-0000000000000005"), "precious", "x"), false},
		{"sandbox-0000000000000006", with(leftover("sandbox-0000000000000006"), "sandbox.json", "{"), false},
		{"sandbox-1", leftover("sandbox-1"), false},
		{"sandbox-000000000000000G", leftover("sandbox-000000000000000G"), false},
		{"named-a", leftover("named-a"), false},
		{"other", leftover("other"), false},
	}
	for _, d := range dirs {
		must(t, os.Mkdir(filepath.Join(root, d.name), 0o700))
		for name, text := range d.files {
			path := filepath.Join(root, d.name, name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	held := filepath.Join(root, "sandbox-0000000000000007")
	must(t, os.Mkdir(held, 0o700))
	lock, err := tryLock(held, true)
	must(t, err)
	defer lock.Close()
	elsewhere := t.TempDir()
	link := filepath.Join(root, "sandbox-0000000000000008")
	must(t, os.WriteFile(filepath.Join(elsewhere, "lock"), nil, 0o600))
	must(t, os.Symlink(elsewhere, link))

	sweep(t.Context(), root, t.Logf)

	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(root, d.name)); errors.Is(err, os.ErrNotExist) != d.goes {
			t.Errorf("%s: %v, want it gone: %v", d.name, err, d.goes)
		}
	}
	for _, path := range []string{held, link, filepath.Join(elsewhere, "lock"), filepath.Join(root, "sandbox-0000000000000005", "precious")} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

func stateText(t *testing.T, s state) string {
	t.Helper()
	data, err := json.Marshal(s)
	must(t, err)
	return string(data)
}

// TestRemoveSocketDir: with a state that was tampered with, only a socket is
// removed.
func TestRemoveSocketDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rowmill-0123456789abcdef")
	must(t, os.Mkdir(dir, 0o700))
	precious := filepath.Join(dir, "precious")
	must(t, os.WriteFile(precious, nil, 0o600))
	if err := removeSocketDir(dir); err == nil {
		t.Error("removed a directory with other files")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if _, err := parseState([]byte(`{"format": "rowmill.sandbox/1", "kind": "mariadb", "socket_dir": "/etc"}`)); err == nil {
		t.Error("accepted /etc as a directory of a socket")
	}
}

func TestTidyRoot(t *testing.T) {
	for _, test := range []struct {
		name  string
		make  func(root string) error
		stays bool
	}{
		{"ours and empty", func(string) error { return nil }, false},
		{"ours with a file", func(root string) error { return os.WriteFile(filepath.Join(root, "x"), nil, 0o600) }, true},
		{"not ours", func(root string) error { return os.Remove(filepath.Join(root, rootMark)) }, true},
		{"with a .gitignore of its user", func(root string) error {
			return os.WriteFile(filepath.Join(root, rootMark), []byte("x\n"), 0o600)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			lock, err := lockRoot(t.Context(), root)
			must(t, err)
			must(t, test.make(root))
			tidyRoot(root)
			if _, err := os.Stat(root); err != nil {
				t.Errorf("removed while it was locked: %v", err)
			}
			lock.Close()
			tidyRoot(root)
			if _, err := os.Stat(root); (err == nil) != test.stays {
				t.Errorf("%v, want it to stay: %v", err, test.stays)
			}
		})
	}
}

func TestSocketPlace(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	for name, test := range map[string]struct {
		dir, tmp string
		beside   bool // the socket is in dir
	}{
		"short":               {"/a", t.TempDir(), true},
		"as long as can be":   {"/" + strings.Repeat("a", maxSocketPath-3), t.TempDir(), true},
		"longer":              {"/" + strings.Repeat("a", maxSocketPath-2), t.TempDir(), false},
		"temporary long, too": {"/" + strings.Repeat("a", maxSocketPath), "/" + strings.Repeat("b", maxSocketPath), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", test.tmp)
			socket, dir, err := socketPlace(test.dir, "0123456789abcdef", socketName)
			must(t, err)
			if (dir == "") != test.beside || len(socket) > maxSocketPath {
				t.Errorf("socket %s in %q", socket, dir)
			}
			if dir != "" && !socketDirName.MatchString(filepath.Base(dir)) {
				t.Errorf("sweeping does not know %s", dir)
			}
		})
	}
}

func TestIndentTail(t *testing.T) {
	for name, test := range map[string]struct{ log, want string }{
		"nothing":    {"\n\n", ""},
		"notes only": {"0 [Note] a\n0 [Note] b\n", "; its log ends with:\n  0 [Note] a\n  0 [Note] b"},
		"news":       {"0 [Note] a\n0 [Warning] b\n0 [Note] c\n", "; its log ends with:\n  0 [Warning] b"},
		"error":      {"a\n0 [ERROR] b\n0 [Note] c\n" + strings.Repeat("help\n", 20), "; its log says:\n  0 [ERROR] b" + strings.Repeat("\n  help", tailLines-1)},
		"long":       {strings.Repeat("x\n", 20) + "y", "; its log ends with:" + strings.Repeat("\n  x", tailLines-1) + "\n  y"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, indentTail(test.log)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestServerEnv: passwords intended for clients are not passed to servers.
func TestServerEnv(t *testing.T) {
	t.Setenv("MYSQL_PWD", "secret")
	t.Setenv("PGPASSWORD", "secret")
	t.Setenv("OTHER", "value")
	env := serverEnv()
	if slices.Contains(env, "MYSQL_PWD=secret") || slices.Contains(env, "PGPASSWORD=secret") || !slices.Contains(env, "OTHER=value") {
		t.Errorf("environment %v", env)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"format": "rowmill.sandbox/1", "target": "sandbox:mariadb", "throwaway": true, "kind": "mariadb", "pid": 1,
		"data_dir": "/a/data", "socket": "/a/s", "socket_dir": "/tmp/rowmill-0123456789abcdef", "started": "2026-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseState(data)
		if err != nil {
			return
		}
		again, err := parseState([]byte(stateText(t, s)))
		must(t, err)
		if diff := cmp.Diff(stateText(t, s), stateText(t, again)); diff != "" {
			t.Fatalf("-before +after:\n%s", diff)
		}
	})
}
