// Command rowmill keeps a SQL table's inserts fast long after the table has outgrown memory. It
// measures where a server's insert rate falls, converts tables to a layout whose insert rate
// doesn't fall, and reports the results.
//
// This file runs the command line; each verb has a file of its own.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/cli/measure"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/live"
)

// Exit codes of rowmill.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	// exitRegression means that `rowmill compare --threshold` found a regression.
	exitRegression = 3
	// exitUnknown means that the question has no answer: `rowmill status` can't tell a table's
	// state, or `rowmill compare --threshold` can't tell whether there is a regression.
	exitUnknown = 4
	// exitPipe is the exit code that shells give for a program ended by SIGPIPE.
	exitPipe = 141
	// exitInterrupted is the exit code that shells give for a program ended by Ctrl-C.
	exitInterrupted = 130
)

func main() {
	// The first signal ends the work cleanly. A second signal has its default effect and kills the
	// process. Programs such as timeout send a signal to the process, and at once another to its
	// group: these count as one signal.
	first, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(first, func() { time.AfterFunc(live.SameSignal, release) })
	ctx, stop := untilHangUp(first)
	// A closed stderr must not end the run. SIGPIPE is caught, so that writing to a closed stderr only
	// returns an error. Of the two outputs, only an error of stdout makes the command fail.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// untilHangUp returns a context that also ends when the terminal is closed. Both the shell and the
// kernel may send SIGHUP, and so a second SIGHUP has no effect. Under nohup, SIGHUP stays ignored.
func untilHangUp(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// An app is the environment of a verb that keeps tables.
type app struct {
	*cli.App
	// reached, unless nil, is called at each point between the steps of a change. Tests end the
	// process at such a point.
	reached func(point string)
	privileges
}

// newApp returns the app of one command line.
func newApp(args []string, stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{App: &cli.App{Stdin: stdin, Stdout: &cli.Results{W: stdout}, Stderr: stderr, Args: args, Version: thisBuild().Version}}
}

// run executes one command line and returns its exit code. Results go to
// stdout, progress and errors to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newApp(args, stdin, stdout, stderr).run(ctx)
}

func (a *app) run(ctx context.Context) int {
	root := a.rootCommand()
	root.SetArgs(a.Args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := cmp.Or(root.ExecuteContext(ctx), a.Stdout.Failed)
	if err == nil {
		return exitDone
	}
	if errors.Is(err, context.Canceled) && !byInterrupt(err) {
		err = cli.Stopped(ctx, err, "")
	}
	if cli.ReaderGone(err) {
		return exitPipe
	}
	text := err.Error()
	if byInterrupt(err) {
		text = withoutCanceled(text)
	}
	fmt.Fprintf(a.Stderr, "rowmill: %s\n", text)
	if hint := cli.HintOf(err); hint != "" {
		fmt.Fprintf(a.Stderr, "Try: %s\n", hint)
	}
	a.printGrants(err)
	if bug, ok := errors.AsType[*engine.Bug](err); ok {
		fmt.Fprintf(a.Stderr, "%s", bug.Stack)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage *cli.UsageError
	var refusal *experiment.Refusal
	switch {
	case errors.Is(err, cli.ErrRegression):
		return exitRegression
	case byInterrupt(err):
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &refusal), errors.Is(err, declared.ErrUsage):
		return exitUsage
	case errors.Is(err, cli.ErrUnknown):
		return exitUnknown
	}
	return exitFailed
}

// byInterrupt reports whether an interrupt has ended the command.
func byInterrupt(err error) bool {
	return errors.Is(err, cli.ErrStopped) || errors.Is(err, experiment.ErrInterrupted) || errors.Is(err, experiment.ErrInterruptedEarly)
}

// withoutCanceled removes "context canceled" from the error text of an interrupted command, which
// says "interrupted" already. It also removes lines that are then duplicates.
func withoutCanceled(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), ": "+context.Canceled.Error(), "")
		if line != "" && line != context.Canceled.Error() && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func (a *app) rootCommand() *cobra.Command {
	root := cli.Group(&cobra.Command{
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
	},
		measure.BenchCommand(a.App), a.initCommand(), a.doctorCommand(), planner{a}.planCommand(), a.applyCommand(), runner{a}.runCommand(), a.nowCommand(),
		pauses{a}.pauseCommand(), pauses{a}.resumeCommand(), loads{a}.loadCommand(), queries{a}.queryCommand(), a.statusCommand(), a.serveCommand(),
		a.restoreCommand(), a.rollupCommand(), adoptions{a}.removeCommand(), a.versionCommand(), sandboxes{a}.sandboxCommand(),
		measure.ReportCommand(a.App), measure.CompareCommand(a.App), copies{a}.copyCommand(),
	)
	root.SetFlagErrorFunc(cli.BadFlag)
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpCommand(cli.HelpCommand())
	finish(root)
	return root
}
