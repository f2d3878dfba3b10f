package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/tomlfile"
)

// WantArgs refuses fewer arguments than least, or more than most (-1: no limit). The command's own
// usage line describes the arguments.
func WantArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		wanted := strings.TrimPrefix(c.Use, c.Name())
		use := c.CommandPath() + wanted
		switch {
		case len(args) < least:
			return Usagef(use, "%s needs %s", c.CommandPath(), strings.TrimSpace(wanted))
		case most == 0 && len(args) > 0:
			return Usagef(use, "%s takes no arguments, and got %q", c.CommandPath(), args[0])
		case most >= 0 && len(args) > most:
			return Usagef(use, "%s: unexpected argument %q", c.CommandPath(), args[most])
		}
		return nil
	}
}

// Group makes a command that only has subcommands: without arguments it prints its help, and an
// unknown subcommand is refused.
func Group(c *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknown(c, args[0])
	}
	c.AddCommand(subcommands...)
	return c
}

// unknown refuses the name of a subcommand.
func unknown(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	hint := c.CommandPath() + " --help"
	if len(names) > 0 {
		hint = tomlfile.DidYouMean(name, names)
	}
	return Usagef(hint, "unknown command %q", c.CommandPath()+" "+name)
}

// BadFlag makes a usage error of a flag's error. Its hint is the flag that was probably meant.
func BadFlag(c *cobra.Command, err error) error {
	hint := c.CommandPath() + " --help"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		if meant := tomlfile.Nearest("--"+unknown.GetSpecifiedName(), names); meant != "" {
			hint = "did you mean " + meant + "?"
		}
	}
	return Usagef(hint, "%w", err)
}

// HelpCommand is cobra's help command, except that it refuses an unknown topic.
func HelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Long:  "Help about any command.\n\nTouches no server.",
		RunE: func(c *cobra.Command, args []string) error {
			about := c.Root()
			for _, name := range args {
				i := slices.IndexFunc(about.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name })
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
