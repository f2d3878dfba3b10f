package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli/measure"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/experiment/scenario"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/tabular"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// flagChoices returns the values of flags that take one of a few values, or a list of
// them. The key is the flag's name or, if commands differ, the command's path and the
// flag's name. The text after a tab in a value explains it.
func flagChoices() map[string][]string {
	var presets []string
	for _, p := range workload.Presets() {
		presets = append(presets, p[0]+"\t"+p[1])
	}
	var kinds []string
	for _, k := range format.Kinds() {
		kinds = append(kinds, string(k))
	}
	var formats []string
	for _, f := range tabular.Formats() {
		formats = append(formats, string(f))
	}
	return map[string][]string{
		"preset":                     presets,
		"rowmill bench mixed preset": workload.MixedPresets(),
		"layout":                     workload.Layouts(),
		"method":                     experiment.Methods(),
		"durability":                 {sandbox.Full, sandbox.Relaxed, sandbox.None},
		"ways":                       result.ScanWays(),
		"ops":                        workload.MixedOperations(),
		"steps":                      workload.IbenchSteps(),
		"interval-format":            measure.IntervalFormats,
		"format":                     kinds,
		"unix-times":                 value.Units(),
		"bytes":                      value.Encodings(),
		"escape":                     {escapeDoubled, escapeBackslash},
		"encoding":                   format.Encodings(),
		"create-periods":             {createPeriods, createNoPeriods, createAnyPeriods},
		"lane":                       lane.Lanes,
		"snapshot":                   snapshots(),
		"rowmill query format":       formats,
		"on-duplicate":               {format.SkipDuplicate, format.UpdateDuplicate, format.RejectDuplicate},
	}
}

// completeValues registers shell completion for the values of flags below c, and for
// the names of scenarios.
func completeValues(c *cobra.Command) {
	choices := flagChoices()
	var below func(*cobra.Command)
	below = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			values, ok := choices[c.CommandPath()+" "+f.Name]
			if !ok {
				values, ok = choices[f.Name]
			}
			if !ok {
				return
			}
			_, list := f.Value.(pflag.SliceValue)
			// The flag exists and is registered once, so that no error is possible.
			_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				if list {
					return completeList(values, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
				}
				return values, cobra.ShellCompDirectiveNoFileComp
			})
		})
		for _, sub := range c.Commands() {
			below(sub)
		}
		if c.CommandPath() == "rowmill bench scenario" {
			c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return scenario.Names(), cobra.ShellCompDirectiveDefault // or a file
			}
		}
	}
	below(c)
}

// completeList returns the possible completions of a typed list: the list with its
// last value replaced by each value that it doesn't contain yet.
func completeList(values []string, typed string) []string {
	begun := typed[:strings.LastIndex(typed, ",")+1]
	var out []string
	for _, v := range values {
		name, _, _ := strings.Cut(v, "\t")
		if !slices.Contains(strings.Split(begun, ","), name) {
			out = append(out, begun+v)
		}
	}
	return out
}
