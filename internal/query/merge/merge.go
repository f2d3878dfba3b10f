// Package merge makes the answer of a query from the partial results of its pieces, in this
// process: Memory merges groups in hash tables, by exact typed values, and Ordered passes rows on
// in the order of the pieces. It takes a plan.Plan, and rows as texts of the server. The answer
// goes to a Sink, also as texts. If the answer may not be exact, the merge returns an InexactError,
// and the query is run whole.
package merge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
)

// A Sink takes the answer: its columns, then each row, whose values are valid during the call.
type Sink interface {
	Columns(cols []engine.ResultColumn) error
	Row(values [][]byte) error
}

// A Memory merges partial rows in hash tables. Each worker has tables of its own, which Finish
// merges. If a worker's tables need more memory than the limit, the worker spills them: it passes
// each group on as one partial row.
type Memory struct {
	plan    *plan.Plan
	slots   []slot
	outputs []memoryOutput
	keys    []engine.ResultColumn
	order   []ordering
	seed    maphash.Seed
	limit   int64         // of the tables of each worker, in bytes
	tables  []*groupTable // one for each shard, after Finish
}

// A memoryOutput is an Output with the indexes of its slots.
type memoryOutput struct {
	plan.Output
	slots []int
	// class and scale are those of the output's text.
	class engine.ResultClass
	scale int
}

// An ordering is an output by which groups are sorted. The outputs of ORDER BY come first, then all
// keys, so that the order of the groups is the same each time.
type ordering struct {
	memoryOutput
	by    plan.SortKey
	named bool // by ORDER BY
}

// NewMemory returns a Memory for a plan. limit is for the tables of each worker, in bytes. An error
// is an InexactError: values of the plan's columns can't be merged in memory. Before a merge on the
// server, a Memory merges the groups whose keys have the same bytes, so that fewer rows are sent.
func NewMemory(p *plan.Plan, limit int64) (*Memory, error) {
	m := &Memory{plan: p, keys: p.PartialColumns[:p.Keys], seed: maphash.MakeSeed(), limit: limit}
	if len(p.Merge.Steps) != len(p.PartialColumns)-p.Keys {
		return nil, Inexact("it is not known how the columns of pieces are merged")
	}
	for i, step := range p.Merge.Steps {
		if err := m.addSlot(p.Keys+i, step); err != nil {
			return nil, err
		}
	}
	if p.Merge.Kind != plan.InMemory {
		return m, nil
	}
	for _, c := range m.keys {
		if !plan.Exact(c) {
			return nil, Inexact("groups of column " + c.Name + " can't be told apart by their texts")
		}
	}
	for i, o := range p.Merge.Outputs {
		out := memoryOutput{Output: o, class: p.Columns[i].Class, scale: p.Columns[i].Scale}
		if o.Class != engine.ClassOther {
			out.class = o.Class
		}
		if o.Key >= 0 {
			out.class, out.scale = m.keys[o.Key].Class, m.keys[o.Key].Scale
		} else if err := m.checkFinal(&out, p.Columns[i].Name); err != nil {
			return nil, err
		}
		m.outputs = append(m.outputs, out)
	}
	for _, by := range p.Merge.OrderBy {
		m.order = append(m.order, ordering{m.outputs[by.Output], by, true})
	}
	for i, c := range m.keys {
		m.order = append(m.order, ordering{memoryOutput{Output: plan.Output{Key: i}, class: c.Class, scale: c.Scale}, plan.SortKey{NullsLast: p.Merge.NullsLast}, false})
	}
	return m, nil
}

// addSlot adds the slot of a partial column.
func (m *Memory) addSlot(column int, step engine.MergeStep) error {
	c := m.plan.PartialColumns[column]
	s := slot{column: column, step: step, class: c.Class}
	extreme := step == engine.MergeMin || step == engine.MergeMax
	switch {
	case c.Class == engine.ClassInt:
	case c.Class == engine.ClassDecimal && (extreme || step == engine.MergeSum):
		s.scale = c.Scale
	case extreme && (c.Class == engine.ClassBytes || c.Class == engine.ClassTime || c.Class == engine.ClassFloat):
	default:
		return Inexact("values of column " + c.Name + " can't be merged outside of the server")
	}
	m.slots = append(m.slots, s)
	return nil
}

