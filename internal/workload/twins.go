package workload

import (
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
)

// If two rows have the same values and the inserts skip existing keys, the table
// keeps one of the two. It does not matter which one.

// has reports whether a row is in one of the spans, which are in order.
func has(spans []span, seq int64) bool {
	i, found := slices.BinarySearchFunc(spans, seq, func(s span, seq int64) int {
		switch {
		case s.to <= seq:
			return -1
		case s.from > seq:
			return 1
		}
		return 0
	})
	return found && spans[i].from <= seq
}

// twice reports whether a row is the later of two equal rows, both of which were
// acknowledged.
func (w *Insert) twice(t *table, acked []span, seq int64) bool {
	if w.preset.twin == nil {
		return false
	}
	other, repeat, ok := w.preset.twin(t.stream, seq)
	return ok && repeat && has(acked, other)
}

// distinct returns the number of different rows in a part of the acknowledged rows.
func (w *Insert) distinct(t *table, acked []span, s span) int64 {
	n := s.rows()
	if w.preset.twin == nil {
		return n
	}
	for seq := s.from; seq < s.to; seq++ {
		if w.twice(t, acked, seq) {
			n--
		}
	}
	return n
}

// mustHold adds the acknowledged rows in b to the rows that must exist.
func (c *check) mustHold(sum *engine.Sum, s span, b *engine.Batch) {
	if c.w.preset.twin == nil {
		sum.Add(b, nil)
		return
	}
	for i := range b.Rows() {
		if !c.w.twice(c.t, c.acked, s.from+int64(i)) {
			sum.AddRow(b, i, nil)
		}
	}
}

// A claim is the relation between a batch in doubt and one of its rows.
type claim int

const (
	claimOwn claim = iota // the row exists if, and only if, the batch was committed
	// claimNone: the row must exist anyway, or is counted elsewhere.
	claimNone
	// claimShared: another batch in doubt contains it, too, so it may exist
	// whether this batch was committed or not.
	claimShared
)

// claim returns what a row of a batch in doubt implies about that batch.
func (c *check) claim(batch span, seq int64) claim {
	if c.w.preset.twin == nil {
		return claimOwn
	}
	other, repeat, ok := c.w.preset.twin(c.t.stream, seq)
	if !ok {
		return claimOwn
	}
	if has(c.acked, other) {
		return claimNone
	}
	if !slices.ContainsFunc(c.doubt, func(s span) bool { return s.from <= other && other < s.to }) {
		return claimOwn
	}
	switch {
	case repeat: // it is counted with the first of the two
		return claimNone
	case batch.from <= other && other < batch.to:
		return claimOwn
	}
	return claimShared
}
