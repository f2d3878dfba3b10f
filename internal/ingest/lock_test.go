package ingest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowmill/rowmill/internal/ingest/format"
)

// TestHeadOf: the head consists of the existing bytes. Reading it doesn't wait
// for the rest of an unfinished last line.
func TestHeadOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "day.csv")
	must(t, os.WriteFile(path, []byte("a,b\n1"), 0o600))
	synctest.Test(t, func(t *testing.T) { // only waiting takes time
		began := time.Now()
		if head, err := headOf(t.Context(), path, func() (*format.Input, error) { return format.OpenFile(path, "") }); err != nil || string(head) != "a,b\n1" || time.Since(began) > 0 {
			t.Errorf("after %v: %q, %v", time.Since(began), head, err)
		}
	})
}
