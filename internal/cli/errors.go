package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

// A UsageError is an invalid command line.
type UsageError struct {
	err  error
	hint string
}

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// Usagef returns a UsageError with a hint: the command or flag to try instead, or "".
func Usagef(hint, format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...), hint}
}

// HintOf returns what to try after an error, or "".
func HintOf(err error) string {
	if usage, ok := errors.AsType[*UsageError](err); ok && usage.hint != "" {
		return usage.hint
	}
	return engine.HintOf(err)
}

var (
	// ErrRegression is the class of an error that a comparison has shown a regression.
	ErrRegression = errors.New("a regression is shown")
	// ErrUnknown is the class of errors for a question that can't be answered, such as the state of a
	// table, or whether there is a regression.
	ErrUnknown = errors.New("the state is unknown")
	// ErrStopped is the error of an interrupted command. A measurement has errors of its own:
	// experiment.ErrInterrupted and experiment.ErrInterruptedEarly.
	ErrStopped = errors.New("interrupted")
)

// Stopped adds ErrStopped to the error of a command whose context has ended, with a hint what to do
// next unless format is "". It returns any other error unchanged.
func Stopped(ctx context.Context, err error, format string, args ...any) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	if format == "" {
		return err
	}
	return engine.Hinted(err, format, args...)
}
