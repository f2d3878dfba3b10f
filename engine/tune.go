package engine

import "context"

// A Tuner is a DB whose server takes other settings while it runs. It is asked
// of a DB by a type assertion: an engine that has no such settings is none.
type Tuner interface {
	// Tune changes a setting of the whole server, which connections made
	// afterwards have; whoever else uses the server has it too. A setting that
	// the server takes only at its start is ErrUnsupported. On an error nothing
	// is changed.
	Tune(ctx context.Context, name, value string) (Tuning, error)
}

// A Tuning is a setting that was changed.
type Tuning struct {
	// Before and Now are the server's own words for the values.
	Before, Now string
	// Undo sets it as it was. It is to be called with a context that still
	// runs, whatever happened meanwhile; it may be called again after an error.
	Undo func(ctx context.Context) error
}
