// Package declared opens what a declaration's file names: a table on its server, or, if it has
// [shards], the nodes with its rows and the head that presents them as one table.
//
// The input is the path of the file and the value of --target; the results are a Table, a Cluster
// or Readers on open databases, which the caller closes. internal/target opens the databases, and
// internal/maintain keeps the tables. What is refused: a database that can't keep tables, several
// servers where one is meant, and, by OpenApplied, a file that differs from the declaration that
// was applied.
//
//	file, err := declared.Read(ctx, "readings.toml", "")
//	table, err := file.OpenApplied(ctx)
//	defer table.Close()
package declared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/rolling"
)

// ErrUsage is the class of two errors: an invalid declaration, and a command that doesn't apply to
// the declared table, e.g. because it names a node that the declaration doesn't have.
var ErrUsage = errors.New("the declaration or its use is invalid")

func usage(hint, format string, args ...any) error {
	return engine.Hinted(engine.Classed(ErrUsage, fmt.Errorf(format, args...)), "%s", hint)
}

// A File is a declaration that was read from its file.
type File struct {
	*rolling.Declaration
	// Node is the name of a single node if the target is that node's database. "" means all nodes, or
	// the only server.
	Node string
	// Now returns the present; nil is time.Now.
	Now func() time.Time
	// Note, unless nil, receives lines about long operations.
	Note func(line string)
	// Dry opens a temporary database if the target is a SQLite file that doesn't exist yet.
	Dry bool
	// Servers opens and closes a database that several tables share; nil opens one for this table.
	Servers *Servers
}

// Parse reads and checks a declaration. A url that is not "" replaces its target.
func Parse(ctx context.Context, path, url string) (*rolling.Declaration, error) {
	text, err := textfile.Read(ctx, path)
	if err != nil {
		return nil, engine.Hinted(fmt.Errorf("read the declaration: %w", err), "a file such as docs/declaration.md shows")
	}
	d, err := rolling.ParseDeclarationFor(path, text, url)
	return d, engine.Classed(ErrUsage, err)
}

// Read reads a declaration. If the parameter instead isn't "", it replaces the declaration's
// target. instead is a URL or, for a table with [shards], the name of a node.
func Read(ctx context.Context, path, instead string) (*File, error) {
	if instead == "" || strings.Contains(instead, ":") {
		d, err := Parse(ctx, path, instead)
		if err != nil {
			return nil, err
		}
		return &File{Declaration: d}, nil
	}
	d, err := Parse(ctx, path, "")
	if err != nil {
		return nil, err
	}
	nodes := d.Shards.Nodes
	i := slices.IndexFunc(nodes, func(n rolling.Node) bool { return n.Name == instead })
	switch {
	case i >= 0:
		d.Target = nodes[i].Target
		return &File{Declaration: d, Node: instead}, nil
	case len(nodes) == 0:
		_, err = Parse(ctx, path, instead)
		return nil, err // a target without a scheme
	}
	return nil, usage("--target "+nodes[0].Name, "--target %s: table %s has no node of that name, but %s", instead, d.Name, d.Shards.Names())
}

// Sharded reports whether the file is for all nodes of a table on several servers.
func (f *File) Sharded() bool { return len(f.Shards.Nodes) > 0 && f.Node == "" }

// OfNodes returns a File for each node, in the declared order.
func (f *File) OfNodes() []*File {
	out := make([]*File, len(f.Shards.Nodes))
	for i, n := range f.Shards.Nodes {
		own, d := *f, *f.Declaration
		d.Target, own.Declaration, own.Node = n.Target, &d, n.Name
		out[i] = &own
	}
	return out
}

// WantTarget returns an error if a declaration names no database.
func WantTarget(d *rolling.Declaration) error {
	if d.Target == "" {
		return usage(target.DeclareHint, "%s: no target", d.Source)
	}
	return nil
}

func (f *File) openTarget(ctx context.Context, url string) (*target.DB, error) {
	if f.Servers != nil {
		return f.Servers.open(ctx, f, url)
	}
	return f.openAlone(ctx, url)
}

func (f *File) openAlone(ctx context.Context, url string) (*target.DB, error) {
	note := f.Note
	if note == nil {
		note = func(string) {}
	}
	return target.Open(ctx, url, note)
}

// connect opens a database that can keep tables.
func (f *File) connect(ctx context.Context, url string) (*target.DB, engine.Keeper, error) {
	t, err := f.openTarget(ctx, url)
	if err != nil {
		return nil, nil, unreached(err, f.Declaration)
	}
	db, ok := t.DB.(engine.Keeper)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("target %s: it can't keep tables", f.Target), f.close(t))
	}
	return t, db, nil
}

// close closes a database, unless it is shared.
func (f *File) close(t *target.DB) error {
	if f.Servers != nil {
		return nil
	}
	return t.Close()
}

// unreached adds a hint to the error of an unreachable server: what to check. The hint suggests no
// other server, because a declared table has only its own.
func unreached(err error, d *rolling.Declaration) error {
	where := target.Host(d.Target)
	if where == "" || !errors.Is(err, engine.ErrUnreachable) || engine.HintOf(err) == "" {
		return err
	}
	return engine.Hinted(err, "check that the server runs and listens at %s, and that target in %s, or --target, names its host and port", where, d.Source)
}
