package declared

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/target"
)

// A Table is a declared table on one server, with its open database.
type Table struct {
	*maintain.Table
	Target *target.DB
	// Named is the target that was requested, even if a temporary one is open in its place.
	Named string

	file *File
}

// Close closes the database, unless it is shared.
func (t *Table) Close() error { return t.file.close(t.Target) }

// Open opens the table, which may not exist yet.
func (f *File) Open(ctx context.Context) (*Table, error) { return f.openLocked(ctx, false) }

// openLocked opens a table that will be changed. It fails if other nodes of a cluster ignore locks.
func (f *File) openLocked(ctx context.Context, applied bool) (*Table, error) {
	t, err := f.open(ctx, applied)
	if err != nil {
		return nil, err
	}
	if node, ok := t.DB.(engine.ClusterNode); ok {
		if err := node.LocalLocks(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", t.Named, err), t.Close())
		}
	}
	return t, nil
}

// OpenApplied opens a table according to the declaration that was applied. It refuses a file that
// differs from this declaration.
func (f *File) OpenApplied(ctx context.Context) (*Table, error) {
	t, err := f.openLocked(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := t.wantApplied(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// open opens the table. With applied, it is an error if the table's SQLite file doesn't exist.
func (f *File) open(ctx context.Context, applied bool) (_ *Table, err error) {
	if err := WantTarget(f.Declaration); err != nil {
		return nil, err
	}
	if f.Sharded() {
		return nil, usage("--target "+f.Shards.Nodes[0].Name+", for one of them", "table %s is on the nodes %s, and this is about one server", f.Name, f.Shards.Names())
	}
	url := f.Target
	if missing := target.MissingFile(url); missing != "" && applied {
		return nil, engine.Hinted(fmt.Errorf("open %s: there is no such file", missing), "rowmill apply %s, which creates it", f.Source)
	} else if missing != "" && f.Dry {
		url = target.Temporary(url)
	}
	t, db, err := f.connect(ctx, url)
	if err != nil {
		return nil, err
	}
	now := f.Now
	if now == nil {
		now = time.Now
	}
	table, err := maintain.Open(ctx, db, f.Declaration, now)
	if err != nil {
		return nil, errors.Join(err, f.close(t))
	}
	table.Dir, table.Node = filepath.Dir(f.Source), f.Node
	named := db.Info().Target
	if url != f.Target {
		named = f.Target
	}
	return &Table{Table: table, Target: t, Named: named, file: f}, nil
}

// wantApplied refuses a table that has not been applied, or whose applied declaration
// differs from the file.
func (t *Table) wantApplied(ctx context.Context) error {
	err := t.CheckApplied(ctx)
	if err == nil || engine.HintOf(err) != "" { // the hint names the missing privilege
		return err
	}
	return engine.Hinted(err, "rowmill apply %s", t.Declared.Source)
}

// Status returns the status of the table. For a table on several servers, it returns the status of
// each node, even of one that can't be reached, and of the head if it has a problem.
func (f *File) Status(ctx context.Context) ([]*maintain.Status, error) {
	if f.Sharded() {
		return f.statusOfNodes(ctx)
	}
	s, err := f.status(ctx)
	return []*maintain.Status{s}, err
}

func (f *File) status(ctx context.Context) (_ *maintain.Status, err error) {
	t, err := f.open(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	// A table that is being adopted has not been applied yet.
	if s, err := t.AdoptionStatus(ctx); err != nil || s != nil {
		return s, err
	}
	return t.appliedStatus(ctx)
}

// appliedStatus returns the status of the table according to the declaration that was applied. If
// the file differs from that declaration, this is one of the status's problems.
func (t *Table) appliedStatus(ctx context.Context) (*maintain.Status, error) {
	differs := t.wantApplied(ctx)
	if differs != nil && !errors.Is(differs, maintain.ErrOtherDeclaration) {
		return nil, differs
	}
	s, err := t.Status(ctx)
	if err == nil && differs != nil {
		s.Problems = append(s.Problems, maintain.Problem{Code: maintain.Declaring, Text: differs.Error(), Try: engine.HintOf(differs)})
	}
	return s, err
}
