package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// confirm shows on stderr what is about to be done, and asks on stdin unless
// yes is given. Anything but y or yes is a no.
func (a *app) confirm(plan string, yes bool) error {
	fmt.Fprint(a.stderr, plan)
	if yes {
		return nil
	}
	fmt.Fprint(a.stderr, "Go on? [y/N] ")
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil { // nobody is there to end the line
		fmt.Fprintln(a.stderr)
	}
	return usagef("--yes, once the plan is what you want", "not confirmed; nothing was done")
}
