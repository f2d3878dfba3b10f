package workload

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/workload/draw"
)

// A load can be continued after it was interrupted, perhaps because rowmill or the server was
// killed. rowmill then reads the tables. From each row that it finds, it computes the sequence
// number that the row has in the load; a row without one is not a row of the load.

// Resumed describes the contents of a table when its load is continued.
type Resumed struct {
	// Rows is the number of rows done: in the tables, or dropped with their periods.
	Rows int64
	// Found is the number of rows in the tables, Dropped the number of rows in dropped periods.
	Found, Dropped int64
	// Refilled is the number of rows that were missing and were inserted again. They were in batches
	// in progress when the load was interrupted, or were lost in a crash.
	Refilled int64
}

// CanResume refuses a workload that can't be continued.
func (w *Insert) CanResume() error {
	if w.preset.sequence == nil {
		return engine.Hinted(fmt.Errorf("preset %s: a row doesn't contain its sequence number", w.preset.name),
			"the recorded command again, with --drop-existing")
	}
	if w.opt.KeepRows > 0 {
		return engine.Hinted(errors.New("the oldest rows of a table of constant size are deleted: whether a missing row was deleted or lost is unknown"),
			"the recorded command again, with --drop-existing")
	}
	return nil
}

// refillTries is how often the tables are read again because missing rows have appeared in the
// meantime: the server was still executing a batch of a killed client.
const refillTries = 10

// Resume replaces Setup: it determines which rows the tables hold, inserts the rows that are
// missing below the highest row, and lets the clients continue after that row. most is the maximum
// number of rows of the load, 0 if unlimited. Resume refuses tables that do not exist, and rows
// that the load did not insert.
func (w *Insert) Resume(ctx context.Context, most int64, progress func(rows int64)) (Resumed, error) {
	if err := w.CanResume(); err != nil {
		return Resumed{}, err
	}
	for _, t := range w.tables {
		exists, err := w.db.Catalog().Exists(ctx, &t.Table)
		if err == nil && !exists {
			err = engine.Hinted(engine.Classed(engine.ErrNoTable, fmt.Errorf("table %s no longer exists in %s", t.Name, w.db.Info().Target)),
				"the recorded command again: no table is left to continue with")
		}
		if err != nil {
			return Resumed{}, err
		}
	}
	var out Resumed
	for _, t := range w.tables {
		for try := 1; ; try++ {
			r, err := w.resume(ctx, t, most, func(rows int64) { progress(out.Found + rows) })
			if errors.Is(err, engine.ErrDuplicateKey) && try < refillTries {
				out.Refilled += r.Refilled
				continue
			}
			if err != nil {
				return out, fmt.Errorf("resume table %s: %w", t.Name, err)
			}
			out.Rows, out.Found = out.Rows+r.Rows, out.Found+r.Found
			out.Dropped, out.Refilled = out.Dropped+r.Dropped, out.Refilled+r.Refilled
			break
		}
	}
	if most > 0 && out.Rows > most {
		return out, fmt.Errorf("the tables hold %s, and the load was to insert %s", figure.Plural(out.Rows, "row", "rows"), figure.Count(most))
	}
	return out, nil
}

func (w *Insert) resume(ctx context.Context, t *table, most int64, progress func(rows int64)) (out Resumed, err error) {
	t.reset()
	low, err := w.resumePeriods(ctx, t)
	if err != nil {
		return out, err
	}
	there, err := w.survey(ctx, t, most, progress)
	if err != nil {
		return out, err
	}
	next := max(there.end(), low)
	if t.roller != nil && next > 0 && w.position(next-1) >= t.roller.ready.Load() {
		return out, errors.New("it holds rows that no period has room for")
	}
	out = Resumed{Rows: next, Found: there.count, Dropped: low}
	for _, s := range there.holes(low, next) {
		if err := w.refill(ctx, t, s, &out.Refilled); err != nil {
			return out, err
		}
	}
	t.next.Store(next)
	// The server may still be executing batches of the ended process: one batch per writer, after the
	// last row found.
	t.late = next + int64(w.opt.Batch)*int64(w.opt.Writers)
	return out, nil
}

// resumePeriods reads a rolling table's periods, and returns the first row that
// was not dropped with a period.
func (w *Insert) resumePeriods(ctx context.Context, t *table) (low int64, err error) {
	if t.roller == nil {
		return 0, nil
	}
	parts, err := w.db.Catalog().Partitions(ctx, &t.Table)
	if err != nil {
		return 0, err
	}
	if len(parts) == 0 {
		return 0, errors.New("it has no periods, and the load's had")
	}
	first, err := t.Grid.At(w.position(0))
	if err != nil {
		return 0, err
	}
	t.roller.reset(parts)
	// A step of the ended process may still complete at any moment.
	t.roller.ddl.Lock()
	t.roller.stale = true
	t.roller.ddl.Unlock()
	t.resumed = true
	if parts[0].From <= first.From {
		return 0, nil
	}
	if w.opt.KeepPeriods == 0 {
		return 0, fmt.Errorf("its periods before %s are gone, and the load was to drop none", t.Grid.Format(parts[0].From))
	}
	t.roller.dropping.Store(parts[0].From)
	t.roller.dropped.Store(parts[0].From)
	return w.firstAt(parts[0].From), nil
}

