//go:build !unix

package format

import (
	"context"
	"io"
)

// ready reports whether to continue reading. The read blocks until data arrives.
func ready(ctx context.Context, _ io.Reader) bool { return ctx.Err() == nil }
