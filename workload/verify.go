package workload

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Proof is what Verify found.
type Proof struct {
	// Expected rows were acknowledged and not dropped since; Found are there.
	Expected, Found int64
	// Checksum is true when the rows found are the very rows that were sent.
	Checksum bool
	// Periods are the same by period, where a row's period is known beforehand.
	Periods []PeriodProof
	// DroppedRows went with periods that were dropped.
	DroppedRows int64
	Warnings    []string
}

// PeriodProof is what Verify found in one period.
type PeriodProof struct {
	// Name is TABLE.PARTITION, From and To its bounds as text.
	Name, From, To  string
	Expected, Found int64
	Checksum        bool
}

// verifyChunk is how many rows are made again at a time.
const verifyChunk = 1000

// Verify reads the tables and compares them with the rows that the seed gives:
// their number, and a checksum of each period. Rows whose acknowledgement was
// lost may be there or not, but whole batches of them only. Rows of periods
// that were dropped are not expected. progress, if set, is called with the
// number of rows read so far.
func (w *Insert) Verify(ctx context.Context, progress func(rows int64)) (Proof, error) {
	proof := Proof{Checksum: true}
	if progress == nil {
		progress = func(int64) {}
	}
	for _, t := range w.tables {
		if err := w.verify(ctx, t, &proof, progress); err != nil {
			return proof, fmt.Errorf("verify table %s: %w", t.Name, err)
		}
	}
	return proof, nil
}

func (w *Insert) verify(ctx context.Context, t *table, proof *Proof, progress func(int64)) error {
	if t.ServerKey != "" || !t.Rolling() {
		// Where the server assigns the keys, a row's period isn't known
		// beforehand: the table is checked as a whole.
		return w.verifyWhole(ctx, t, proof, progress)
	}
	parts, err := w.db.Catalog().Partitions(ctx, &t.Table)
	if err != nil {
		return err
	}
	expected, err := w.expect(ctx, t, func(seq int64) int { return rolling.Find(parts, w.position(seq)) }, len(parts))
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.dropped = expected.elsewhere
	t.mu.Unlock()
	proof.DroppedRows += expected.elsewhere
	for i, p := range parts {
		found, err := w.read(ctx, t, &p, progress, proof.Found)
		if err != nil {
			return err
		}
		want, ok := expected.match(i, &found)
		proof.add(want, found.Rows, ok)
		proof.Periods = append(proof.Periods, PeriodProof{
			Name: t.Name + "." + p.Name, From: t.Grid.Format(p.From), To: t.Grid.Format(p.To),
			Expected: want, Found: found.Rows, Checksum: ok,
		})
	}
	proof.doubt(t, expected)
	return nil
}

func (w *Insert) verifyWhole(ctx context.Context, t *table, proof *Proof, progress func(int64)) error {
	expected, err := w.expect(ctx, t, func(int64) int { return 0 }, 1)
	if err != nil {
		return err
	}
	found, err := w.read(ctx, t, nil, progress, proof.Found)
	if err != nil {
		return err
	}
	want, ok := expected.match(0, &found)
	proof.add(want, found.Rows, ok)
	proof.doubt(t, expected)
	if t.Rolling() && w.opt.KeepPeriods > 0 {
		proof.Checksum = false
		proof.Warnings = append(proof.Warnings, fmt.Sprintf(
			"table %s: the server assigned the keys and periods were dropped, so what must be left isn't known; the checksum says nothing", t.Name))
	}
	return nil
}

func (p *Proof) add(expected, found int64, ok bool) {
	p.Expected += expected
	p.Found += found
	p.Checksum = p.Checksum && ok
}

func (p *Proof) doubt(t *table, e *expectation) {
	if e.doubtRows > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("table %s: %d rows were sent and not acknowledged; %d of them are in the table",
			t.Name, e.doubtRows, e.doubtFound))
	}
}

// An expectation is what each part of a table must hold.
type expectation struct {
	sums  []engine.Sum
	doubt [][]engine.Sum // of each batch in doubt, by part
	// elsewhere counts acknowledged rows that lie in no part.
	elsewhere             int64
	doubtRows, doubtFound int64
}

// expect makes the table's rows again and adds them up by part; part says in
// which one a row lies, -1 in none.
func (w *Insert) expect(ctx context.Context, t *table, part func(seq int64) int, parts int) (*expectation, error) {
	e := &expectation{sums: make([]engine.Sum, parts)}
	b := engine.NewBatch(t.Inserted())
	add := func(s span, into []engine.Sum, elsewhere *int64) error {
		for at := s.from; at < s.to; at += verifyChunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.Reset()
			n := min(verifyChunk, s.to-at)
			w.preset.fill(b, t.stream, at, int(n))
			for i := range n {
				if p := part(at + i); p >= 0 {
					into[p].AddRow(b, int(i), nil)
				} else {
					*elsewhere++
				}
			}
		}
		return nil
	}
	t.mu.Lock()
	doubt := append([]span(nil), t.doubt...)
	t.mu.Unlock()
	if err := add(span{0, t.next.Load()}, e.sums, &e.elsewhere); err != nil {
		return nil, err
	}
	for _, s := range doubt {
		sums := make([]engine.Sum, parts)
		var elsewhere int64
		if err := add(s, sums, &elsewhere); err != nil {
			return nil, err
		}
		e.doubtRows += s.to - s.from
		e.elsewhere -= elsewhere
		for i := range sums {
			e.sums[i].Rows -= sums[i].Rows
			e.sums[i].Hash -= sums[i].Hash
		}
		e.doubt = append(e.doubt, sums)
	}
	return e, nil
}

// maxDoubt is how many batches in doubt are tried in all combinations: 2^16
// additions take a millisecond.
const maxDoubt = 16

// match compares what was found in part i with what must be there, with or
// without each batch in doubt. It returns how many rows were expected then.
func (e *expectation) match(i int, found *engine.Sum) (want int64, ok bool) {
	var open []engine.Sum
	for _, sums := range e.doubt {
		if sums[i].Rows > 0 {
			open = append(open, sums[i])
		}
	}
	must := e.sums[i]
	if len(open) > maxDoubt {
		open = open[:maxDoubt]
	}
	for set := range 1 << len(open) {
		sum := engine.Sum{Rows: must.Rows, Hash: must.Hash}
		for j := range open {
			if set>>j&1 == 1 {
				sum.Rows += open[j].Rows
				sum.Hash += open[j].Hash
			}
		}
		if sum.Equal(found) {
			e.doubtFound += sum.Rows - must.Rows
			return sum.Rows, true
		}
	}
	return must.Rows, false
}

// read adds up what a part of the table holds. The key that the server
// assigned is left out: it isn't ours.
func (w *Insert) read(ctx context.Context, t *table, part *rolling.Partition, progress func(int64), before int64) (engine.Sum, error) {
	var sum engine.Sum
	var skip []bool
	if t.ServerKey != "" {
		skip = make([]bool, len(t.Columns))
		skip[t.Column(t.ServerKey)] = true
	}
	err := w.db.Scan(ctx, &t.Table, part, func(b *engine.Batch) error {
		sum.Add(b, skip)
		progress(before + sum.Rows)
		return nil
	})
	return sum, err
}
