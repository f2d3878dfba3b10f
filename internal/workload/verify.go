package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/rolling"
)

// Proof is the result of Verify.
type Proof struct {
	// Expected is the number of rows that were acknowledged and not dropped since; Found is the
	// number of rows in the tables. Both include the rows of batches in doubt that were committed.
	Expected, Found int64
	// Lost is the number of expected rows that are rightly missing: they were acknowledged shortly
	// before the server was killed, and the server's settings allow the loss of such rows. In a sound
	// table, Expected = Found + Lost.
	Lost int64
	// Checksum is true if the rows found are exactly the rows that were sent, apart from the rows
	// counted in Lost.
	Checksum bool
	// Periods are the results by period, if the period of each row can be computed.
	Periods []PeriodProof
	// DroppedRows is the number of rows in dropped periods, DeletedRows the number of deleted rows.
	DroppedRows, DeletedRows int64
	Warnings                 []string
}

// PeriodProof is the result of Verify for one period.
type PeriodProof struct {
	// Name is TABLE.PARTITION, From and To its bounds as text.
	Name, From, To  string
	Expected, Found int64
	Lost            int64
	Checksum        bool
}

// ErrUnverifiable is the error of Verify if it can't be known which rows must exist.
var ErrUnverifiable = errors.New("the rows can't be verified")

// verifyChunk is the number of rows recomputed at a time.
const verifyChunk = 1000

// Verify reads the tables after a run and compares them with the rows computed from the seed: their
// number, and a checksum of each period. Batches without acknowledgement, or acknowledged so
// shortly before a crash that they may be lost, may be missing, but only as a whole. Rows of
// dropped periods are not expected. progress is called with the number of rows read so far.
func (w *Insert) Verify(ctx context.Context, progress func(rows int64)) (Proof, error) {
	proof := Proof{Checksum: true}
	for _, t := range w.tables {
		before := proof.Found
		c := &check{w: w, t: t, proof: &proof, progress: func(rows int64) { progress(before + rows) }}
		if err := c.run(ctx); err != nil {
			return proof, fmt.Errorf("verify table %s: %w", t.Name, err)
		}
	}
	return proof, nil
}

type check struct {
	w        *Insert
	t        *table
	proof    *Proof
	progress func(rows int64)

	periods []rolling.Partition // of a rolling table
	skip    []bool              // columns to leave out: the key that the server assigned

	acked []span // the acknowledged rows: see table.sent

	read  int64        // number of rows so far
	must  []engine.Sum // acknowledged rows, by part
	found []engine.Sum // rows in the table except those in doubt, by part
	// missing counts acknowledged rows that are in no period, present or dropped. dropped counts
	// acknowledged rows in dropped periods.
	missing, dropped int64

	doubts  []*doubtful
	suspect map[uint64]place // rows in doubt, by hash
}

// A doubt is the reason why the rows of a batch may exist or not.
type doubt int

const (
	unacknowledged doubt = iota // the insert was sent and not acknowledged
	atRisk                      // acknowledged so shortly before a crash that it may be lost
	leaving                     // the delete was sent and not acknowledged
)

// A tally counts the rows of a batch, and how many of them are in the table.
type tally struct{ rows, found int64 }

func (t *tally) add(o tally) { t.rows, t.found = t.rows+o.rows, t.found+o.found }

// A doubtful batch may be in the table or not. tally counts all of its rows, and parts counts them
// by part. Neither counts rows in dropped periods.
type doubtful struct {
	doubt
	tally
	parts []doubtfulPart
}

type doubtfulPart struct {
	part int
	tally
}

type place struct {
	batch *doubtful
	part  int // index in batch.parts
}

