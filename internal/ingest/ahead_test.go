package ingest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAhead makes cut batches wait for room, measured in bytes.
func TestAhead(t *testing.T) {
	var a ahead
	if err := a.take(t.Context(), 2*aheadBytes); err != nil { // a batch that exceeds the limit is admitted alone
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := a.take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("taken beside it: %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- a.take(t.Context(), aheadBytes) }()
	a.give(2 * aheadBytes)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if a.bytes != aheadBytes {
		t.Errorf("%d bytes are held", a.bytes)
	}
}
