package cli

import (
	"cmp"
	"errors"
	"io"
	"syscall"

	"github.com/charmbracelet/x/term"
)

// Results is standard output. It marks errors of writing to standard output, so that ReaderGone can
// tell their EPIPE from an EPIPE of a server's connection.
type Results struct {
	W io.Writer
	// Failed is the first error of Write. It fails the command, even if the verb ignores it.
	Failed error
}

func (o *Results) Write(p []byte) (int, error) {
	n, err := o.W.Write(p)
	if err != nil {
		err = &outputError{err}
		o.Failed = cmp.Or(o.Failed, err)
	}
	return n, err
}

// Columns returns the width of the terminal, or 0 if standard output is no terminal.
func (o *Results) Columns() int { return columns(o.W) }

func columns(w io.Writer) int {
	f, ok := w.(term.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return columns
}

// An outputError is a result that could not be written to standard output.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// ReaderGone reports whether the reader of standard output has closed it.
func ReaderGone(err error) bool {
	failed, ok := errors.AsType[*outputError](err)
	return ok && errors.Is(failed, syscall.EPIPE)
}
