package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/lane"
)

// maxLines is how many sources without anything unusual are listed on a terminal, and
// how many files that are left out are named.
const maxLines = 20

// expand replaces directories and patterns by the files that they name.
func (a loads) expand(sources []string, f *loadFlags) ([]string, error) {
	e, err := ingest.Expand(sources, f.Format.Kind != "")
	if err != nil {
		return nil, err
	}
	for what, paths := range map[string][]string{"left out": e.Left, "named twice, and loaded once": e.Twice} {
		for i, path := range paths {
			if i == maxLines {
				a.LogLine(fmt.Sprintf("%s: %s more", what, figure.Count(len(paths)-i)))
				break
			}
			a.LogLine(what + ": " + path)
		}
	}
	return e.Sources, nil
}

// badPath returns the path of the file for the rejected rows of a source: that of --bad, otherwise
// one in the working directory with the source's name, or that of the table for rows from no file.
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
	if f.node != "" { // each node has rows of its own that can't be loaded
		path += "." + f.node
	}
	return path + end
}

// loadAll loads sources, prints what became of each and, of several, their summary.
func (a loads) loadAll(ctx context.Context, o ingest.Options, f loadFlags, sources []string, table string) error {
	if len(sources) == 0 {
		sources = []string{""}
	}
	several := len(sources) > 1
	m := ingest.Many{Options: o, Files: f.files, Bad: func(source string) string { return f.badPath(source, table) }, Stdin: a.Stdin}
	m.Options.Progress = a.sayLoad(sources[0], f.Dry)
	say := a.EveryTenth()
	m.Progress = func(p ingest.ManyProgress) { say(p.Text(f.Dry)) }
	quiet, usual := several && a.Stdout.Columns() > 0, 0
	if !f.withJSON {
		m.Done = func(one ingest.Outcome) {
			if quiet && !one.Unusual() {
				if usual++; usual > maxLines {
					return
				}
			}
			if several { // the summary has the reasons of all
				one.Why = lane.Why{}
			}
			a.StatusLine("")
			fmt.Fprintln(a.Stdout, one.Text())
		}
	}
	outcomes, errs, sum, failed := m.Run(ctx, sources)
	a.StatusLine("")
	failed = errors.Join(failed, ingest.Failures(outcomes, errs, maxLines))
	if !f.withJSON && several {
		if usual > maxLines {
			fmt.Fprintf(a.Stdout, "... and %s without bad rows\n", figure.Plural(usual-maxLines, "other file", "other files"))
		}
		fmt.Fprintln(a.Stdout, sum.Text())
	}
	a.sayNotBegun(sources, outcomes)
	if f.withJSON {
		failed = errors.Join(failed, a.PrintJSON(struct {
			Format  string           `json:"format"`
			Sources []ingest.Outcome `json:"sources"`
			Summary ingest.Summary   `json:"summary"`
		}{"rowmill.load/1", outcomes, sum}))
	}
	failed = errors.Join(failed, sum.Err())
	if many := tooMany(failed); many != nil {
		return many
	}
	last := ingest.Outcome{}
	if len(outcomes) > 0 {
		last = outcomes[len(outcomes)-1]
	}
	return cli.Stopped(ctx, failed, "%s", stoppedHint(last, sources[0], f.Spool))
}

// sayNotBegun names the sources that were not reached.
func (a loads) sayNotBegun(sources []string, outcomes []ingest.Outcome) {
	left := ingest.NotBegun(sources, outcomes)
	if len(left) == 0 {
		return
	}
	line := "not begun: " + strings.Join(left[:min(len(left), maxLines)], ", ")
	if n := len(left) - maxLines; n > 0 {
		line += fmt.Sprintf(" and %s more", figure.Count(n))
	}
	fmt.Fprintln(a.Stderr, line)
}