// errForeign is the error for a row that the load did not insert.
var errForeign = engine.Hinted(errors.New("it holds a row that this load did not insert"), "the recorded command again, with --drop-existing to drop the table")

func (w *Insert) survey(ctx context.Context, t *table, most int64, progress func(rows int64)) (*rowSet, error) {
	there := &rowSet{}
	want := engine.NewBatch(t.Columns)
	check := func(b *engine.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := 0; i < b.Rows(); {
			first := w.preset.sequence(b, i, t.stream)
			n := 1
			for i+n < b.Rows() && w.preset.sequence(b, i+n, t.stream) == first+int64(n) {
				n++
			}
			if first < 0 || most > 0 && first+int64(n) > most {
				return errForeign
			}
			want.Reset()
			w.preset.fill(want, t.stream, first, n)
			var found, made engine.Sum
			for j := range n {
				found.AddRow(b, i+j, nil)
			}
			made.Add(want, nil)
			if !found.Equal(&made) || !there.add(span{first, first + int64(n)}) {
				return errForeign
			}
			i += n
		}
		progress(there.count)
		return nil
	}
	if !t.Rolling() {
		return there, w.db.Scan(ctx, &t.Table, nil, check)
	}
	t.roller.ddl.Lock()
	parts := t.roller.parts
	t.roller.ddl.Unlock()
	for _, p := range parts {
		if err := w.db.Scan(ctx, &t.Table, &p, check); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// refillFor is how long the insert of a missing batch is retried while it fails
// because of a lock or the connection.
const refillFor = 30 * time.Second

func (w *Insert) refill(ctx context.Context, t *table, hole span, refilled *int64) error {
	return w.load(ctx, transfer{into: &t.Table, stream: t.stream, rows: hole, batch: int64(w.opt.Batch), method: w.opt.Method, patience: refillFor,
		done: func(b *engine.Batch, _ int64) { *refilled += int64(b.Rows()) }})
}

// A rowSet is a set of rows of a sequence, with one bit per row.
type rowSet struct {
	bits  []uint64
	count int64
}

const wordBits = 64

// add adds rows, and returns false if one of them is already in the set.
func (r *rowSet) add(s span) bool {
	if need := int((s.to + wordBits - 1) / wordBits); need > len(r.bits) {
		grown := make([]uint64, max(need, 2*len(r.bits)))
		copy(grown, r.bits)
		r.bits = grown
	}
	for at := s.from; at < s.to; at++ {
		bit := uint64(1) << (at % wordBits)
		if r.bits[at/wordBits]&bit != 0 {
			return false
		}
		r.bits[at/wordBits] |= bit
	}
	r.count += s.rows()
	return true
}

func (r *rowSet) has(row int64) bool {
	return row/wordBits < int64(len(r.bits)) && r.bits[row/wordBits]&(1<<(row%wordBits)) != 0
}

// end returns the row after the highest one.
func (r *rowSet) end() int64 {
	for at := int64(len(r.bits)) * wordBits; at > 0; at-- {
		if r.has(at - 1) {
			return at
		}
	}
	return 0
}

func (r *rowSet) holes(from, to int64) []span {
	var out []span
	for at := from; at < to; at++ {
		if at%wordBits == 0 && at+wordBits <= to && r.bits[at/wordBits] == ^uint64(0) {
			at += wordBits - 1
			continue
		}
		if r.has(at) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].to == at {
			out[n-1].to++
		} else {
			out = append(out, span{at, at + 1})
		}
	}
	return out
}

// keySequence returns the sequence number of a row of a preset whose first column is the sequence
// number plus 1.
func keySequence(b *engine.Batch, row int, _ draw.Stream) int64 { return b.Columns[0].Ints[row] - 1 }

// readingsSequence is the inverse of fillTimeseries: it computes a row's sequence number from the
// row's time and id. The place of the row within its second follows from the id, by the inverse of
// the permutation.
func readingsSequence(b *engine.Batch, row int, s draw.Stream) int64 {
	id, since := b.Columns[0].Ints[row], b.Columns[1].Ints[row]-draw.VirtualStart
	if since < 0 || since%1e6 != 0 || id < 0 || id >= sensors {
		return -1
	}
	second := since / 1e6
	scale, shift, _ := permutation(s, second)
	inverse := new(big.Int).ModInverse(big.NewInt(scale), big.NewInt(sensors)).Int64()
	place := (id - shift + sensors) % sensors * inverse % sensors
	if place >= readingsPerSecond {
		return -1
	}
	return second*readingsPerSecond + place
}
