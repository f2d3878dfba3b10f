package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestBeginAsContextEnds ends contexts while transactions begin: Begin has an error, or the transaction is open. The session can be
// closed in both cases.
func TestBeginAsContextEnds(t *testing.T) {
	db, err := Open(t.Context(), engine.Target{Scheme: "sqlite"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 400 {
		s, err := db.ReadSession(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			for begin := time.Now(); time.Since(begin) < time.Duration(i)*200*time.Nanosecond; {
			}
			cancel()
			close(ended)
		}()
		begun := s.Begin(ctx, engine.Transaction{ReadOnly: true})
		<-ended
		if begun == nil {
			time.Sleep(50 * time.Microsecond) // for package sql
			if _, err := s.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Errorf("the transaction has begun, and isn't open: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v; begin: %v", err, begun)
		}
		if t.Failed() {
			break
		}
	}
}
