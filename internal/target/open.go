package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/engine/null"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/internal/engine/sqlite"
	"github.com/rowmill/rowmill/internal/sandbox"
)

// A DB is an open target: its database, and what was created for it.
type DB struct {
	engine.DB
	// Text is the target as given, for records.
	Text string
	// Nodes are the target's servers. The first of them takes the statements. A target
	// without a topology has one node.
	Nodes []Node

	opened engine.Target // what was connected to
	clean  func() error
}

// A Node is one server of a target.
type Node struct {
	// Target and Engine are the node's own, in printable form.
	Target, Engine string
	// PID is the server's process, and DataDir has its data: only for a server on this machine.
	PID     int
	DataDir string
	// Server is the private server; nil for other nodes.
	Server *sandbox.Server
	// Replica reports that the node repeats the changes of the first node. Member reports that the
	// nodes are a cluster: each takes changes, and receives the changes of the other nodes.
	Replica, Member bool
}

// Open opens a target. It starts a private server if the target asks for one. note
// receives lines about long operations.
func Open(ctx context.Context, text string, note func(string)) (_ *DB, err error) {
	p, err := parse(text)
	if err != nil {
		return nil, err
	}
	d := &DB{Text: text, Nodes: make([]Node, 1), clean: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.clean())
		}
	}()
	switch {
	case p.Scheme == "sandbox":
		p.Target, err = d.startServer(ctx, p.options, note)
	case p.Scheme == "sqlite" && p.Path == "":
		p.Path, err = d.makeFile()
	default:
		if warning := readableByOthers(p.Query.Get("password-file")); warning != "" {
			note(warning)
		}
	}
	if err != nil {
		return nil, err
	}
	if d.DB, err = Connect(ctx, p.Target); err != nil {
		return nil, err
	}
	d.opened = p.Target
	info := d.Info()
	n := &d.Nodes[0]
	n.Target, n.Engine, n.PID, n.DataDir = info.Target, info.Engine, info.PID, info.DataDir
	if n.Server != nil {
		n.Member = n.Server.Role == sandbox.Member
		for _, s := range n.Server.Nodes {
			d.Nodes = append(d.Nodes, Node{Target: s.Target(), Engine: s.Kind, PID: s.PID, DataDir: s.DataDir, Server: s, Replica: s.Role == sandbox.Replica, Member: s.Role == sandbox.Member})
		}
	}
	return d, nil
}

// Connect opens the database that a parsed target names. It starts no server.
func Connect(ctx context.Context, t engine.Target) (engine.DB, error) {
	switch t.Scheme {
	case "null":
		return opened(null.Open(t))
	case "sqlite":
		return opened(sqlite.Open(ctx, t))
	case "postgres", "postgresql":
		return opened(postgres.Open(ctx, t))
	}
	return opened(mysql.Open(ctx, t))
}

// opened returns a nil interface, not one that holds the nil pointer of a failed call.
func opened[T engine.DB](db T, err error) (engine.DB, error) {
	if err != nil {
		return nil, err
	}
	return db, nil
}

// Dry returns a database that only renders statements. It starts and accesses nothing.
func Dry(text string) (engine.DB, error) {
	p, err := parse(text)
	if err != nil {
		return nil, err
	}
	if o := p.options; p.Scheme == "sandbox" {
		at := o.Kind + "://" + sandbox.User + "@localhost/" + sandbox.Database
		if o.Kind != "postgres" {
			at += "?engine=" + o.Storage
		}
		if p.Target, err = engine.ParseTarget(at); err != nil {
			return nil, err
		}
	}
	switch p.Scheme {
	case "null":
		return opened(null.Open(p.Target))
	case "sqlite":
		return sqlite.Dry(p.Target)
	case "postgres", "postgresql":
		return postgres.Dry(p.Target)
	}
	return mysql.Dry(p.Target)
}

func (d *DB) startServer(ctx context.Context, o sandbox.Options, note func(string)) (engine.Target, error) {
	server, err := sandbox.Start(ctx, o, func(format string, args ...any) { note(fmt.Sprintf(format, args...)) })
	if errors.Is(err, sandbox.ErrNotInstalled) {
		return engine.Target{}, engine.Hinted(err, "--target sqlite:, or another kind of server")
	}
	if err != nil {
		return engine.Target{}, err
	}
	d.Nodes[0].Server = server
	// Stopping has its own time limit, even after an interrupt.
	d.clean = func() error { return server.Stop(context.WithoutCancel(ctx)) }
	return engine.ParseTarget(server.Target())
}

