package merge

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/rowmill/rowmill/internal/engine"
)

// An InexactError says why the pieces' results may not give the exact answer: the query is then run
// whole.
type InexactError struct{ Why string }

func (e *InexactError) Error() string { return e.Why }

// Inexact returns an InexactError.
func Inexact(why string) error { return &InexactError{why} }

// IsInexact reports whether an error is an InexactError.
func IsInexact(err error) bool {
	_, ok := errors.AsType[*InexactError](err)
	return ok
}

// A budget limits the memory of all group tables of a query. It counts all bytes that are
// allocated, even those that aren't in use.
type budget struct {
	used  atomic.Int64
	limit int64
}

func (b *budget) add(bytes int) { b.used.Add(int64(bytes)) }

func (b *budget) Full() bool { return b.used.Load() > b.limit }

// A slot is a partial column of an aggregate, and the step that merges its values.
type slot struct {
	column int
	step   engine.MergeStep
	class  engine.ResultClass
	// scale is the number of digits after the point; -1 if it differs between values. Each group then
	// has a scale of its own in its flags: the greatest scale among its values.
	scale int
}

// Kinds of a slot's value in a group. The kind is in the lowest three bits of the value's flags;
// the other bits are the value's scale, if slot.scale is -1.
const (
	slotNull  = iota
	slotInt   // an integer in units of the last digit
	slotWide  // the place of a wide in the arena
	slotBytes // the place of a text in the arena
	slotWord  // the 64 bits of BIT_AND, BIT_OR or BIT_XOR

	kindBits  = 3
	mostScale = 1<<(8-kindBits) - 1
)

// A groupTable is a hash table from the keys of groups to their slots. Keys are the texts of the
// key columns.
//
// Each group is a record of words: the place of its key, the flags of its slots (eight to a word),
// and its slots. Records, keys and texts lie in large blocks without pointers: the garbage
// collector doesn't scan them, and a growing table doesn't copy them. The budget counts all blocks.
type groupTable struct {
	slots  []slot
	budget *budget
	// index is the hash index. In each word, the lower half is the group's number plus 1, and the
	// upper half is the upper half of the hash of the group's key.
	index   []uint64
	count   int
	stride  int // words of a record
	flagged int // index in a record of its first slot
	records [][]uint64
	arena   arena
}

// Sizes of a table. recordsPerBlock is a power of two.
const (
	firstIndex      = 256
	recordsPerBlock = 256
)

func newGroupTable(slots []slot, b *budget) *groupTable {
	t := &groupTable{slots: slots, budget: b, flagged: 1 + (len(slots)+7)/8}
	t.stride = t.flagged + len(slots)
	t.arena.budget = b
	return t
}

// release gives the table's memory back to the budget. The table must not be used afterwards.
func (t *groupTable) release() {
	t.budget.add(-8 * len(t.index))
	t.budget.add(-8 * t.stride * recordsPerBlock * len(t.records))
	t.arena.release()
	t.index, t.records, t.count = nil, nil, 0
}

func (t *groupTable) record(group int) []uint64 {
	at := group % recordsPerBlock * t.stride
	return t.records[group/recordsPerBlock][at : at+t.stride : at+t.stride]
}

func (t *groupTable) key(record []uint64) []byte { return t.arena.at(record[0]) }

func (t *groupTable) flags(record []uint64, slot int) int {
	return int(record[1+slot/8] >> (slot % 8 * 8) & 0xff)
}

func (t *groupTable) kind(record []uint64, slot int) int {
	return t.flags(record, slot) & (1<<kindBits - 1)
}

// scale is the number of digits after the point of the number in a slot of a record.
func (t *groupTable) scale(record []uint64, slot int) int {
	if s := t.slots[slot].scale; s >= 0 {
		return s
	}
	return t.flags(record, slot) >> kindBits
}

func (t *groupTable) set(record []uint64, slot, kind int, value uint64) {
	shift := slot % 8 * 8
	w := &record[1+slot/8]
	*w = *w&^(0xff<<shift) | uint64(kind)<<shift
	record[t.flagged+slot] = value
}

// find returns the record of a key. It adds a new key, with NULL in all slots.
func (t *groupTable) find(key []byte, hash uint64) ([]uint64, error) {
	if t.count >= len(t.index)*3/4 {
		if err := t.grow(); err != nil {
			return nil, err
		}
	}
	mask := uint64(len(t.index) - 1)
	tag := hash >> 32
	at := tag & mask
	for ; t.index[at] != 0; at = (at + 1) & mask {
		if t.index[at]>>32 != tag {
			continue
		}
		if r := t.record(int(uint32(t.index[at])) - 1); bytes.Equal(t.key(r), key) {
			return r, nil
		}
	}
	place, err := t.arena.put(key)
	if err != nil {
		return nil, err
	}
	if t.count == len(t.records)*recordsPerBlock {
		t.records = append(t.records, make([]uint64, t.stride*recordsPerBlock))
		t.budget.add(8 * t.stride * recordsPerBlock)
	}
	r := t.record(t.count)
	clear(r)
	r[0] = place
	t.count++
	t.index[at] = tag<<32 | uint64(t.count)
	return r, nil
}

