package main

import (
	"context"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestSandboxesWithoutNames checks that a server without a name is called after its kind: one of
// another kind is another.
func TestSandboxesWithoutNames(t *testing.T) {
	if apart(t) {
		return
	}
	kinds := []string{"postgres", "mariadb"}
	for _, kind := range kinds {
		testdb.Target(t, kind) // skips without the server
	}
	t.Chdir(t.TempDir())
	t.Cleanup(func() { mustPass(t, rowmill(context.Background(), "sandbox", "stop", "--all", "--yes")) })
	for _, kind := range kinds {
		args := []string{"sandbox", "start", "--target", "sandbox:" + kind + "?memory=32MB&redo=32MB&durability=none"}
		s := rowmill(t.Context(), args...)
		mustPass(t, s)
		if !strings.Contains(s.stdout, "rowmill sandbox stop "+kind+"\n") {
			t.Errorf("%s", s.stdout)
		}
		if s := rowmill(t.Context(), args...); s.code != exitFailed || !strings.Contains(s.stderr, "start sandbox "+kind+": it is running already") {
			t.Errorf("a second one: exit %d, %s", s.code, s.stderr)
		}
	}
}
