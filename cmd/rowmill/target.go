package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/engine/null"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/internal/engine/sqlite"
	"github.com/rowmill/rowmill/internal/sandbox"
)

// schemes lists the kinds of targets, for messages.
const schemes = "sqlite:PATH, mariadb://USER@HOST/DB, mysql://USER@HOST/DB, postgres://USER@HOST/DB, sandbox:mariadb?memory=64MB, sandbox:mysql, sandbox:postgres, null:"

// targetHelp explains --target.
const targetHelp = `database to use:
sqlite:PATH (no PATH: a temporary file), null: (accepts and counts),
mariadb://USER@HOST:PORT/DB, mysql://USER@HOST:PORT/DB,
postgres://USER@HOST:PORT/DB (as libpq: ?host=DIR for a socket),
sandbox:mariadb?memory=64MB, sandbox:mysql?..., sandbox:postgres?...
(a private server for this run)`

// A target is an open database and the resources created for it.
type target struct {
	engine.DB
	// text is the target as given, for records.
	text string
	// server is the private server; nil for other targets.
	server *sandbox.Server
	// fresh means that the target can't hold anything of an earlier run.
	fresh bool
	// clean removes everything that was created for the target.
	clean func() error
}

// checkTarget parses a target and refuses one that no engine can open.
func checkTarget(text string) (engine.Target, error) {
	if text == "sandbox" || strings.HasPrefix(text, "sandbox:") {
		o, err := sandbox.ParseTarget(text)
		if err != nil {
			return engine.Target{}, err
		}
		return engine.Target{Scheme: "sandbox", Path: o.Kind}, nil
	}
	t, err := engine.ParseTarget(text)
	if err != nil {
		return t, err
	}
	switch t.Scheme {
	case "sqlite", "mysql", "mariadb", "postgres", "postgresql", "null":
		return t, nil
	}
	return t, engine.Hinted(fmt.Errorf("target: unknown scheme %q", t.Scheme), "%s", schemes)
}