// mostGroups is the most groups that a table can have: a word of its index has 32 bits for their
// numbers.
const mostGroups = 1 << 31

func (t *groupTable) grow() error {
	if t.count >= mostGroups {
		return Inexact("there are too many groups for one table")
	}
	old := t.index
	t.index = make([]uint64, max(firstIndex, 2*len(old)))
	t.budget.add(8 * (len(t.index) - len(old)))
	mask := uint64(len(t.index) - 1)
	for _, e := range old {
		if e == 0 {
			continue
		}
		at := e >> 32 & mask
		for t.index[at] != 0 {
			at = (at + 1) & mask
		}
		t.index[at] = e
	}
	return nil
}

// merge adds the texts of a partial row to a group.
func (t *groupTable) merge(r []uint64, row [][]byte) error {
	for i := range t.slots {
		text := row[t.slots[i].column]
		if text == nil {
			continue
		}
		if err := t.mergeText(r, i, text); err != nil {
			return err
		}
	}
	return nil
}

func (t *groupTable) mergeText(r []uint64, i int, text []byte) error {
	s := &t.slots[i]
	switch s.step {
	case engine.MergeBitAnd, engine.MergeBitOr, engine.MergeBitXor:
		word, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return t.unexpected(s, text)
		}
		return t.mergeWord(r, i, word)
	}
	switch s.class {
	case engine.ClassInt, engine.ClassDecimal:
		scale := s.scale
		if scale < 0 {
			scale = scaleIn(text)
		}
		n, w, large, ok := ParseNumber(text, scale)
		switch {
		case !ok:
			return t.unexpected(s, text)
		case s.scale < 0:
			if !large {
				w = wideOf(n)
			}
			return t.mergeScaled(r, i, w, scale)
		case large:
			return t.mergeWide(r, i, w)
		}
		return t.mergeInt(r, i, n)
	case engine.ClassTime:
		if !ordersAsBytes(text) {
			return t.unexpected(s, text)
		}
	}
	return t.mergeBytes(r, i, text)
}

func (t *groupTable) unexpected(s *slot, text []byte) error {
	return Inexact("column " + strconv.Itoa(s.column+1) + " of a piece has the value " + strconv.QuoteToASCII(string(text[:min(len(text), 40)])) +
		", which is not in the form that merging in memory is certain of")
}

// ordersAsBytes reports whether the text of a time sorts correctly as bytes. It does if the year
// has four digits, or the hours have two. Texts such as -01:00:00, 100:00:00 and 0044-03-15 BC
// don't.
func ordersAsBytes(text []byte) bool {
	if bytes.HasSuffix(text, []byte("BC")) {
		return false
	}
	for i, c := range text {
		if c >= '0' && c <= '9' {
			continue
		}
		return i == 4 && c == '-' || i == 2 && c == ':'
	}
	return len(text) == 4 // a year
}

// mergeScaled merges a number into a slot whose numbers differ in scale (slot.scale is -1). A sum
// has the greatest scale of its values: 1.5 + 0.25 = 1.75.
func (t *groupTable) mergeScaled(r []uint64, i int, w wide, scale int) error {
	s := &t.slots[i]
	if scale > mostScale {
		return Inexact("a number has " + strconv.Itoa(scale) + " digits after the point")
	}
	kind, ok := t.kind(r, i), true
	if kind != slotNull {
		old, oldScale := t.number(r, i), t.scale(r, i)
		most := max(scale, oldScale)
		a, okA := old.shift(most - oldScale)
		b, okB := w.shift(most - scale)
		if !okA || !okB {
			return Inexact("a sum has more than " + strconv.Itoa(mostDigits) + " digits")
		}
		switch order := a.compare(b); {
		case s.step == engine.MergeSum:
			if w, ok = a.add(b); !ok || !w.fits() {
				return Inexact("a sum has more than " + strconv.Itoa(mostDigits) + " digits")
			}
			scale = most
		case order == 0 && scale != oldScale:
			return Inexact("two equal numbers have different numbers of digits")
		case (order <= 0) == (s.step == engine.MergeMin) || order == 0:
			return nil
		}
	}
	if n, narrow := w.narrow(); narrow && kind != slotWide {
		t.set(r, i, slotInt|scale<<kindBits, uint64(n))
		return nil
	}
	if err := t.putWide(r, i, kind, w); err != nil {
		return err
	}
	t.set(r, i, slotWide|scale<<kindBits, r[t.flagged+i])
	return nil
}

