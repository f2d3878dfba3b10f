package ingest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestAgreesWithEndingLoad: the load of a file ends after its source was read, and before its cuts
// are: a file with the same bytes is known nevertheless.
func TestAgreesWithEndingLoad(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	st := state.New(db)
	must(t, st.Ensure(t.Context()))
	path, data := filepath.Join(t.TempDir(), "copy.csv"), []byte("ts\n2026-03-29\n")
	must(t, os.WriteFile(path, data, 0o600))
	o := &Options{Sending: lane.Sending{DB: db, Reading: format.Reading{Table: &engine.Table{Name: "readings"}}, Bad: filepath.Join(t.TempDir(), "bad")}}
	common, err := lane.New(&o.Sending, nil)
	must(t, err)
	l := &fileLoad{Load: common, opt: o, path: path, format: format.Format{Kind: format.CSV}}
	for _, end := range []bool{false, true} {
		s := state.Source{Table: "readings", Path: "day.csv", Kind: state.FileSource, Key: newKey(), Started: time.Now()}
		must(t, st.BeginSource(t.Context(), &s, []state.Cut{{To: int64(len(data)), Line: 1, Lines: 2, Hash: format.HashOf(data)}}))
		read := s
		if s.Loaded, s.Hash, s.Finished = int64(len(data)), format.HashOf(data), true; end {
			must(t, st.Settle(t.Context(), &s, nil))
		}
		if is, err := l.agrees(t.Context(), &read); !is || err != nil || read.Finished != end {
			t.Errorf("ended %v: %v, %v, finished %v", end, is, err, read.Finished)
		}
	}
}
