package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// flagChoices returns the possible values of flags that are no cli.Choice, mostly because they take
// a list of values. The key is the flag's name. If a command has other values for the flag than the
// rest, the key is the command's path and the flag's name. The text after a tab explains a value.
func flagChoices() map[string][]string {
	var presets []string
	for _, p := range workload.Presets() {
		presets = append(presets, p[0]+"\t"+p[1])
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
		"encoding":                   format.Encodings(),
	}
}

// finish changes the command c and all commands below it: the help of each lists the flags in the
// order of their definition, and shells complete the values of the flags.
func finish(c *cobra.Command) {
	choices := flagChoices()
	c.Flags().SortFlags = false
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values, ok := choices[c.CommandPath()+" "+f.Name]
		if choice, is := f.Value.(cli.Choice); is {
			values, ok = choice.Choices, true
		} else if !ok {
			values, ok = choices[f.Name]
		}
		if !ok {
			return
		}
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if _, list := f.Value.(pflag.SliceValue); list {
			complete = func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return completeList(values, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			}
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, complete) // fails only for an unknown flag or a second call
	})
	for _, sub := range c.Commands() {
		finish(sub)
	}
}

// completeList returns the possible completions of the last value of a typed list: "a,b" has the
// completion "a,beta".
func completeList(values []string, typed string) []string {
	begun := typed[:strings.LastIndex(typed, ",")+1]
	var out []string
	for _, v := range values {
		out = append(out, begun+v)
	}
	return out
}
