package engine

import "context"

// A Tuner is a DB whose server can change settings at runtime. Callers use a type
// assertion: an engine without such settings doesn't implement it.
type Tuner interface {
	// Tune changes a global setting of the server. It applies to connections opened
	// afterwards, including those of other users. A setting that the server reads
	// only at its start is ErrUnsupported. After an error nothing is changed.
	Tune(ctx context.Context, name, value string) (Tuning, error)
}

// A Tuning is a changed setting.
type Tuning struct {
	// Before and Now are the values in the server's notation.
	Before, Now string
	// Undo restores the setting. Call it in any case, with a context that has not
	// ended; it may be called again after an error.
	Undo func(ctx context.Context) error
}
