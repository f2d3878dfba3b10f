package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
)

// keptFlags are the flags of every verb for a declared table.
type keptFlags struct {
	target string
	clock  string
}

func (f *keptFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "target", "", "database to use instead of the declaration's `URL`; for a table with [shards], the name of one node is possible, too")
	flags.StringVar(&f.clock, "clock", "", "for tests: take the current time from this `FILE`, which has a time such as 2026-03-29T01:00:00Z and is read again and again")
	_ = flags.MarkHidden("clock") // no error: the line above defines the flag
}

func (f *keptFlags) check() error {
	if f.clock == "" {
		return nil
	}
	if _, err := maintain.ClockFile(f.clock).Read(); err != nil {
		return cli.Usagef("a file with a time such as 2026-03-29T01:00:00Z", "--clock: %w", err)
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

// declared reads a declaration for a verb, with its flags.
func (a *app) declared(ctx context.Context, path string, f keptFlags) (*declared.File, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	file, err := declared.Read(ctx, path, f.target)
	if err != nil {
		return nil, err
	}
	file.Now, file.Note = f.present(), a.Note
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files = append(a.files, file)
	return file, nil
}

// privileges collects the grants that a verb needs, to print them once if a privilege is missing.
type privileges struct {
	mu    sync.Mutex
	files []*declared.File // the declarations that the verb has read
	needs []string         // statements that grant what the verb needs
	once  sync.Once
}

// printGrants prints all grants that the verb needs, but only once, and only if err says that a
// privilege is missing.
func (a *app) printGrants(err error) {
	if !errors.Is(err, engine.ErrDenied) {
		return
	}
	a.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		a.mu.Lock()
		files := slices.Clone(a.files)
		a.mu.Unlock()
		for _, f := range files {
			if statements, err := f.Grants(ctx, a.Args[0]); err == nil {
				a.needs = append(a.needs, statements...)
			}
		}
		if len(a.needs) > 0 { // else only the error's hint is shown
			a.LogLine("rowmill " + a.Args[0] + " needs:\n" + strings.Join(a.needs, ";\n") + ";")
		}
	})
}

// openApplied reads a declaration and opens its table, which must have been applied.
func (a *app) openApplied(ctx context.Context, path string, f keptFlags) (*declared.Table, error) {
	file, err := a.declared(ctx, path, f)
	if err != nil {
		return nil, err
	}
	return file.OpenApplied(ctx)
}
