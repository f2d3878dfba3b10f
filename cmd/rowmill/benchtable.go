package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/textfile"
)

// A tableFlags is a table of the user's for rowmill bench insert.
type tableFlags struct {
	file string
}

func (f *tableFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "table", "", "measure the table of this declaration, `FILE.toml`, in place of a preset's; needs --target,\nas the declaration's own target is never used")
}

// ownTable completes the Spec with the declared table, if there is one.
func (a *app) ownTable(ctx context.Context, f *benchFlags, flags *pflag.FlagSet) error {
	if f.table.file == "" {
		return nil
	}
	const try = "rowmill bench insert --table FILE.toml --target URL"
	for _, name := range []string{"preset", "indexes", "table-per-writer"} {
		if flags.Changed(name) {
			return usagef(try, "--%s is for presets: --table measures the table as it is declared", name)
		}
	}
	if !flags.Changed("target") {
		return usagef("--target "+target.ExampleServer, "--table needs --target: the declaration's own target may be in use, and is measured only if it is named")
	}
	text, err := textfile.Read(ctx, f.table.file)
	if err != nil {
		return engine.Hinted(usagef("", "--table: %w", err), "a declaration such as docs/declaration.md shows")
	}
	auto := flags.Changed("period-rows") && f.spec.PeriodRows == 0
	return f.spec.SetTable(&experiment.TableSpec{File: f.table.file, Declaration: string(text)}, auto)
}