// checkFinal completes an output of an aggregate.
func (m *Memory) checkFinal(out *memoryOutput, name string) error {
	for _, column := range out.Parts {
		out.slots = append(out.slots, column-m.plan.Keys)
	}
	first := m.slots[out.slots[0]]
	switch {
	case out.Final == engine.FinalQuotient:
		if out.class != engine.ClassDecimal || first.scale < 0 || out.scale < first.scale || !numeric(first.class) || m.slots[out.slots[1]].class != engine.ClassInt {
			return Inexact("the digits of column " + name + " aren't known")
		}
	case out.class != first.class && !(numeric(out.class) && numeric(first.class)) || numeric(out.class) && scaleOf(out.class, out.scale) != first.scale:
		return Inexact("column " + name + " has another type than its parts")
	}
	return nil
}

func numeric(c engine.ResultClass) bool { return c == engine.ClassInt || c == engine.ClassDecimal }

func scaleOf(c engine.ResultClass, scale int) int {
	if c == engine.ClassInt {
		return 0
	}
	return scale
}

// A GroupWorker has the tables of one worker.
type GroupWorker struct {
	m      *Memory
	tables [shards]*groupTable
	Budget budget
	coder  keyCoder
}

func (m *Memory) Worker() *GroupWorker {
	return &GroupWorker{m: m, Budget: budget{limit: m.limit}, coder: keyCoder{columns: m.keys, compared: m.plan.Merge.Kind == plan.InMemory}}
}

// Row merges a partial row.
func (w *GroupWorker) Row(row [][]byte) error {
	key, err := w.coder.encode(row)
	if err != nil {
		return err
	}
	hash := maphash.Bytes(w.m.seed, key)
	t := w.tables[shardOf(hash)]
	if t == nil {
		t = newGroupTable(w.m.slots, &w.Budget)
		w.tables[shardOf(hash)] = t
	}
	r, err := t.find(key, hash)
	if err != nil {
		return err
	}
	return t.merge(r, row)
}

// Spill passes all groups to fn, as partial rows, and forgets them.
func (w *GroupWorker) Spill(fn func(row [][]byte) error) error {
	for _, t := range w.tables {
		if t == nil {
			continue
		}
		if err := w.m.partials(t, fn); err != nil {
			return err
		}
		t.release()
	}
	w.tables = [shards]*groupTable{}
	return nil
}