func (c *check) run(ctx context.Context) error {
	t := c.t
	if t.ServerKey != "" {
		c.skip = make([]bool, len(t.Columns))
		c.skip[t.Column(t.ServerKey)] = true
	}
	parts := 1
	if t.Rolling() {
		var err error
		if c.periods, err = c.w.db.Catalog().Partitions(ctx, &t.Table); err != nil {
			return err
		}
		parts = len(c.periods)
	}
	c.must, c.found = make([]engine.Sum, parts), make([]engine.Sum, parts)
	var doubtful []span
	c.acked, doubtful = t.sent()
	if c.w.preset.twin != nil && len(doubtful) > 0 {
		return fmt.Errorf("%w: preset %s sends some rows twice, and of the %d batches without acknowledgement each may have been committed", ErrUnverifiable, c.w.preset.name, len(doubtful))
	}
	c.suspect = map[uint64]place{}
	risk := t.recent.risk()
	for kind, batches := range [...][]span{unacknowledged: doubtful, atRisk: risk, leaving: t.leaving()} {
		if err := c.suspects(ctx, batches, doubt(kind)); err != nil {
			return err
		}
	}
	c.proof.DeletedRows += t.tail.removed.Load()
	c.acked = without(c.acked, risk)
	if err := c.compare(ctx); err != nil {
		return err
	}
	c.conclude()
	return nil
}

// compare recomputes the acknowledged rows while it reads the rows in the table.
func (c *check) compare(ctx context.Context) error {
	making, cancel := context.WithCancel(ctx)
	defer cancel()
	made := make(chan error, 1)
	go func() { made <- c.expect(making) }()
	err := c.readAll(ctx, c.add)
	if err != nil {
		cancel()
		<-made
		return err
	}
	return <-made
}

