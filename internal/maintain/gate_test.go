package maintain

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestGate: a change waits for statements that read the table, but not longer than
// gateWait, and new ones wait for the change only, not for older statements.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		endRead, began := g.read(), time.Now()
		change := g.change(t.Context())
		if waited := time.Since(began); waited != gateWait {
			t.Errorf("a change waited %v for a statement that reads, want %v", waited, gateWait)
		}
		read := false
		go func() { g.read()(); read = true }()
		if synctest.Wait(); read {
			t.Error("a statement began during a change")
		}
		second := g.change(t.Context()) // a change of another lane
		change()
		if synctest.Wait(); read {
			t.Error("a statement began during the second change")
		}
		second()
		if synctest.Wait(); !read {
			t.Error("a statement waited for one that reads, after the changes had ended")
		}
		endRead()
		began = time.Now()
		g.change(t.Context())()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a change waited %v without statements that read", waited)
		}
	})
}
