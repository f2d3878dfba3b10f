package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/lane"
)

// maxNamed is how many files a message names.
const maxNamed = 20

// named lists the names of files, at most maxNamed.
func named(files []string) string {
	text := strings.Join(files[:min(len(files), maxNamed)], ", ")
	if n := len(files) - maxNamed; n > 0 {
		text += fmt.Sprintf(" and %s more", figure.Count(n))
	}
	return text
}

// expand replaces directories and patterns by the files that they name.
func (a loads) expand(sources []string, f *loadFlags) ([]string, error) {
	e, err := ingest.Expand(sources, f.Format.Kind != "")
	if err != nil {
		return nil, err
	}
	for what, paths := range map[string][]string{"left out": e.Left, "named twice, and loaded once": e.Twice} {
		if len(paths) > 0 {
			a.LogLine(what + ": " + named(paths))
		}
	}
	return e.Sources, nil
}

// badPath returns the path of the file for the rejected rows of a source. Without --bad, this is a
// file in the working directory. The file is named after the source, or after the table if the rows
// come from no file.
func (f *loadFlags) badPath(source, table string) string {
	path, end := f.Bad, ""
	if path == "" {
		end = ".bad.jsonl"
		if f.Dry {
			end = ".dry.jsonl"
		}
		if path = table; source != "-" && source != "" {
			path = filepath.Base(source)
		}
	}
	if f.node != "" { // each node has its own rows that can't be loaded
		path += "." + f.node
	}
	return path + end
}

// loadAll loads sources, and prints what became of each. If there are several sources, it also
// prints a summary.
func (a loads) loadAll(ctx context.Context, o ingest.Options, f loadFlags, sources []string, table string) error {
	if len(sources) == 0 {
		sources = []string{""}
	}
	several := len(sources) > 1
	m := ingest.Many{Options: o, Files: f.files, Bad: func(source string) string { return f.badPath(source, table) }, Stdin: a.Stdin}
	m.Options.Progress = a.sayLoad(sources[0], f.Dry)
	say := a.EveryTenth()
	m.Progress = func(p ingest.ManyProgress) { say(p.Text(f.Dry)) }
	if !f.withJSON {
		m.Done = func(one ingest.Outcome) {
			if several { // the summary has the reasons of all
				one.Why = lane.Why{}
			}
			a.StatusLine("")
			fmt.Fprintln(a.Stdout, one.Text())
		}
	}
	outcomes, errs, sum, failed := m.Run(ctx, sources)
	a.StatusLine("")
	failed = errors.Join(failed, ingest.Failures(outcomes, errs, maxNamed))
	if !f.withJSON && several {
		fmt.Fprintln(a.Stdout, sum.Text())
	}
	if left := ingest.NotBegun(sources, outcomes); len(left) > 0 {
		a.Note("not begun: " + named(left))
	}
	if f.withJSON {
		failed = errors.Join(failed, a.PrintFormat("rowmill.load/1", map[string]any{"sources": outcomes, "summary": sum}))
	}
	last := ingest.Outcome{}
	if len(outcomes) > 0 {
		last = outcomes[len(outcomes)-1]
	}
	return loadError(ctx, errors.Join(failed, sum.Err()), stoppedHint(last, sources[0], f.Spool))
}

// checkWatch returns the directory of --watch as the only source; without --watch, the sources.
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