func (c *check) expect(ctx context.Context) error {
	for _, s := range c.acked {
		err := c.each(ctx, s, func(part int, s span, b *engine.Batch) {
			if part >= 0 {
				c.mustHold(&c.must[part], s, b)
			} else {
				c.outside(s)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outside counts acknowledged rows that are in no period, as dropped or missing.
func (c *check) outside(s span) {
	var dropped span
	if c.t.roller != nil {
		dropped.to = c.w.firstAt(c.t.roller.dropping.Load())
	}
	gone := c.w.distinct(c.t, c.acked, s.within(dropped))
	c.dropped += gone
	c.missing += c.w.distinct(c.t, c.acked, s) - gone
}

func (c *check) suspects(ctx context.Context, batches []span, why doubt) error {
	var scratch engine.Sum
	for _, batch := range batches {
		d := &doubtful{doubt: why}
		err := c.each(ctx, batch, func(part int, s span, b *engine.Batch) {
			if part < 0 {
				if why == atRisk {
					c.outside(s)
				}
				return
			}
			if n := len(d.parts); n == 0 || d.parts[n-1].part != part {
				d.parts = append(d.parts, doubtfulPart{part: part})
			}
			n := len(d.parts) - 1
			for i := range b.Rows() {
				d.parts[n].rows++
				d.rows++
				c.suspect[hash(&scratch, b, i, nil)] = place{d, n}
			}
		})
		if err != nil {
			return err
		}
		c.doubts = append(c.doubts, d)
	}
	return nil
}

// hash adds a row to a sum and returns the row's own hash.
func hash(sum *engine.Sum, b *engine.Batch, row int, skip []bool) uint64 {
	before := sum.Hash
	sum.AddRow(b, row, skip)
	return sum.Hash - before
}

// each recomputes the rows of a span and passes them to fn in chunks, each within one part. Rows
// that belong to no part are passed as part -1, without being computed.
func (c *check) each(ctx context.Context, s span, fn func(part int, s span, b *engine.Batch)) error {
	b := engine.NewBatch(c.t.Inserted())
	for at := s.from; at < s.to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part, until := c.part(at)
		to := min(s.to, until)
		if part >= 0 {
			to = min(to, at+verifyChunk)
			b.Reset()
			c.w.preset.fill(b, c.t.stream, at, int(to-at))
		}
		fn(part, span{at, to}, b)
		at = to
	}
	return nil
}

// part returns the part that a row belongs to, or -1, and the first row after it
// that may belong to another part.
func (c *check) part(seq int64) (part int, until int64) {
	if !c.t.Rolling() {
		return 0, math.MaxInt64
	}
	pos := c.w.position(seq)
	// If the table rolls by the sequence, the parts are in the order of the rows.
	i, _ := slices.BinarySearchFunc(c.periods, pos, func(p rolling.Partition, pos int64) int {
		if p.To <= pos {
			return -1
		}
		return 1
	})
	switch {
	case i == len(c.periods):
		return -1, math.MaxInt64
	case pos < c.periods[i].From:
		return -1, c.w.firstAt(c.periods[i].From)
	}
	return i, c.w.firstAt(c.periods[i].To)
}

func (c *check) readAll(ctx context.Context, fn func(part int, b *engine.Batch)) error {
	if !c.t.Rolling() {
		return c.readPart(ctx, nil, 0, fn)
	}
	for i, p := range c.periods {
		if err := c.readPart(ctx, &p, i, fn); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) readPart(ctx context.Context, p *rolling.Partition, part int, fn func(part int, b *engine.Batch)) error {
	return c.w.db.Scan(ctx, &c.t.Table, p, func(b *engine.Batch) error {
		fn(part, b)
		c.read += int64(b.Rows())
		c.progress(c.read)
		return ctx.Err()
	})
}

func (c *check) add(part int, b *engine.Batch) {
	sum := &c.found[part]
	if len(c.suspect) == 0 {
		sum.Add(b, c.skip)
		return
	}
	for i := range b.Rows() {
		h := hash(sum, b, i, c.skip)
		p, ok := c.suspect[h]
		if !ok || p.batch.parts[p.part].part != part {
			continue
		}
		sum.Rows--
		sum.Hash -= h
		p.batch.found++
		p.batch.parts[p.part].found++
	}
}

func (c *check) conclude() {
	parts := make([]PeriodProof, len(c.must))
	for i := range c.must {
		parts[i] = PeriodProof{Expected: c.must[i].Rows, Found: c.found[i].Rows, Checksum: c.must[i].Equal(&c.found[i])}
	}
	var sums [leaving + 1]tally
	var torn, cut int64
	for _, d := range c.doubts {
		sums[d.doubt].add(d.tally)
		whole := d.found == d.rows
		switch {
		case whole || d.found == 0:
		case d.doubt == atRisk:
			cut++
		default:
			torn++
		}
		for _, p := range d.parts {
			part := &parts[p.part]
			part.Found += p.found
			if whole || d.doubt == atRisk {
				part.Expected += p.rows
			}
			if d.doubt == atRisk {
				part.Lost += p.rows - p.found
			}
			part.Checksum = part.Checksum && (whole || d.found == 0)
		}
	}
	for i, p := range parts {
		c.proof.Expected += p.Expected
		c.proof.Found += p.Found
		c.proof.Lost += p.Lost
		c.proof.Checksum = c.proof.Checksum && p.Checksum
		if c.t.Rolling() {
			at := c.periods[i]
			p.Name, p.From, p.To = c.t.Name+"."+at.Name, c.t.Grid.Format(at.From), c.t.Grid.Format(at.To)
			c.proof.Periods = append(c.proof.Periods, p)
		}
	}
	c.proof.Expected += c.missing
	c.proof.DroppedRows += c.dropped
	if d := sums[unacknowledged]; d.rows > 0 {
		c.warn("%s sent and not acknowledged; %s in the table", figure.Plural(d.rows, "row was", "rows were"), figure.Plural(d.found, "of them is", "of them are"))
	}
	if risk := sums[atRisk]; risk.rows > risk.found {
		c.warn("%s acknowledged and lost: of the %s acknowledged in the %v before each of %s of the server, which its settings allow it to lose; all others are there",
			figure.Plural(risk.rows-risk.found, "row was", "rows were"), figure.Count(risk.rows), c.w.lossWindow(), figure.Plural(c.w.crashes, "kill", "kills"))
	}
	if d := sums[leaving]; d.rows > 0 {
		c.warn("a delete of %s was not acknowledged; %s in the table", figure.Plural(d.rows, "row", "rows"), figure.Plural(d.found, "of them is", "of them are"))
	}
	c.wrong(torn, "unacknowledged batch is", "unacknowledged batches are", "in the table in part")
	c.wrong(cut, "batch acknowledged shortly before a crash is", "batches acknowledged shortly before a crash are", "in the table in part")
	c.wrong(c.missing, "acknowledged row lies", "acknowledged rows lie", "in no period, though theirs was never dropped")
}

func (c *check) warn(format string, args ...any) {
	c.proof.Warnings = append(c.proof.Warnings, fmt.Sprintf("table %s: "+format, append([]any{c.t.Name}, args...)...))
}

func (c *check) wrong(n int64, one, many, how string) {
	if n > 0 {
		c.proof.Checksum = false
		c.warn("%s %s", figure.Plural(n, one, many), how)
	}
}
