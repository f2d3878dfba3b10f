package probe

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSyncs(t *testing.T) {
	dir := t.TempDir()
	files := func() []os.DirEntry {
		t.Helper()
		out, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, last := 0, time.Time{}
	err := Syncs(ctx, dir, func(s Sync) {
		if in := files(); len(in) != 1 {
			t.Errorf("it has %d files", len(in))
		} else if info, err := in[0].Info(); err != nil || info.Size() != syncSize {
			t.Errorf("its file: %v, %v", info, err)
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
	if in := files(); len(in) != 0 {
		t.Errorf("it left %v", in)
	}
	if err := Syncs(t.Context(), filepath.Join(dir, "nowhere"), func(Sync) { t.Error("it wrote nowhere") }); err == nil {
		t.Error("a directory that isn't there is taken")
	}
}