// mergeInt merges a number, given as an integer in units of the last digit: 1.25 is 125.
func (t *groupTable) mergeInt(r []uint64, i int, n int64) error {
	s := &t.slots[i]
	at := &r[t.flagged+i]
	switch t.kind(r, i) {
	case slotNull:
		t.set(r, i, slotInt, uint64(n))
		return nil
	case slotWide:
		return t.mergeWide(r, i, wideOf(n))
	}
	old := int64(*at)
	switch s.step {
	case engine.MergeSum:
		sum := old + n
		if (sum > old) == (n > 0) {
			*at = uint64(sum)
			return nil
		}
		return t.mergeWide(r, i, wideOf(n))
	case engine.MergeMin:
		*at = uint64(min(old, n))
	case engine.MergeMax:
		*at = uint64(max(old, n))
	}
	return nil
}

// mergeWide merges a number that may not fit in 64 bits.
func (t *groupTable) mergeWide(r []uint64, i int, w wide) error {
	s := &t.slots[i]
	kind := t.kind(r, i)
	if kind == slotNull {
		return t.putWide(r, i, kind, w)
	}
	old := t.number(r, i)
	switch s.step {
	case engine.MergeSum:
		var ok bool
		if w, ok = old.add(w); !ok || !w.fits() {
			return Inexact("a sum has more than " + strconv.Itoa(mostDigits) + " digits")
		}
	case engine.MergeMin:
		if old.compare(w) <= 0 {
			return nil
		}
	case engine.MergeMax:
		if old.compare(w) >= 0 {
			return nil
		}
	}
	return t.putWide(r, i, kind, w)
}

func (t *groupTable) putWide(r []uint64, i, kind int, w wide) error {
	if kind != slotWide {
		var b [32]byte
		place, err := t.arena.put(b[:])
		if err != nil {
			return err
		}
		t.set(r, i, slotWide, place)
	}
	b := t.arena.at(r[t.flagged+i])
	for k, word := range w {
		binary.LittleEndian.PutUint64(b[8*k:], word)
	}
	return nil
}

// number returns the number in slot i of a record, in units of the last digit. The slot must hold a
// number and not be NULL.
func (t *groupTable) number(r []uint64, i int) (w wide) {
	if t.kind(r, i) != slotWide {
		return wideOf(int64(r[t.flagged+i]))
	}
	b := t.arena.at(r[t.flagged+i])
	for k := range w {
		w[k] = binary.LittleEndian.Uint64(b[8*k:])
	}
	return w
}

func (t *groupTable) mergeWord(r []uint64, i int, word uint64) error {
	at := &r[t.flagged+i]
	if t.kind(r, i) == slotNull {
		t.set(r, i, slotWord, word)
		return nil
	}
	switch t.slots[i].step {
	case engine.MergeBitAnd:
		*at &= word
	case engine.MergeBitOr:
		*at |= word
	case engine.MergeBitXor:
		*at ^= word
	}
	return nil
}

// mergeBytes merges a text into slot i of a record: the slot has the minimum or the maximum of the
// merged texts. Texts are compared as bytes, or as floating-point numbers if the slot's class is
// ClassFloat.
func (t *groupTable) mergeBytes(r []uint64, i int, text []byte) error {
	s := &t.slots[i]
	at := &r[t.flagged+i]
	if t.kind(r, i) == slotNull {
		place, err := t.arena.put(text)
		t.set(r, i, slotBytes, place)
		return err
	}
	old := t.arena.at(*at)
	order := bytes.Compare(text, old)
	if s.class == engine.ClassFloat && order != 0 {
		x, errX := strconv.ParseFloat(string(text), 64)
		y, errY := strconv.ParseFloat(string(old), 64)
		if order = cmp.Compare(x, y); errX != nil || errY != nil || !(x < y || x > y) { // NaN, or 0 and -0
			return t.unexpected(s, text)
		}
	}
	if order == 0 || (order < 0) != (s.step == engine.MergeMin) {
		return nil
	}
	if len(text) <= len(old) {
		copy(old, text)
		*at = shorter(*at, len(text))
		return nil
	}
	place, err := t.arena.put(text)
	*at = place
	return err
}

// absorbAll merges all groups of another table with the same slots, and releases it.
func (t *groupTable) absorbAll(from *groupTable) error {
	defer from.release()
	for _, e := range from.index {
		if e == 0 {
			continue
		}
		if err := t.absorb(from, int(uint32(e))-1, e&^math.MaxUint32); err != nil {
			return err
		}
	}
	return nil
}

