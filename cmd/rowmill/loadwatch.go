package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/lane"
)

// checkWatch returns the sources with the watched directory.
func (f *loadFlags) checkWatch(sources []string) ([]string, error) {
	switch {
	case f.watch == "":
		return sources, nil
	case len(sources) > 0 || f.from.url != "" || f.list || f.Spool != "":
		return nil, cli.Usagef("rowmill load FILE.toml --watch DIRECTORY", "--watch names the source: it takes no other, and neither --from, --list nor --spool")
	case f.Dry || f.Again || f.AcceptMissing || f.Name != "":
		return nil, cli.Usagef("rowmill load FILE.toml SOURCE... for single files", "--watch loads each file once: it takes neither --dry-run, --again, --accept-missing nor --source")
	}
	info, err := os.Stat(f.watch)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: it is not a directory", f.watch)
	}
	if err != nil {
		return nil, cli.Usagef("an existing directory", "--watch: %w", err)
	}
	return []string{f.watch}, nil
}

// watch loads the files that appear in a directory until ctx ends.
func (a loads) watch(ctx context.Context, o ingest.Options, f loadFlags) error {
	a.Log("watches %s", f.watch)
	w := ingest.Watch{Options: o, Dir: f.watch, Any: f.Format.Kind != "",
		Bad:      func(source string) string { return f.badPath(source, o.Table.Name) },
		Progress: func(source string) func(lane.Progress) { return a.sayLoad(source, false) },
		Done: func(one ingest.Outcome) error {
			a.StatusLine("")
			if f.withJSON {
				return a.printLoads([]ingest.Outcome{one})
			}
			fmt.Fprintln(a.Stdout, one.Text())
			return nil
		}}
	failed, err := w.Run(ctx)
	if err != nil {
		return err
	}
	a.Log("ended; %s with bad rows or errors", figure.Plural(failed, "file", "files"))
	return nil
}
