package ingest

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
)

var must = enginetest.Must

// TestBatchesDropped ends a load while batches of it wait to be sent: the room that they took
// is free for other loads of the same command.
func TestBatchesDropped(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	o := &Options{Sending: lane.Sending{DB: db, Dry: true, Rows: 1, Writers: 1, Bad: filepath.Join(t.TempDir(), "bad")}}
	common, err := lane.New(&o.Sending, nil)
	must(t, err)
	common.Source = &state.Source{}
	l := &fileLoad{opt: o, Load: common}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := format.NewCutter(t.Context(), strings.NewReader(strings.Repeat("1\n", 1000)), &format.Format{Kind: format.CSV, NoHeader: true}, 1, 4<<20, 0)
	out, taken := make(chan *lane.Batch), make(chan bool)
	go func() {
		defer close(taken)
		for b := range out {
			cancel() // the first one failed
			l.Unhold(b)
		}
	}()
	if err := l.batches(ctx, c, nil, out); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(out)
	<-taken
	ctx, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if err := l.Hold(ctx, &lane.Batch{Batch: &format.Batch{Data: make([]byte, lane.DefaultBytes)}}); err != nil {
		t.Error("batches that are not sent take room:", err)
	}
}
