// Command rowmill keeps a SQL table's inserts fast long after the table has outgrown
// memory. It measures where a server's insert rate falls, converts tables to a layout
// whose rate doesn't, and reports both.
//
// This file runs the command line; each verb has a file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/live"
	"github.com/rowmill/rowmill/internal/tomlfile"
)

// Exit codes of rowmill.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	// exitRegression means that `rowmill compare --threshold` found a regression.
	exitRegression = 3
	// exitUnknown means that status can't tell the state of a table, or compare what --threshold asks.
	exitUnknown = 4
	// exitPipe is the exit code that shells give for a program ended by SIGPIPE.
	exitPipe = 141
	// exitInterrupted is the exit code that shells give for a program ended by Ctrl-C.
	exitInterrupted = 130
)

func main() {
	// The first signal ends the work cleanly. A second signal has its default effect
	// and kills the process. Programs such as timeout send a signal to the process and
	// at once to its group, which counts as one.
	first, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(first, func() { time.AfterFunc(live.SameSignal, release) })
	ctx, stop := untilHangUp(first)
	// A closed stderr must not end the run. With SIGPIPE caught, writing returns an
	// error, and only a lost result makes the command fail.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// untilHangUp returns a context that also ends when the terminal is closed. Both the
// shell and the kernel may send SIGHUP, so that a second one has no effect. Under
// nohup, SIGHUP stays ignored.
func untilHangUp(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// An app is a verb's access to its environment.
type app struct {
	stdin  io.Reader
	stdout *results
	stderr io.Writer
	args   []string
	// reached, unless nil, is called at each point that changes of several steps pass:
	// tests end the process there.
	reached func(point string)
	// logs is held while a line of a log is written to stderr, and guards files and lastLine.
	logs sync.Mutex
	// files are the declarations that were read, needs are statements that give the account what the
	// verb needs. They are printed once, by granted.
	files   []*declared.File
	needs   []string
	granted sync.Once
	// lastLine is the last line on the terminal, if it is rewritten.
	lastLine string
}

// run executes one command line and returns its exit code. Results go to
// stdout, progress and errors to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: &results{w: stdout}, stderr: stderr, args: args}
	return a.run(ctx)
}

func (a *app) run(ctx context.Context) int {
	stderr := a.stderr
	root := a.rootCommand()
	root.SetArgs(a.args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.stdout.failed
	}
	if err == nil {
		return exitDone
	}
	if errors.Is(err, context.Canceled) && !byInterrupt(err) {
		err = stopped(ctx, err, "")
	}
	if readerGone(err) {
		return exitPipe
	}
	text, wasInterrupted := err.Error(), byInterrupt(err)
	if wasInterrupted {
		text = withoutCanceled(text)
	}
	fmt.Fprintf(stderr, "rowmill: %s\n", text)
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(stderr, "Try: %s\n", hint)
	}
	a.printGrants(err)
	if bug, ok := errors.AsType[*engine.Bug](err); ok {
		fmt.Fprintf(stderr, "%s", bug.Stack)
	}
	var usage *usageError
	var refusal *experiment.Refusal
	var regression *regressionError
	switch {
	case errors.As(err, &regression):
		return exitRegression
	case wasInterrupted:
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &refusal), errors.Is(err, declared.ErrUsage):
		return exitUsage
	case errors.Is(err, errUnknown):
		return exitUnknown
	}
	return exitFailed
}

// A usageError is an invalid command line. Its exit code is 2.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef returns a usageError with a hint: the command or flag to try instead.
func usagef(hint, format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), hint}
}

func hintOf(err error) string {
	var usage *usageError
	if errors.As(err, &usage) && usage.hint != "" {
		return usage.hint
	}
	return experiment.Hint(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "rowmill",
		Short: "Measure, and keep, the insert rate of SQL tables that outgrow memory",
		Long: strings.TrimSpace(`
Measure, and keep, the insert rate of SQL tables that outgrow memory.

rowmill fills a table, plain and partitioned into periods, records the insert rate
as the table grows, and explains where and why it falls (bench, report, compare).
It maintains tables that a file declares, partitioned into periods by time, so that
inserts touch only pages in memory (plan, apply, run, status). It loads rows exactly
once (load), and answers queries over partitioned tables on all cores (query, serve).

A period is a time partition, a roll-up a continuous aggregate. To seal a period is
to count, checksum and freeze it once its time has passed.`),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,
	}
	root.SetFlagErrorFunc(badFlag)
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpCommand(helpCommand())
	root.AddCommand(benchmarks{a}.benchCommand())
	root.AddCommand(a.initCommand())
	root.AddCommand(a.doctorCommand())
	root.AddCommand(planner{a}.planCommand())
	root.AddCommand(a.applyCommand())
	root.AddCommand(runner{a}.runCommand())
	root.AddCommand(a.nowCommand())
	root.AddCommand(pauses{a}.pauseCommand())
	root.AddCommand(pauses{a}.resumeCommand())
	root.AddCommand(loads{a}.loadCommand())
	root.AddCommand(queries{a}.queryCommand())
	root.AddCommand(a.statusCommand())
	root.AddCommand(a.serveCommand())
	root.AddCommand(a.restoreCommand())
	root.AddCommand(a.rollupCommand())
	root.AddCommand(adoptions{a}.removeCommand())
	root.AddCommand(a.versionCommand())
	root.AddCommand(sandboxes{a}.sandboxCommand())
	root.AddCommand(a.reportCommand())
	root.AddCommand(comparisons{a}.compareCommand())
	root.AddCommand(copies{a}.copyCommand())
	completeValues(root)
	return root
}

// group runs a command that only has subcommands: it prints its help, and refuses an
// unknown subcommand.
func group(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	return unknown(c, args[0])
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
	return usagef(hint, "unknown command %q", c.CommandPath()+" "+name)
}

// badFlag is the error of a flag, with the one that was probably meant.
func badFlag(c *cobra.Command, err error) error {
	hint := c.CommandPath() + " --help"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		other := c.GlobalNormalizationFunc()
		if other != nil && c.Flags().Lookup("time") != nil {
			names = append(names, earlierTimes...)
		}
		if meant := tomlfile.Nearest("--"+unknown.GetSpecifiedName(), names); meant != "" {
			if other != nil {
				meant = "--" + string(other(nil, meant[2:]))
			}
			hint = "did you mean " + meant + "?"
		}
	}
	return usagef(hint, "%w", err)
}
