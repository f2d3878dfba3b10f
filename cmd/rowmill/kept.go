package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/maintain"
	"github.com/rowmill/rowmill/rolling"
)

// keptFlags are those of every verb that is about a declared table.
type keptFlags struct {
	target string
	clock  string
}

func (f *keptFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "target", "", "database to use instead of the declaration's `URL`")
	flags.StringVar(&f.clock, "clock", "", "take the present from this `FILE`, as 2026-03-29T01:00:00Z, at each look; for tests")
	_ = flags.MarkHidden("clock") // it is defined the line before
}

// present returns what tells the time.
func (f *keptFlags) present() func() time.Time {
	if f.clock == "" {
		return time.Now
	}
	var mu sync.Mutex
	var last time.Time
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		text, err := os.ReadFile(f.clock)
		if err != nil {
			return last
		}
		if at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text))); err == nil {
			last = at
		}
		return last
	}
}

// A kept is a declared table and its open database.
type kept struct {
	*maintain.Table
	target *target
}

// Close closes the database.
func (k *kept) Close() error { return k.target.close() }

// readDeclaration reads and checks a declaration, for another target than its
// own if one is given.
func readDeclaration(file, target string) (*rolling.Declaration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, engine.Hinted(fmt.Errorf("read the declaration: %w", err), "a file such as docs/declaration.md shows")
	}
	d, err := rolling.ParseDeclarationFor(file, text, target)
	if err != nil {
		return nil, &usageError{err, ""}
	}
	return d, nil
}

// openKept reads a declaration and opens its table, which need not be there.
func (a *app) openKept(ctx context.Context, file string, f keptFlags) (_ *kept, err error) {
	d, err := readDeclaration(file, f.target)
	if err != nil {
		return nil, err
	}
	if d.Target == "" {
		return nil, usagef("target = \"mysql://USER@HOST/DB\" below [table], or --target URL", "%s: no target", file)
	}
	t, err := openTarget(ctx, d.Target, func(line string) { fmt.Fprintln(a.stderr, line) })
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	db, ok := t.DB.(engine.Keeper)
	if !ok {
		return nil, fmt.Errorf("target %s: it keeps no tables", d.Target)
	}
	table, err := maintain.Open(ctx, db, d, f.present())
	if err != nil {
		return nil, err
	}
	table.Dir = filepath.Dir(file)
	return &kept{Table: table, target: t}, nil
}

// openApplied opens a table that has been applied, by what was applied. A file
// that says something else is refused.
func (a *app) openApplied(ctx context.Context, file string, f keptFlags) (_ *kept, err error) {
	k, err := a.openKept(ctx, file, f)
	if err != nil {
		return nil, err
	}
	if err := k.CheckApplied(ctx); err != nil {
		return nil, errors.Join(engine.Hinted(err, "rowmill apply %s", file), k.Close())
	}
	return k, nil
}