// At opens the same database with the same account at another address, HOST:PORT, where a program
// listens that passes statements on to the server. The caller closes it.
func (d *DB) At(ctx context.Context, address string) (engine.DB, error) {
	t := d.opened
	t.Host, t.Query = address, maps.Clone(t.Query)
	t.Query.Del("socket")
	return Connect(ctx, t)
}

// Causal returns the settings with which a session on a node of a cluster reads everything that was
// committed before on any node.
func (d *DB) Causal() engine.State {
	if !d.Nodes[0].Member {
		return nil
	}
	return engine.State{{Name: "wsrep_sync_wait", Value: "15"}}
}

// Server returns the first private server; nil if the target has none.
func (d *DB) Server() *sandbox.Server {
	for _, n := range d.Nodes {
		if n.Server != nil {
			return n.Server
		}
	}
	return nil
}

// Died returns a channel that is closed when the private server ends, and a function
// that returns why it ended. Both are nil for other targets.
func (d *DB) Died() (<-chan struct{}, func() error) {
	server := d.Server()
	if server == nil {
		return nil, nil
	}
	return server.Done(), func() error {
		if err := server.Err(); err != nil {
			return err
		}
		return errors.New("the private server has ended")
	}
}

// deathNews is how long Death waits for the end of the server's process, which may be noticed
// slightly later than the loss of the connection.
const deathNews = time.Second

// Death returns why the private server ended, if that caused the error, else nil.
func (d *DB) Death(err error) error {
	server := d.Server()
	if server == nil || !errors.Is(err, engine.ErrConnectionLost) && !errors.Is(err, engine.ErrUnreachable) {
		return nil
	}
	select {
	case <-server.Done():
	case <-time.After(deathNews):
	}
	return server.Err()
}

// Close closes the database and removes everything that was created for the target.
func (d *DB) Close() error { return errors.Join(d.DB.Close(), d.clean()) }

// readableByOthers returns a warning about a password file that other users can read, or "".
func readableByOthers(file string) string {
	if file == "" {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return "" // opening the file will report the error
	}
	if info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("warning: password file %s has permissions %04o: other users can read it; chmod 600 %s", file, info.Mode().Perm(), file)
}

// tempPrefix begins the names of directories of temporary files; the creator's process ID follows.
const tempPrefix = "sqlite-"

// makeFile returns the path of a new temporary file below the working directory: /tmp is often in
// memory, which would make a benchmark meaningless. It also removes the temporary files that killed
// processes left.
func (d *DB) makeFile() (path string, err error) {
	root := sandbox.DefaultRoot
	left, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil {
		return "", err
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
		return "", fmt.Errorf("make a temporary SQLite file: %w", err)
	}
	d.clean = func() error {
		err := os.RemoveAll(dir)
		_ = os.Remove(root) // fails while root has other entries
		return err
	}
	return filepath.Join(dir, "rowmill.db"), nil
}

// tempDir creates a directory in root, again if another process has removed the empty root.
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

// In opens another database of the same server, with the same account. The caller closes it.
func (d *DB) In(ctx context.Context, database string) (engine.DB, error) {
	t := d.opened
	t.Path = database
	return Connect(ctx, t)
}

// Lowered looks for a numeric setting of a private server's target that the server has lowered:
// servers silently lower a setting that needs more files than they may open. It returns the
// setting, and the server's value.
func Lowered(text string, is map[string]string) (s Setting, got int64, ok bool) {
	p, err := parse(text)
	if err != nil {
		return s, 0, false
	}
	for name, value := range p.options.Set {
		want, err1 := strconv.ParseInt(value, 10, 64)
		got, err2 := strconv.ParseInt(is[name], 10, 64)
		if err1 == nil && err2 == nil && got < want {
			return Setting{name, value}, got, true
		}
	}
	return s, 0, false
}

// PrivateLike returns the target of a private server of a kind, such as "mariadb". The server is
// fast rather than durable.
func PrivateLike(kind string) (string, error) {
	text := "sandbox:" + kind + "?durability=none"
	if err := Check(text); err != nil {
		return "", engine.Hinted(fmt.Errorf("there is no private server like %s, to calibrate on", kind), "a table on MariaDB, MySQL or PostgreSQL")
	}
	return text, nil
}

// Dumps returns the kinds of dumps that can be read. The last kind is assumed for a dump without
// the marks of any other kind.
func Dumps() []engine.Dump { return []engine.Dump{postgres.Dump(), mysql.Dump()} }
