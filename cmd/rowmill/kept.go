package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/rolling"
)

// keptFlags are the flags of every verb for a declared table.
type keptFlags struct {
	target string
	clock  string
	// node is the name of the node whose table is meant, of a table on several; "" is all of them, or the only
	// server.
	node string
	// dry verbs change nothing: a missing SQLite file isn't created.
	dry bool
	// applied verbs require a table that has been applied.
	applied bool
}

func (f *keptFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "target", "", "database to use instead of the declaration's `URL`; of a table with [shards] also the name of one node")
	flags.StringVar(&f.clock, "clock", "", "read the current time from this `FILE`, as 2026-03-29T01:00:00Z, again and again; for tests")
	_ = flags.MarkHidden("clock") // the flag was defined on the line before
}

// check returns an error if the flags are invalid.
func (f *keptFlags) check() error {
	if f.clock == "" {
		return nil
	}
	if _, err := maintain.ClockFile(f.clock).Read(); err != nil {
		return usagef("a file with a time such as 2026-03-29T01:00:00Z", "--clock: %w", err)
	}
	return nil
}

// present returns the function that returns the present.
func (f *keptFlags) present() func() time.Time {
	if f.clock == "" {
		return time.Now
	}
	return maintain.ClockFile(f.clock).Now()
}

// A kept is a declared table and its open database.
type kept struct {
	*maintain.Table
	target *target.DB
	// named is the target that was requested, even if a temporary one is open in its
	// place.
	named string
}

// Close closes the database.
func (k *kept) Close() error { return k.target.Close() }

// readDeclaration reads and checks a declaration, and returns its text as well. A url
// that is not "" replaces the declaration's target.
func readDeclaration(ctx context.Context, file, url string) (*rolling.Declaration, []byte, error) {
	text, err := textfile.Read(ctx, file)
	if err != nil {
		return nil, nil, engine.Hinted(fmt.Errorf("read the declaration: %w", err), "a file such as docs/declaration.md shows")
	}
	d, err := rolling.ParseDeclarationFor(file, text, url)
	if err != nil {
		return nil, nil, &usageError{err, ""}
	}
	return d, text, nil
}

// declaredTarget returns the target of a declaration, as a list.
func declaredTarget(file string, d *rolling.Declaration) ([]string, error) {
	if d.Target == "" {
		return nil, usagef("target = \"mysql://USER@HOST/DB\" below [table], or --target URL", "%s: no target", file)
	}
	return []string{d.Target}, nil
}

// openKept reads a declaration and opens its table, which may not exist yet.
func (a *app) openKept(ctx context.Context, file string, f keptFlags) (_ *kept, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	d, err := f.declaration(ctx, file)
	if err != nil {
		return nil, err
	}
	return a.openDeclared(ctx, file, d, f)
}

// openDeclared opens a declared table, which may not exist yet.
func (a *app) openDeclared(ctx context.Context, file string, d *rolling.Declaration, f keptFlags) (_ *kept, err error) {
	if _, err := declaredTarget(file, d); err != nil {
		return nil, err
	}
	if f.sharded(d) {
		return nil, usagef("--target "+d.Shards.Nodes[0].Name+", for one of them", "table %s is on the nodes %s, and this is about one server", d.Name, nodeNames(d))
	}
	text := d.Target
	if missing := target.MissingFile(text); missing != "" && f.applied {
		return nil, engine.Hinted(fmt.Errorf("open %s: there is no such file", missing), "rowmill apply %s, which creates it", file)
	} else if missing != "" && f.dry {
		text = target.Temporary(text)
	}
	t, err := target.Open(ctx, text, func(line string) { fmt.Fprintln(a.stderr, line) })
	if err != nil {
		return nil, unreached(err, d.Target, file)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	db, ok := t.DB.(engine.Keeper)
	if !ok {
		return nil, fmt.Errorf("target %s: it can't keep tables", d.Target)
	}
	table, err := maintain.Open(ctx, db, d, f.present())
	if err != nil {
		return nil, err
	}
	table.Dir, table.Node = filepath.Dir(file), f.node
	named := db.Info().Target
	if text != d.Target {
		named = d.Target
	}
	return &kept{Table: table, target: t, named: named}, nil
}

// openApplied opens a table according to the declaration that was applied. A file that
// differs from it is refused.
func (a *app) openApplied(ctx context.Context, file string, f keptFlags) (_ *kept, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	d, err := f.declaration(ctx, file)
	if err != nil {
		return nil, err
	}
	return a.openAppliedOf(ctx, file, d, f)
}

func (a *app) openAppliedOf(ctx context.Context, file string, d *rolling.Declaration, f keptFlags) (*kept, error) {
	f.applied = true
	k, err := a.openDeclared(ctx, file, d, f)
	if err != nil {
		return nil, err
	}
	if err := k.wantApplied(ctx, file); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// wantApplied refuses a table that has not been applied, or whose applied declaration
// differs from the file.
func (k *kept) wantApplied(ctx context.Context, file string) error {
	err := k.CheckApplied(ctx)
	if err == nil || hintOf(err) != "" { // the hint names the missing privilege
		return err
	}
	return engine.Hinted(err, "rowmill apply %s", file)
}

// unreached adds a hint to the error of an unreachable server: what to check. It
// suggests no other server, because a declared table has only its own.
func unreached(err error, text, file string) error {
	var hint *engine.HintError
	where := target.Host(text)
	if where == "" || !errors.Is(err, engine.ErrUnreachable) || !errors.As(err, &hint) {
		return err
	}
	return engine.Hinted(err, "check that the server runs and listens at %s, and that target in %s, or --target, names its host and port", where, file)
}
