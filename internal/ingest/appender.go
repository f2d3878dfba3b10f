package ingest

import (
	"context"
	"errors"
	"sync"

	"github.com/rowmill/rowmill/internal/ingest/spool"
)

// An appender appends records to a spool. Records that arrive during a sync share the next sync.
type appender struct {
	mu      sync.Mutex
	waiting []*appended
	leading bool // a caller appends at present
}

type appended struct {
	record []byte
	to     int64
	err    error
	done   chan struct{} // closed when the record is appended, or can't be
	lead   chan struct{} // closed when its caller must append the waiting records
}

// groupBytes limits the records that share a sync.
const groupBytes = 8 << 20

// append appends a record, and returns the record's end in the spool.
func (g *appender) append(sp *spool.Spool, record []byte) (int64, error) {
	a := &appended{record: record, done: make(chan struct{}), lead: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, a)
	if g.leading {
		g.mu.Unlock()
		select {
		case <-a.done:
			return a.to, a.err
		case <-a.lead:
			g.mu.Lock()
		}
	}
	g.leading = true
	n, size := 0, 0
	for n < len(g.waiting) && (n == 0 || size+len(g.waiting[n].record) <= groupBytes) {
		size += len(g.waiting[n].record)
		n++
	}
	all := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.mu.Unlock()
	appendTo(sp, all)
	for _, one := range all {
		one.record = nil // frees the record: the array of g.waiting may keep one for long
		close(one.done)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leading = len(g.waiting) > 0; g.leading {
		close(g.waiting[0].lead)
	}
	return a.to, a.err // a was all[0], so it has been appended
}

// appendTo appends records together, or one by one if there is no room for all.
func appendTo(sp *spool.Spool, all []*appended) {
	// A record that is being written is completed even if its sender has gone.
	ctx := context.Background()
	records := make([][]byte, len(all))
	for i, a := range all {
		records[i] = a.record
	}
	recs, err := sp.AppendAll(ctx, records)
	if len(all) > 1 && (errors.Is(err, spool.ErrFull) || errors.Is(err, spool.ErrTooLarge)) {
		for _, a := range all {
			appendTo(sp, []*appended{a})
		}
		return
	}
	for i, a := range all {
		if a.err = err; err == nil {
			a.to = recs[i].To
		}
	}
}
