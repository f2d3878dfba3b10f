package probe

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSyncs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "synced")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, last := 0, time.Time{}
	err := Syncs(ctx, path, func(s Sync) {
		info, err := os.Stat(path)
		if err != nil || info.Size() != syncSize {
			t.Errorf("the file: %v, %v", info, err)
		}
		if s.Took <= 0 || s.Began.Before(last.Add(SyncEvery/2)) {
			t.Errorf("a write that took %v, %v after the one before", s.Took, s.Began.Sub(last))
		}
		last = s.Began
		if n++; n == 3 {
			cancel()
		}
	})
	if err != nil || n != 3 {
		t.Errorf("%d writes, %v", n, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it left its file: %v", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Syncs(t.Context(), path, func(Sync) { t.Error("it wrote to a file that was there") }); err == nil {
		t.Error("a file that was there is taken")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("a file that was there: %q, %v", text, err)
	}
}
