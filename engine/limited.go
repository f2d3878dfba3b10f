package engine

import "context"

// A Limited is a Keeper whose server shows some of what it is asked only to
// accounts with a privilege that is not needed for anything else.
type Limited interface {
	// Hidden returns what the account isn't shown.
	Hidden(ctx context.Context) ([]Hidden, error)
}

// Hidden is something that an account isn't shown.
type Hidden struct {
	// What it is, as a list for people; Grant the statement that has it shown.
	What, Grant string
}
