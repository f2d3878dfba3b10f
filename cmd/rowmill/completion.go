package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/ingest"
	"github.com/rowmill/rowmill/sandbox"
	"github.com/rowmill/rowmill/scenario"
	"github.com/rowmill/rowmill/workload"
)

// methods are the insert methods, some of which only one engine has.
func methods() []string {
	return []string{string(engine.Single), string(engine.Multi), string(engine.Prepared), string(engine.Pipeline), string(engine.Load)}
}

// flagChoices are the values of flags that take one of a few, or a list of
// them, by the flag's name or, where commands differ, the command's path and it.
// What follows a tab explains a value.
func flagChoices() map[string][]string {
	var presets []string
	for _, p := range workload.Presets() {
		presets = append(presets, p[0]+"\t"+p[1])
	}
	var kinds []string
	for _, k := range ingest.Kinds() {
		kinds = append(kinds, string(k))
	}
	return map[string][]string{
		"preset":                     presets,
		"rowmill bench mixed preset": workload.MixedPresets(),
		"layout":                     workload.Layouts(),
		"method":                     methods(),
		"durability":                 {sandbox.Full, sandbox.Relaxed, sandbox.None},
		"ops":                        workload.MixedOperations(),
		"steps":                      workload.IbenchSteps(),
		"interval-format":            {string(formatRowmill), string(formatIbench)},
		"format":                     kinds,
		"unix-times":                 {"s", "ms", "us", "ns"},
		"bytes":                      {ingest.Hex, ingest.Base64, ingest.Raw},
		"duplicates":                 {ingest.SkipDuplicates, ingest.RejectDuplicates},
	}
}

// completeValues has shells complete the values of flags below c, and the names
// of scenarios.
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
			// The flag is there, and registered once: nothing else fails.
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

// completeList returns the lists that what was typed may become: it, with one of
// the values that it doesn't have yet in the place of its last.
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
