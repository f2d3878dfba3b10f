package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rowmill/rowmill/internal/textfile"
)

// Confirm prints a plan on stderr and asks on stdin whether to continue, unless yes is set. Each
// text in alone is a consequence for which it asks a separate question. Any answer but y or yes
// means no. An interrupt ends Confirm at once; the read of stdin goes on until the process ends.
func (a *App) Confirm(ctx context.Context, plan string, yes bool, alone ...string) error {
	in := bufio.NewReader(a.Stdin)
	err := a.ask(ctx, in, plan, yes)
	for i := 0; i < len(alone) && err == nil; i++ {
		err = a.ask(ctx, in, alone[i]+"\n", yes)
	}
	return err
}

func (a *App) ask(ctx context.Context, in *bufio.Reader, plan string, yes bool) error {
	fmt.Fprint(a.Stderr, plan)
	if yes {
		return nil
	}
	fmt.Fprint(a.Stderr, "Continue? [y/N] ")
	answer, err := textfile.Await(ctx, func() (string, error) { return in.ReadString('\n') })
	if err != nil { // the user ended the input without a newline
		fmt.Fprintln(a.Stderr)
	}
	switch answer = strings.ToLower(strings.TrimSpace(answer)); {
	case err != nil && ctx.Err() != nil:
		return Stopped(ctx, errors.New("nothing was done"), "")
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("read the answer: %w", err)
	case answer == "y" || answer == "yes":
		return nil
	}
	return Usagef("--yes, if you agree to the plan", "not confirmed; nothing was done")
}
