package workload

import (
	"slices"

	"github.com/rowmill/rowmill/engine"
)

// Of two rows with the same values a table that ignores those whose key is
// there keeps one. Which of them it is makes no difference.

// has tells whether a row lies in one of the spans, which are in order.
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

// twice tells that a row is the later of two, both of which were acknowledged.
func (w *Insert) twice(t *table, acked []span, seq int64) bool {
	if w.preset.twin == nil {
		return false
	}
	other, repeat, ok := w.preset.twin(t.stream, seq)
	return ok && repeat && has(acked, other)
}

// distinct returns how many different rows there are in a part of those
// acknowledged.
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

// mustHold adds acknowledged rows, which b has, to those that must be there.
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

// A claim is what a batch in doubt has to do with one of its rows.
type claim int

const (
	claimOwn claim = iota // the row is there if, and only if, the batch is
	// claimNone: the row must be there anyway, or counts elsewhere.
	claimNone
	// claimShared: another batch in doubt has it too, so that it may be there
	// whether this one is or not.
	claimShared
)

// claim tells what a row of a batch in doubt says about that batch.
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
	case repeat: // it counts with the first of the two
		return claimNone
	case batch.from <= other && other < batch.to:
		return claimOwn
	}
	return claimShared
}
