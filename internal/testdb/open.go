package testdb

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
)

// Open opens a private database of a kind, which is "mariadb",
// "mariadb-rocksdb", "mysql", "postgres", "sqlite", "null" or a kind that Server
// accepts. The database is closed and removed when the test ends.
func Open(t testing.TB, kind string) engine.DB {
	t.Helper()
	at := Target(t, kind)
	db, err := target.Connect(context.Background(), at)
	if err != nil {
		t.Fatalf("open %s: %v", at, err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close %s: %v", at, err)
		}
	})
	return db
}

// Target returns the target of a private database of a kind of Open. The
// database is removed when the test ends.
func Target(t testing.TB, kind string) engine.Target {
	t.Helper()
	switch kind {
	case "null":
		return engine.Target{Scheme: "null"}
	case "sqlite":
		return engine.Target{
			Scheme: "sqlite", Path: filepath.Join(t.TempDir(), "test.db"),
			Query: url.Values{"durability": {"none"}},
		}
	case "mariadb-rocksdb":
		return onServer(t, "mariadb?engine=rocksdb", "rocksdb")
	}
	return onServer(t, kind, "")
}

func onServer(t testing.TB, kind, storage string) engine.Target {
	t.Helper()
	socket, name := Database(t, kind)
	scheme, _, _ := strings.Cut(kind, "?")
	target := engine.Target{Scheme: scheme, User: sandbox.User, Path: name, Query: url.Values{"socket": {socket}}}
	if storage != "" {
		target.Query.Set("engine", storage)
	}
	if scheme == "postgres" {
		target.Query = url.Values{"host": {filepath.Dir(socket)}, "port": {"5432"}}
	}
	return target
}
