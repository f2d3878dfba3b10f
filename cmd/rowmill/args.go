package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/engine"
)

// wantArgs refuses fewer arguments than least, or more than most (-1: no limit), as a
// usage error. The command's own usage line describes the arguments.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		use := c.CommandPath() + strings.TrimPrefix(c.Use, c.Name())
		switch {
		case len(args) < least:
			return usagef(use, "%s needs %s", c.CommandPath(), strings.TrimSpace(strings.TrimPrefix(c.Use, c.Name())))
		case most == 0 && len(args) > 0:
			return usagef(use, "%s takes no arguments, and got %q", c.CommandPath(), args[0])
		case most >= 0 && len(args) > most:
			return usagef(use, "%s: unexpected argument %q", c.CommandPath(), args[most])
		}
		return nil
	}
}

// helpCommand is cobra's help command, except that it refuses an unknown topic.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Long:  "Help about any command.\n\nTouches no server.",
		RunE: func(c *cobra.Command, args []string) error {
			about := c.Root()
			for _, name := range args {
				i := slices.IndexFunc(about.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name || sub.HasAlias(name) })
				if i < 0 {
					return unknown(about, name)
				}
				about = about.Commands()[i]
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// leastMemory is the smallest memory for which a plan is made, in bytes. A smaller
// value is a size whose unit was forgotten.
const leastMemory = 1e6

// parseMemory parses --memory.
func parseMemory(text string) (int64, error) {
	n, err := engine.ParseBytes(text)
	if err != nil {
		return 0, usagef("--memory 8GB", "--memory %q is not a size", text)
	}
	if n < leastMemory {
		return 0, usagef("--memory "+text+"GB", "--memory %s is %d bytes, less than any server has: add a unit, such as GB", text, n)
	}
	return n, nil
}
