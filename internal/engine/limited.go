package engine

import "context"

// A Limited is a Keeper whose server hides some information from accounts without a
// privilege that is needed for nothing else.
type Limited interface {
	// Hidden returns the information hidden from the account.
	Hidden(ctx context.Context) ([]Hidden, error)
}

// Hidden is information that is hidden from an account.
type Hidden struct {
	// What is a list of the information, for users; Grant the statement that makes
	// it visible.
	What, Grant string
}
