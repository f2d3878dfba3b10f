package target_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
)

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// A replica's name has no account and no password.
func TestReplicaName(t *testing.T) {
	for text, want := range map[string]string{
		"mariadb://me@db2:3307/test":                       "db2:3307",
		"mysql://me@db2/test?password-file=/etc/secret":    "db2",
		"mariadb://me@localhost/test?socket=/run/m.sock":   "/run/m.sock",
		"postgres://me@localhost/test?host=/run&port=5432": "/run",
	} {
		if got := target.ReplicaName(text); got != want || target.CheckReplica(text) != nil {
			t.Errorf("%s: %s, %v", text, got, target.CheckReplica(text))
		}
	}
	for _, text := range []string{"sqlite:a.db", "sqlite:", "null:", "sandbox:mariadb", "mysql://me:secret@db2/test", "oracle://db2/test"} {
		if err := target.CheckReplica(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestText(t *testing.T) {
	type facts struct {
		private, starts, stores, takesDurability, durability bool
		place, host                                          string
		least                                                int64
	}
	for text, want := range map[string]facts{
		"null:":                             {private: true},
		"sqlite:":                           {private: true, stores: true, takesDurability: true, least: 64 << 10},
		"sqlite:a.db?durability=none":       {stores: true, takesDurability: true, durability: true, place: "a.db", least: 64 << 10},
		"sqlite:?cache=1MB":                 {private: true, stores: true, takesDurability: true},
		"sandbox:mariadb":                   {private: true, starts: true, stores: true, takesDurability: true, least: sandbox.MinMemory("mariadb")},
		"sandbox:mysql?memory=64MB&keep=d":  {starts: true, stores: true, takesDurability: true, place: "d"},
		"sandbox:postgres?durability=none":  {private: true, starts: true, stores: true, takesDurability: true, durability: true, least: sandbox.MinMemory("postgres")},
		"mariadb://me@db1:3307/test":        {stores: true, host: "db1:3307"},
		"postgresql:///test?host=/run/pg":   {stores: true, host: "the target's socket"},
		"mysql://me@db1/test?durability=no": {stores: true, host: "db1", durability: true},
		"oracle://me@db1/test":              {},
		"sandbox:oracle":                    {},
	} {
		t.Run(text, func(t *testing.T) {
			got := facts{private: target.Private(text), starts: target.StartsServer(text), stores: target.Stores(text),
				place: target.Place(text), host: target.Host(text)}
			got.takesDurability, got.durability = target.Durability(text)
			if least, _, ok := target.MemoryFloor(text); ok {
				got.least = least
			}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if err := target.Check(text); (err == nil) == strings.Contains(text, "oracle") {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

func TestWith(t *testing.T) {
	durability := func(text string) (string, error) { return target.WithDurability(text, "none") }
	memory := func(text string) (string, error) { return target.WithMemory(text, 64<<20) }
	setting := func(text string) (string, error) {
		return target.WithSetting(text, target.Setting{Name: "cache", Value: "1MB"})
	}
	for name, c := range map[string]struct {
		with            func(string) (string, error)
		text, want, err string
	}{
		"durability of a server":   {durability, "mysql://me@db1/test", "mysql://me@db1/test", ""},
		"durability of a sandbox":  {durability, "sandbox:mysql", "sandbox:mysql?durability=none", ""},
		"durability that is given": {durability, "sandbox:mysql?durability=full", "sandbox:mysql?durability=full", ""},
		"durability of a file":     {durability, "sqlite:a.db", "sqlite:a.db?durability=none", ""},
		"memory of a sandbox":      {memory, "sandbox:mariadb?redo=1GB", "sandbox:mariadb?memory=64MiB&redo=1GiB", ""},
		"memory of a file":         {memory, "sqlite:?durability=none", "sqlite:?durability=none&cache=67108864", ""},
		"memory that is given":     {memory, "sqlite:?cache=1MB", "sqlite:?cache=1MB", ""},
		"setting of a file":        {setting, "sqlite:?cache=9MB&durability=none", "sqlite:?durability=none&cache=1MB", ""},
		"setting of a sandbox":     {setting, "sandbox:mariadb", "sandbox:mariadb?set=cache=1MB", ""},
		"unknown scheme":           {memory, "oracle:", "oracle:", `unknown scheme "oracle"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.with(c.text)
			if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

// A target without a path has a temporary file that is gone after Close, and so are the
// files of processes that were killed.
func TestOpenTemporary(t *testing.T) {
	t.Chdir(t.TempDir())
	left := filepath.Join(sandbox.DefaultRoot, "sqlite-999999999-1")
	must(t, os.MkdirAll(left, 0o755))
	db, err := target.Open(t.Context(), target.Temporary("sqlite:a.db?cache=1MB"), func(string) {})
	must(t, err)
	if db.Info().CacheBytes != 1<<20 {
		t.Errorf("the cache has %d bytes", db.Info().CacheBytes)
	}
	if len(db.Nodes) != 1 || db.Nodes[0].Engine != db.Info().Engine || db.Server() != nil {
		t.Errorf("the nodes are %+v", db.Nodes)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the file of a killed process remains")
	}
	must(t, db.Close())
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("after Close: %v, %v", entries, err)
	}
}

func TestMissingFile(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there.db")
	must(t, os.WriteFile(there, nil, 0o600))
	missing := filepath.Join(dir, "missing.db")
	for text, want := range map[string]string{
		"sqlite:" + there: "", "sqlite:" + missing: missing, "sqlite:": "", "sqlite:" + missing + "/deeper.db": "", "null:": "",
	} {
		if got := target.MissingFile(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// A dry run renders statements for each kind of target, and connects to none.
func TestDry(t *testing.T) {
	for text, want := range map[string]string{
		"null:": "null", "sqlite:a.db": "sqlite", "mysql://me@nowhere.invalid/d": "mysql", "postgres://me@nowhere.invalid/d": "postgres",
		"sandbox:mariadb?engine=rocksdb": "mariadb", "sandbox:postgres": "postgres",
	} {
		db, err := target.Dry(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := db.Info().Engine; got != want {
			t.Errorf("%s: the engine is %s", text, got)
		}
	}
	if _, err := target.Dry("oracle:"); err == nil {
		t.Error("an unknown scheme is accepted")
	} else if !strings.Contains(err.Error(), "unknown scheme") {
		t.Error(err)
	}
}
