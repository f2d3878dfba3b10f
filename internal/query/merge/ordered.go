package merge

import (
	"encoding/binary"
	"sync"
)

// An Ordered passes the rows of pieces on in the order of the pieces, while later pieces are
// running. Pieces start in their order.
type Ordered struct {
	mu     sync.Mutex
	change *sync.Cond
	blocks [][][]byte // of each piece
	done   []bool
	head   int // the piece whose rows are passed on
	held   int64
	limit  int64
	err    error
	free   [][]byte
}

// BlockSize is the size of the blocks in which rows are passed on. headLimit limits the waiting
// rows of the piece that is passed on at present, the head. Both are in bytes.
const (
	BlockSize = 64 << 10
	headLimit = 4 << 20
)

// NewOrdered returns a queue. It holds up to limit bytes of rows of later pieces.
func NewOrdered(pieces int, limit int64) *Ordered {
	q := &Ordered{blocks: make([][][]byte, pieces), done: make([]bool, pieces), limit: limit}
	q.change = sync.NewCond(&q.mu)
	return q
}

// Fail ends all waits with an error, if there is none yet.
func (q *Ordered) Fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.change.Broadcast()
}

// Put adds a block to a piece, and returns an empty one. It waits while the queue holds too much.
func (q *Ordered) Put(piece int, block []byte) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := int64(len(block))
	for q.err == nil && q.held > 0 && q.held+size > q.limit && (piece != q.head || len(q.blocks[piece]) > 0) ||
		q.err == nil && piece == q.head && len(q.blocks[piece]) >= headLimit/BlockSize {
		q.change.Wait()
	}
	if q.err != nil {
		return nil, q.err
	}
	q.blocks[piece] = append(q.blocks[piece], block)
	q.held += size
	q.change.Broadcast()
	if n := len(q.free); n > 0 {
		block = q.free[n-1]
		q.free = q.free[:n-1]
		return block, nil
	}
	return make([]byte, 0, BlockSize+BlockSize/8), nil
}

// Finish says that a piece has no more blocks.
func (q *Ordered) Finish(piece int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done[piece] = true
	q.change.Broadcast()
}

// Next returns the next block, nil after the last one. used is the block of the previous call, for
// reuse.
func (q *Ordered) Next(used []byte) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if cap(used) > 0 && cap(used) <= 2*BlockSize && len(q.free) < 16 {
		q.free = append(q.free, used[:0])
	}
	for q.err == nil && q.head < len(q.done) {
		if list := q.blocks[q.head]; len(list) > 0 {
			block := list[0]
			list[0] = nil
			q.blocks[q.head] = list[1:]
			q.held -= int64(len(block))
			q.change.Broadcast()
			return block, nil
		}
		if q.done[q.head] {
			q.blocks[q.head] = nil
			q.head++
			q.change.Broadcast()
			continue
		}
		q.change.Wait()
	}
	return nil, q.err
}

// AppendRow appends a row: for each value its length plus 1, and its text; for NULL only a 0.
func AppendRow(b []byte, row [][]byte) []byte {
	for _, text := range row {
		if text == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(text))+1)
		b = append(b, text...)
	}
	return b
}

// NextRow reads a row into row, and returns what follows it.
func NextRow(b []byte, row [][]byte) []byte {
	for i := range row {
		n, size := binary.Uvarint(b)
		b = b[size:]
		row[i] = nil
		if n > 0 {
			row[i] = b[: n-1 : n-1]
			b = b[n-1:]
		}
	}
	return b
}