// openTarget opens a target. It starts a private server if the target asks for one.
// note receives lines about long operations.
func openTarget(ctx context.Context, text string, note func(string)) (_ *target, err error) {
	t, err := checkTarget(text)
	if err != nil {
		return nil, err
	}
	out := &target{text: text, clean: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.clean())
		}
	}()
	switch t.Scheme {
	case "null":
		out.fresh = true
		out.DB, err = opened(null.Open(t))
	case "sqlite":
		if t.Path == "" {
			out.fresh = true
			path, clean, err := tempFile()
			if err != nil {
				return nil, err
			}
			t.Path, out.clean = path, clean
		}
		out.DB, err = opened(sqlite.Open(ctx, t))
	case "mysql", "mariadb", "postgres", "postgresql":
		if warning := readableByOthers(t.Query.Get("password-file")); warning != "" {
			note(warning)
		}
		out.DB, err = openServer(ctx, t)
	case "sandbox":
		err = out.startServer(ctx, note)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// openServer opens a database on a server.
func openServer(ctx context.Context, t engine.Target) (engine.DB, error) {
	if strings.HasPrefix(t.Scheme, "postgres") {
		return opened(postgres.Open(ctx, t))
	}
	return opened(mysql.Open(ctx, t))
}

// readableByOthers returns a warning about a password file that other users of the
// machine can read, or "". As with libpq's rule for private keys, the group may read a
// file owned by root.
func readableByOthers(file string) string {
	if file == "" {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return "" // opening the file will report the error
	}
	forbidden := os.FileMode(0o077)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid == 0 && os.Getuid() != 0 {
		forbidden = 0o037
	}
	if info.Mode().Perm()&forbidden == 0 {
		return ""
	}
	return fmt.Sprintf("warning: password file %s has permissions %04o: other users can read it; chmod 600 %s", file, info.Mode().Perm(), file)
}

// drySandbox returns a database that renders statements for a private server that is
// not started.
func drySandbox(o sandbox.Options) (engine.DB, error) {
	text := o.Kind + "://" + sandbox.User + "@localhost/" + sandbox.Database
	if o.Kind != "postgres" {
		text += "?engine=" + o.Storage
	}
	t, err := engine.ParseTarget(text)
	if err != nil {
		return nil, err
	}
	return dryServer(t)
}

func dryServer(t engine.Target) (engine.DB, error) {
	if strings.HasPrefix(t.Scheme, "postgres") {
		return postgres.Dry(t)
	}
	return mysql.Dry(t)
}

// opened returns a nil interface instead of one that holds the nil pointer of a failed
// call.
func opened[T engine.DB](db T, err error) (engine.DB, error) {
	if err != nil {
		return nil, err
	}
	return db, nil
}

// dryTarget returns a database that only renders statements. It starts and accesses
// nothing.
func dryTarget(text string) (engine.DB, error) {
	t, err := checkTarget(text)
	if err != nil {
		return nil, err
	}
	switch t.Scheme {
	case "null":
		return opened(null.Open(t))
	case "sqlite":
		return sqlite.Dry(t)
	case "sandbox":
		o, err := sandbox.ParseTarget(text)
		if err != nil {
			return nil, err
		}
		return drySandbox(o)
	default:
		return dryServer(t)
	}
}

// startServer starts the private server and connects to it.
func (t *target) startServer(ctx context.Context, note func(string)) error {
	o, err := sandbox.ParseTarget(t.text)
	if err != nil {
		return err
	}
	t.server, err = sandbox.Start(ctx, o, func(format string, args ...any) { note(fmt.Sprintf(format, args...)) })
	if err != nil {
		if errors.Is(err, sandbox.ErrNotInstalled) {
			return notInstalled(err, o.Kind)
		}
		return err
	}
	// Stopping has its own time limit, even after an interrupt.
	t.clean = func() error { return t.server.Stop(context.WithoutCancel(ctx)) }
	t.fresh = o.Keep == ""
	at, err := engine.ParseTarget(t.server.Target())
	if err != nil {
		return err
	}
	t.DB, err = openServer(ctx, at)
	return err
}

// notInstalled adds a hint about how to install a server of the kind.
func notInstalled(err error, kind string) error {
	packages := map[string]string{"mariadb": "mariadb-server", "postgres": "postgresql"}
	if name, ok := packages[kind]; ok {
		return engine.Hinted(err, "apt-get install --no-install-recommends %s, or --target sqlite:", name)
	}
	return engine.Hinted(err, "--target sqlite:")
}

// died returns a channel that is closed when the private server ends, and a function
// that returns why it ended. Both are nil for other targets.
func (t *target) died() (<-chan struct{}, func() error) {
	if t.server == nil {
		return nil, nil
	}
	return t.server.Done(), func() error {
		if err := t.server.Err(); err != nil {
			return err
		}
		return errors.New("the private server has ended")
	}
}

// close closes the database and removes everything that was created for it.
func (t *target) close() error { return errors.Join(t.DB.Close(), t.clean()) }

// tempPrefix is the prefix of the names of temporary SQLite directories. The ID of the
// process that created them follows.
const tempPrefix = "sqlite-"

// tempFile returns the path of a new temporary SQLite file, in the directory that
// private servers use below the working directory: /tmp is often in memory, which
// would make a benchmark meaningless. It removes directories left by killed processes.
func tempFile() (path string, clean func() error, err error) {
	root := sandbox.DefaultRoot
	left, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil {
		return "", nil, err
	}
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), tempPrefix), "-")
		n, err := strconv.Atoi(pid)
		if err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // best effort: it may belong to another user
		}
	}
	dir, err := tempDir(root)
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary SQLite file: %w", err)
	}
	return filepath.Join(dir, "rowmill.db"), func() error {
		err := os.RemoveAll(dir)
		_ = os.Remove(root) // fails while root has other entries
		return err
	}, nil
}

// tempDir creates a directory of this process in root. If another process removes the
// empty root at the same time, tempDir creates both again.
func tempDir(root string) (dir string, err error) {
	for range 100 {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return "", err
		}
		dir, err = os.MkdirTemp(root, fmt.Sprintf("%s%d-", tempPrefix, os.Getpid()))
		if !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return dir, err
}
