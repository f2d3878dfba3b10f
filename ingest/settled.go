package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/ingest/spool"
	"github.com/rowmill/rowmill/state"
)

const (
	// acknowledgeEach and acknowledgeAfter are how many batches, and for how
	// long, a spool keeps that the database has.
	acknowledgeEach  = 64
	acknowledgeAfter = time.Second
)

// A settled tells the database up to where it has all of a spool, and the spool
// to let go of that.
type settled struct {
	*load
	sp *spool.Spool

	mu   sync.Mutex
	at   int64                 // all below is committed
	next []int64               // where the batches above begin, in order
	done map[int64]settledPart // which of them are committed
	ids  []string              // below at, in the ledger
	sums state.Counts          // of those
	last time.Time
}

type settledPart struct {
	to   int64
	id   string
	rows state.Counts
}

// expect notes a batch that comes after those before.
func (s *settled) expect(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, b.From)
}

// add notes that a batch is committed.
func (s *settled) add(ctx context.Context, b *batch, noted state.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[b.From] = settledPart{b.To, b.ID(s.source.Key), noted.Counts}
	for len(s.next) > 0 {
		part, there := s.done[s.next[0]]
		if !there {
			break
		}
		delete(s.done, s.next[0])
		s.next, s.at, s.ids = s.next[1:], part.to, append(s.ids, part.id)
		s.sums.Add(part.rows)
	}
	if len(s.ids) < acknowledgeEach && time.Since(s.last) < acknowledgeAfter {
		return nil
	}
	return s.acknowledgeLocked(ctx)
}

// each acknowledges what is committed from time to time, until ctx ends. An
// error comes again with the next batch, or in the end.
func (s *settled) each(ctx context.Context) {
	for engine.Sleep(ctx, acknowledgeAfter) == nil {
		_ = s.acknowledge(ctx)
	}
}

func (s *settled) acknowledge(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acknowledgeLocked(ctx)
}

func (s *settled) acknowledgeLocked(ctx context.Context) error {
	s.last = time.Now()
	if s.at == s.source.Loaded {
		return nil
	}
	f := *s.source
	f.Loaded = s.at
	f.Add(s.sums)
	if err := s.retry(ctx, func() error { return s.state.Acknowledge(ctx, &f, s.ids) }); err != nil {
		return err
	}
	s.source.Loaded, s.source.Counts = f.Loaded, f.Counts
	s.ids, s.sums = s.ids[:0], state.Counts{}
	s.reached("acknowledged")
	return s.sp.Release(f.Loaded)
}
