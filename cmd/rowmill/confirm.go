package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/textfile"
)

// confirm prints the plan on stderr and asks on stdin, unless yes is given, and so for what is
// asked by itself. Any answer but y or yes means no. An interrupt ends it at once; the read on
// stdin then continues until the process ends.
func (a *app) confirm(ctx context.Context, plan string, yes bool, alone ...string) error {
	in := bufio.NewReader(a.stdin)
	err := a.ask(ctx, in, plan, yes)
	for i := 0; i < len(alone) && err == nil; i++ {
		err = a.ask(ctx, in, alone[i]+"\n", yes)
	}
	return err
}

func (a *app) ask(ctx context.Context, in *bufio.Reader, plan string, yes bool) error {
	fmt.Fprint(a.stderr, plan)
	if yes {
		return nil
	}
	fmt.Fprint(a.stderr, "Continue? [y/N] ")
	answer, err := textfile.Await(ctx, func() (string, error) { return in.ReadString('\n') })
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(a.stderr)
		return stopped(ctx, errors.New("nothing was done"), "")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil { // the user did not end the line
		fmt.Fprintln(a.stderr)
	}
	return usagef("--yes, if you agree to the plan", "not confirmed; nothing was done")
}

// errStopped is the error of an interrupted command that is not a measurement.
var errStopped = errors.New("interrupted")

// byInterrupt reports whether an interrupt has ended the command.
func byInterrupt(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, errInterrupted) || errors.Is(err, errInterruptedEarly)
}

// withoutCanceled returns the error text of an interrupted command without the text
// that the canceled context added in each place: the interrupt already says that.
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

// stopped makes the error of an interrupted command say that it was interrupted, and
// what to do next unless that is "". It returns any other error unchanged.
func stopped(ctx context.Context, err error, format string, args ...any) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if !errors.Is(err, errStopped) {
		err = fmt.Errorf("%w: %w", errStopped, err)
	}
	if format == "" {
		return err
	}
	return engine.Hinted(err, format, args...)
}
