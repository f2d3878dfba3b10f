package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// A plannedRun is one of the runs, or searches for a rate, of a command.
type plannedRun struct {
	layout string
	// repeat counts from 1 to repeats; both are 0 if there is only one.
	repeat, repeats int
}

// planned returns the runs that the flags request, in order.
func (f *benchFlags) planned() []plannedRun {
	var out []plannedRun
	for round := range f.repeat {
		for _, layout := range inTurn(f.layouts, round) {
			p := plannedRun{layout: layout}
			if f.repeat > 1 {
				p.repeat, p.repeats = round+1, f.repeat
			}
			out = append(out, p)
		}
	}
	return out
}

func (p plannedRun) String() string {
	if p.repeat > 0 {
		return fmt.Sprintf("layout %s, repeat %d", p.layout, p.repeat)
	}
	return "layout " + p.layout
}

// insertRun returns the run, with the command to be recorded.
func (p plannedRun) insertRun(f benchFlags, command []string, out *recordFile, show progress) *insertRun {
	return &insertRun{f: f, layout: p.layout, args: command, repeat: p.repeat, repeats: p.repeats,
		measurement: measurement{out: out, show: show, interval: f.interval}}
}

// takeRecorded sets the flags to those of a recorded command. The returned set holds
// them and reports which were given.
func (f *benchFlags) takeRecorded(command []string) (*pflag.FlagSet, error) {
	if len(command) < 2 || command[0] != "bench" || command[1] != "insert" {
		return nil, fmt.Errorf("its command, %q, is no rowmill bench insert", strings.Join(command, " "))
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.define(set)
	if err := set.Parse(command[2:]); err != nil {
		return nil, fmt.Errorf("its command doesn't fit this version of rowmill: %w", err)
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("its command has an unexpected argument, %q", set.Arg(0))
	}
	f.complete(set)
	return set, nil
}
