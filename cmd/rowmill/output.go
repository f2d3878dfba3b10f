package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"syscall"

	"github.com/charmbracelet/x/term"
)

// results writes results to standard output. It marks its own errors in order to
// distinguish a reader that has closed the pipe from a server that has closed the
// connection: writing to either fails with EPIPE.
type results struct {
	w io.Writer
	// failed is the first error: it fails the command, whatever its writer does with it.
	failed error
}

func (o *results) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = &outputError{err}
		o.failed = cmp.Or(o.failed, err)
	}
	return n, err
}

// columns returns the width of the terminal to which o writes; 0 if it is not a
// terminal.
func (o *results) columns() int {
	f, ok := o.w.(term.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return columns
}

// printJSON prints a result as indented JSON.
func (a *app) printJSON(v any) error {
	out := json.NewEncoder(a.stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// An outputError is a result that could not be written to standard output.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// readerGone reports whether the reader of standard output has closed it.
func readerGone(err error) bool {
	var failed *outputError
	return errors.As(err, &failed) && errors.Is(failed, syscall.EPIPE)
}