// absorb merges one group of another table into this one.
func (t *groupTable) absorb(from *groupTable, group int, hash uint64) error {
	other := from.record(group)
	r, err := t.find(from.key(other), hash)
	if err != nil {
		return err
	}
	for i := range t.slots {
		kind := from.kind(other, i)
		if t.slots[i].scale < 0 && kind != slotNull {
			if err := t.mergeScaled(r, i, from.number(other, i), from.scale(other, i)); err != nil {
				return err
			}
			continue
		}
		switch kind {
		case slotInt:
			err = t.mergeInt(r, i, int64(other[from.flagged+i]))
		case slotWide:
			err = t.mergeWide(r, i, from.number(other, i))
		case slotWord:
			err = t.mergeWord(r, i, other[from.flagged+i])
		case slotBytes:
			err = t.mergeBytes(r, i, from.arena.at(other[from.flagged+i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendSlot appends the value of a slot as the server would write it; ok is false for NULL.
func (t *groupTable) appendSlot(b []byte, r []uint64, i int) (text []byte, ok bool) {
	value := r[t.flagged+i]
	switch t.kind(r, i) {
	case slotInt:
		return AppendNumber(b, int64(value), t.scale(r, i)), true
	case slotWide:
		return appendWide(b, t.number(r, i), t.scale(r, i)), true
	case slotWord:
		return strconv.AppendUint(b, value, 10), true
	case slotBytes:
		return append(b, t.arena.at(value)...), true
	}
	return b, false
}

// An arena holds bytes in blocks. A place is a word that locates a run of bytes: its block (20
// bits), its offset there (20 bits) and its length (24 bits).
type arena struct {
	budget *budget
	blocks [][]byte
	last   int // the block that is being filled
}

const (
	firstBlock = 4 << 10
	largeBlock = 256 << 10
	mostBlocks = 1 << 20
	mostOffset = 1 << 20
	mostLength = 1<<24 - 1
)

func place(block, offset, length int) uint64 {
	return uint64(block)<<44 | uint64(offset)<<24 | uint64(length)
}

// shorter returns a place with a smaller length.
func shorter(p uint64, length int) uint64 { return p&^uint64(mostLength) | uint64(length) }

func (a *arena) at(p uint64) []byte {
	offset := int(p >> 24 & (mostOffset - 1))
	end := offset + int(p&mostLength)
	return a.blocks[p>>44][offset:end:end]
}

func (a *arena) put(b []byte) (uint64, error) {
	if len(b) > mostLength {
		return 0, Inexact("a key has " + strconv.Itoa(len(b)) + " bytes, too many for merging in memory")
	}
	for ; a.last < len(a.blocks); a.last++ {
		if block := a.blocks[a.last]; cap(block)-len(block) >= len(b) && len(block) < mostOffset {
			a.blocks[a.last] = append(block, b...)
			return place(a.last, len(block), len(b)), nil
		}
	}
	if len(a.blocks) == mostBlocks {
		return 0, Inexact("the keys need too much memory for one table")
	}
	size := max(len(b), min(largeBlock, firstBlock<<min(16, len(a.blocks))))
	a.budget.add(size)
	a.blocks = append(a.blocks, append(make([]byte, 0, size), b...))
	return place(a.last, 0, len(b)), nil
}

func (a *arena) release() {
	for _, block := range a.blocks {
		a.budget.add(-cap(block))
	}
	a.blocks, a.last = nil, 0
}

// A keyCoder encodes the key columns of partial rows as AppendRow does.
type keyCoder struct {
	columns []engine.ResultColumn
	key     []byte
	// compared reports that equal values must have equal keys.
	compared bool
}

// encode returns the key of a row, valid until the next call. It returns an InexactError if a
// decimal is not written with exactly the digits of its column: otherwise equal values, such as 1.5
// and 1.50, would get different keys.
func (k *keyCoder) encode(row [][]byte) ([]byte, error) {
	for i := 0; k.compared && i < len(k.columns); i++ {
		c, text := &k.columns[i], row[i]
		if text == nil || c.Class != engine.ClassDecimal {
			continue
		}
		if _, _, _, ok := ParseNumber(text, c.Scale); !ok {
			return nil, Inexact("column " + c.Name + " has a decimal in a form of its own: " + strconv.QuoteToASCII(string(text[:min(len(text), 40)])))
		}
	}
	k.key = AppendRow(k.key[:0], row[:len(k.columns)])
	return k.key, nil
}

// shards is the number of tables of each worker, one for each shard. The lowest bits of a key's
// hash choose the shard, so that shards are merged independently of each other.
const shards = 8

func shardOf(hash uint64) int { return int(hash & (shards - 1)) }
