package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/ingest/spool"
	"github.com/rowmill/rowmill/internal/state"
)

const (
	// Committed batches are removed from the spool together: once there are acknowledgeEach of them,
	// or once acknowledgeAfter has passed.
	acknowledgeEach  = 64
	acknowledgeAfter = time.Second
)

// An acknowledger notes in the database up to where a spool is committed, and releases that part.
type acknowledger struct {
	*lane.Load
	sp *spool.Spool

	mu   sync.Mutex
	at   int64               // all records below this offset are committed
	next []int64             // start offsets of the batches above at, in order
	done map[int64]committed // committed batches above at, by start offset
	ids  []string            // IDs of batches below at that are still in the ledger
	sums state.Counts        // the rows of the batches in ids
	n    int                 // the number of batches in ids; a joined batch has several IDs
	last time.Time
}

// A committed batch of the spool.
type committed struct {
	to   int64
	ids  []string
	rows state.Counts
}

func (s *acknowledger) expect(b *format.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, b.From)
}

func (s *acknowledger) add(ctx context.Context, b *format.Batch, noted state.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[b.From] = committed{b.To, b.IDs(s.Source.Key), noted.Counts}
	for len(s.next) > 0 {
		part, there := s.done[s.next[0]]
		if !there {
			break
		}
		delete(s.done, s.next[0])
		s.next, s.at, s.ids = s.next[1:], part.to, append(s.ids, part.ids...)
		s.n++
		s.sums.Add(part.rows)
	}
	if s.n < acknowledgeEach && time.Since(s.last) < acknowledgeAfter {
		return nil
	}
	return s.acknowledgeLocked(ctx)
}

// each acknowledges batches every second until ctx ends. It drops errors: they'd recur in add.
func (s *acknowledger) each(ctx context.Context) {
	for engine.Sleep(ctx, acknowledgeAfter) == nil {
		_ = s.acknowledge(ctx)
	}
}

func (s *acknowledger) acknowledge(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acknowledgeLocked(ctx)
}

func (s *acknowledger) acknowledgeLocked(ctx context.Context) error {
	s.last = time.Now()
	if s.at == s.Source.Loaded {
		return nil
	}
	f := *s.Source
	f.Loaded = s.at
	f.Add(s.sums)
	if err := s.Retry(ctx, func() error { return s.State.Acknowledge(ctx, &f, s.ids) }); err != nil {
		return err
	}
	s.Source.Loaded, s.Source.Counts = f.Loaded, f.Counts
	s.ids, s.sums, s.n = s.ids[:0], state.Counts{}, 0
	s.Opt.Reached("acknowledged")
	return s.sp.Release(f.Loaded)
}