// partials passes the groups of a table to fn, as partial rows.
func (m *Memory) partials(t *groupTable, fn func(row [][]byte) error) error {
	row := make([][]byte, len(m.plan.PartialColumns))
	texts := make([]byte, 0, 128) // not nil, which is NULL
	for group := range t.count {
		r := t.record(group)
		NextRow(t.key(r), row[:m.plan.Keys])
		texts = texts[:0]
		for i, s := range t.slots {
			start := len(texts)
			var ok bool
			row[s.column] = nil
			if texts, ok = t.appendSlot(texts, r, i); ok {
				row[s.column] = texts[start:]
			}
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return nil
}

// Finish merges the tables of all workers. Shards are merged in parallel.
func (m *Memory) Finish(ctx context.Context, workers []*GroupWorker) error {
	m.tables = make([]*groupTable, shards)
	errs := make([]error, shards)
	var wg sync.WaitGroup
	for s := range shards {
		wg.Go(func() {
			errs[s] = engine.Guarded(func() error { return m.mergeShard(ctx, workers, s) })
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (m *Memory) mergeShard(ctx context.Context, workers []*GroupWorker, s int) error {
	for _, w := range workers {
		t := w.tables[s]
		w.tables[s] = nil
		switch {
		case t == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case m.tables[s] == nil:
			m.tables[s] = t
		default:
			if err := m.tables[s].absorbAll(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// A sorted is a group with its key to sort by: see sortKey.
type sorted struct {
	key   []byte
	table *groupTable
	group int
}

// Answer passes the rows of the answer to sink, in order and within the limit. It returns an
// InexactError, before the first row, if groups that tie at the limit make the answer undetermined.
func (m *Memory) Answer(ctx context.Context, sink Sink) (rows int64, err error) {
	merge := &m.plan.Merge
	emit := m.emitter()
	emit.sink = sink
	groups := 0
	for _, t := range m.tables {
		if t != nil {
			groups += t.count
		}
	}
	if groups == 0 && m.plan.Keys == 0 {
		if err := sink.Columns(m.plan.Columns); err != nil || merge.Offset > 0 {
			return 0, err
		}
		return 1, emit.none()
	}
	if err := m.check(); err != nil {
		return 0, err
	}
	list, err := m.sort(ctx, groups)
	if err != nil {
		return 0, err
	}
	from, to := min(merge.Offset, int64(len(list))), int64(len(list))
	if merge.Limit >= 0 {
		to = min(to, from+merge.Limit)
	}
	for _, at := range []int64{from, to} {
		if from == to || at == 0 || at == int64(len(list)) {
			continue
		}
		before, errBefore := emit.sortKey(nil, list[at-1], true)
		after, errAfter := emit.sortKey(nil, list[at], true)
		if err := errors.Join(errBefore, errAfter); err != nil {
			return 0, err
		}
		if !merge.Unique && bytes.Equal(before, after) {
			return 0, Inexact("groups tie at the limit")
		}
	}
	if err := sink.Columns(m.plan.Columns); err != nil {
		return 0, err
	}
	for _, g := range list[from:to] {
		if rows++; rows%1024 == 0 && ctx.Err() != nil {
			return rows, ctx.Err()
		}
		if err := emit.row(g.table, g.group); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// check computes quotients of large numbers before the first row is passed on: they may fail.
func (m *Memory) check() error {
	e := m.emitter()
	for i := range m.outputs {
		o := &m.outputs[i]
		if o.Key >= 0 || o.Final != engine.FinalQuotient {
			continue
		}
		for _, t := range m.tables {
			for group := 0; t != nil && group < t.count; group++ {
				if r := t.record(group); t.kind(r, o.slots[0]) == slotWide || t.kind(r, o.slots[1]) == slotWide {
					if _, _, err := e.quotient(o, t, r); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// sort returns the groups in order: all groups, or as many as the limit needs and one more.
func (m *Memory) sort(ctx context.Context, groups int) ([]sorted, error) {
	merge := &m.plan.Merge
	most := groups
	if merge.Limit >= 0 && merge.Limit < int64(groups) && merge.Offset < int64(groups)-merge.Limit {
		most = int(merge.Limit + merge.Offset + 1)
	}
	var list []sorted
	var key, last []byte // a group whose key is last or greater isn't among the first
	e := m.emitter()
	byKey := func(a, b sorted) int { return bytes.Compare(a.key, b.key) }
	for _, t := range m.tables {
		for group := 0; t != nil && group < t.count; group++ {
			if group%1024 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			var err error
			if key, err = e.sortKey(key[:0], sorted{nil, t, group}, merge.Unique); err != nil {
				return nil, err
			}
			if last != nil && bytes.Compare(key, last) >= 0 {
				continue
			}
			// Once there are twice as many as wanted, those beyond most are dropped.
			if list = append(list, sorted{bytes.Clone(key), t, group}); most < groups && len(list) >= 2*most+1024 {
				slices.SortFunc(list, byKey)
				clear(list[most:])
				list = list[:most]
				last = list[most-1].key
			}
		}
	}
	slices.SortFunc(list, byKey)
	return list[:min(most, len(list))], nil
}

// An emitter computes outputs of groups.
type emitter struct {
	m      *Memory
	sink   Sink
	keys   [][]byte
	texts  []byte
	values [][]byte
}

func (m *Memory) emitter() *emitter {
	return &emitter{m: m, keys: make([][]byte, m.plan.Keys), values: make([][]byte, len(m.outputs)), texts: make([]byte, 0, 128)} // texts: not nil, which is NULL
}

func (e *emitter) row(t *groupTable, group int) (err error) {
	r := t.record(group)
	NextRow(t.key(r), e.keys)
	e.texts = e.texts[:0]
	for i := range e.m.outputs {
		o := &e.m.outputs[i]
		if o.Key >= 0 {
			e.values[i] = e.keys[o.Key]
			continue
		}
		start := len(e.texts)
		var ok bool
		if e.texts, ok, err = e.appendOutput(e.texts, o, t, r); err != nil {
			return err
		}
		e.values[i] = nil
		if ok {
			e.values[i] = e.texts[start:len(e.texts):len(e.texts)]
		}
	}
	return e.sink.Row(e.values)
}

// none passes the answer over no rows at all, without GROUP BY, to the sink.
func (e *emitter) none() error {
	for i, o := range e.m.outputs {
		e.values[i] = nil
		if o.Zero {
			e.values[i] = []byte("0")
		}
	}
	return e.sink.Row(e.values)
}

// appendOutput appends the text of an output that isn't a key; ok is false for NULL.
func (e *emitter) appendOutput(b []byte, o *memoryOutput, t *groupTable, r []uint64) (text []byte, ok bool, err error) {
	if o.Final == engine.FinalQuotient {
		q, ok, err := e.quotient(o, t, r)
		if !ok || err != nil {
			return b, false, err
		}
		return appendWide(b, q, o.scale), true, nil
	}
	b, ok = t.appendSlot(b, r, o.slots[0])
	if !ok && o.Zero {
		b, ok = append(b, '0'), true
	}
	return b, ok, nil
}

func (e *emitter) quotient(o *memoryOutput, t *groupTable, r []uint64) (q wide, ok bool, err error) {
	if t.kind(r, o.slots[0]) == slotNull || t.kind(r, o.slots[1]) == slotNull {
		return q, false, nil
	}
	count, narrow := t.number(r, o.slots[1]).narrow()
	if count == 0 && narrow {
		return q, false, nil
	}
	q, ok = quotient(t.number(r, o.slots[0]), uint64(count), t.slots[o.slots[0]].scale, o.scale)
	if !ok || !narrow || count < 0 {
		return q, false, Inexact("a quotient has more digits than merging in memory can compute")
	}
	return q, true, nil
}

// sortKey appends the sort key of group g: the keys of two groups, compared as bytes, give the
// order of the groups. If named is true, the sort key has only the elements of ORDER BY.
func (e *emitter) sortKey(b []byte, g sorted, named bool) ([]byte, error) {
	t, r := g.table, g.table.record(g.group)
	NextRow(t.key(r), e.keys)
	for i := range e.m.order {
		o := &e.m.order[i]
		if named && !o.named {
			break
		}
		start := len(b)
		b = append(b, 1)
		next, null, err := e.appendOrder(b, &o.memoryOutput, t, r)
		switch {
		case err == nil:
			b = next
		case o.named:
			return nil, err
		default: // a key in an unknown form, which ORDER BY doesn't name: any fixed order will do
			b = append(append(b, e.keys[o.Key]...), 0, 0)
		}
		if null {
			b = append(b[:start], 0)
			if o.by.NullsLast {
				b[start] = 2
			}
			continue
		}
		if o.by.Desc {
			for i := start + 1; i < len(b); i++ {
				b[i] = ^b[i]
			}
		}
	}
	return b, nil
}

// appendOrder appends an output as bytes that sort as its values do. The bytes of one value are
// never the beginning of another's.
func (e *emitter) appendOrder(b []byte, o *memoryOutput, t *groupTable, r []uint64) (_ []byte, null bool, err error) {
	if o.Final == engine.FinalQuotient && o.Key < 0 {
		q, ok, err := e.quotient(o, t, r)
		if !ok || err != nil {
			return b, true, err
		}
		return appendOrderedNumber(b, q), false, nil
	}
	var text []byte
	class := o.class
	if o.Key >= 0 {
		if text = e.keys[o.Key]; text == nil {
			return b, true, nil
		}
		if numeric(class) {
			n, w, large, ok := ParseNumber(text, scaleOf(class, o.scale))
			if !ok {
				return nil, false, Inexact("a key is a number in an unknown form: " + strconv.QuoteToASCII(string(text)))
			}
			if !large {
				w = wideOf(n)
			}
			return appendOrderedNumber(b, w), false, nil
		}
	} else {
		switch value := r[t.flagged+o.slots[0]]; t.kind(r, o.slots[0]) {
		case slotNull:
			if !o.Zero {
				return b, true, nil
			}
			return appendOrderedNumber(b, wide{}), false, nil
		case slotInt, slotWide:
			w := t.number(r, o.slots[0])
			if t.slots[o.slots[0]].scale < 0 {
				var ok bool
				if w, ok = w.shift(mostScale - t.scale(r, o.slots[0])); !ok {
					return nil, false, Inexact("a number has too many digits to be sorted by")
				}
			}
			return appendOrderedNumber(b, w), false, nil
		case slotWord:
			return appendOrderedNumber(b, wide{value}), false, nil
		default:
			text = t.arena.at(value)
		}
	}
	if class == engine.ClassTime && !ordersAsBytes(text) {
		return nil, false, Inexact("a time has an unknown form: " + strconv.QuoteToASCII(string(text)))
	}
	for _, c := range text {
		if b = append(b, c); c == 0 {
			b = append(b, 0xff)
		}
	}
	return append(b, 0, 0), false, nil
}

// appendOrderedNumber appends a number as bytes that sort as numbers do: one byte with the sign and
// the length of the magnitude, then the magnitude.
func appendOrderedNumber(b []byte, w wide) []byte {
	start := len(b)
	negative := w.negative()
	if negative {
		w = w.negate()
	}
	var be [32]byte
	for i, word := range w {
		binary.BigEndian.PutUint64(be[8*(3-i):], word)
	}
	magnitude := bytes.TrimLeft(be[:], "\x00")
	b = append(append(b, 0x80+byte(len(magnitude))), magnitude...)
	if negative {
		b[start] = 0x80 - byte(len(magnitude))
		for i := start + 1; i < len(b); i++ {
			b[i] = ^b[i]
		}
	}
	return b
}
