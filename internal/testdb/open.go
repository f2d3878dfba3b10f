package testdb

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
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
	return OpenAt(t, Target(t, kind))
}

// OpenAt opens a target, such as a test's database with another account. The connection is closed
// when the test ends.
func OpenAt(t testing.TB, at engine.Target) engine.DB {
	t.Helper()
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

// An Own is a server of one test.
type Own = sandbox.Server

// OpenOwn starts a server for this test alone, and opens it. kind may have options, such as
// "mariadb?replicas=1". The test may kill and restart the server. When the test ends, the database
// is closed and the server stopped.
func OpenOwn(t testing.TB, kind string) (engine.DB, *Own) {
	t.Helper()
	ctx := context.Background()
	root, err := TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	o, err := sandbox.ParseTarget("sandbox:" + kind)
	if err != nil {
		t.Fatal(err)
	}
	o.Memory, o.Redo, o.Durability, o.Root = 64<<20, 64<<20, cmp.Or(o.Durability, sandbox.Relaxed), root
	server, err := sandbox.Start(ctx, o, func(string, ...any) {})
	if errors.Is(err, sandbox.ErrNotInstalled) {
		Require(t, o.Kind, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	at, err := engine.ParseTarget(server.Target())
	if err != nil {
		t.Fatal(err)
	}
	db, err := target.Connect(ctx, at)
	if err != nil {
		t.Fatalf("open %s: %v", at, err)
	}
	t.Cleanup(func() { _ = db.Close() }) // fails if the server has lost a connection
	return db, server
}

// Target returns the target of a private database. kind is as for Open. The database is removed
// when the test ends.
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
