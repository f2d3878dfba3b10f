package lane

import (
	"sync"
	"time"
)

// A transaction over slowCommit makes batches smaller: it holds locks, and delays replicas.
const slowCommit = 200 * time.Millisecond

// paceRange is how many times larger or smaller than Options.Rows batches may become.
const paceRange = 8

// A pace adapts the size of batches. The size doubles while that raises the rate and a transaction
// takes less than half of slowCommit. It halves after a transaction that took longer than
// slowCommit or was repeated.
type pace struct {
	mu          sync.Mutex
	rows        int
	least, most int
	rate        float64 // rows/s of the batch after which it last grew
}

func newPace(rows int) *pace {
	return &pace{rows: rows, least: max(rows/paceRange, 1), most: rows * paceRange}
}

func (p *pace) limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows
}

// sent tells the pace that a batch was committed. repeated means that transient errors came before.
func (p *pace) sent(rows int64, took time.Duration, repeated bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rate := float64(rows) / max(took.Seconds(), 1e-6)
	full := rows >= int64(p.rows)*9/10
	switch {
	case rows > int64(p.rows): // the batch was cut before batches became smaller
	case repeated, took > slowCommit && rows > int64(p.least):
		p.rows, p.rate = max(int(rows)/2, p.least), 0
	case full && took < slowCommit/2 && rate > p.rate*1.02:
		p.rows, p.rate = min(2*p.rows, p.most), rate
	}
}
