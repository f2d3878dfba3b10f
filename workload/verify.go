package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/rolling"
)

// Proof is what Verify found.
type Proof struct {
	// Expected rows were acknowledged and not dropped since; Found are there.
	// Both have the rows of batches in doubt that turned out to be there.
	Expected, Found int64
	// Lost are rows of Expected that are not there and needn't be: they were
	// acknowledged so shortly before the server was killed that its settings
	// allow it to lose them. A sound table has Expected = Found + Lost.
	Lost int64
	// Checksum is true when the rows found are the very rows that were sent,
	// and no others are missing than those lost.
	Checksum bool
	// Periods are the same by period, where a row's period is known beforehand.
	Periods []PeriodProof
	// DroppedRows went with periods that were dropped, DeletedRows one by one.
	DroppedRows, DeletedRows int64
	Warnings                 []string
}

// PeriodProof is what Verify found in one period.
type PeriodProof struct {
	// Name is TABLE.PARTITION, From and To its bounds as text.
	Name, From, To  string
	Expected, Found int64
	Lost            int64
	Checksum        bool
}

// verifyChunk is how many rows are made again at a time.
const verifyChunk = 1000

// Verify reads the tables and compares them with the rows that the seed gives:
// their number, and a checksum of each period. Rows whose acknowledgement was
// lost, and rows acknowledged so shortly before a crash that it may have lost
// them, may be there or not, but whole batches of them only; some 50 bytes are
// kept for each. Rows of periods
// that the workload dropped are not expected; where the server assigned the
// keys it isn't known which those are, so that their number alone is checked,
// and a few dozen bytes are kept for each row that is left. progress, if set,
// is called with the number of rows read so far.
//
// Verify is for the time after a run: no client may be at work.
func (w *Insert) Verify(ctx context.Context, progress func(rows int64)) (Proof, error) {
	proof := Proof{Checksum: true}
	if progress == nil {
		progress = func(int64) {}
	}
	for _, t := range w.tables {
		before := proof.Found
		c := &check{w: w, t: t, proof: &proof, progress: func(rows int64) { progress(before + rows) }}
		if err := c.run(ctx); err != nil {
			return proof, fmt.Errorf("verify table %s: %w", t.Name, err)
		}
	}
	return proof, nil
}

// A check compares one table with the rows that were sent.
type check struct {
	w        *Insert
	t        *table
	proof    *Proof
	progress func(rows int64)

	periods []rolling.Partition // of a rolling table
	// sorted tells that each row's period is known beforehand. Otherwise the
	// table counts as one part.
	sorted bool
	skip   []bool // of the columns read: the key that the server assigned

	acked, doubt []span // what was sent: see table.sent

	read  int64        // rows so far
	must  []engine.Sum // acknowledged rows, by part
	found []engine.Sum // rows in the table but those in doubt, by part
	// missing are acknowledged rows that no period holds and no drop explains,
	// dropped those that one does, strayed rows with another period's key.
	missing, dropped, strayed int64

	doubts  []*doubtful
	suspect map[uint64]place // rows in doubt, by hash
}

// A doubtful batch was sent and not acknowledged, to be inserted or, leaving,
// to be deleted; or, with atRisk, it was acknowledged so shortly before a crash
// that it may be lost.
type doubtful struct {
	atRisk, leaving bool
	rows, found     int64 // rows but those of dropped periods
	parts           []doubtfulPart
}

// A doubtfulPart is what of such a batch lies in one part.
type doubtfulPart struct {
	part        int
	rows, found int64
}

// A place is where a row in doubt belongs.
type place struct {
	batch *doubtful
	part  int // of batch.parts
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
		if c.sorted = t.ServerKey == ""; c.sorted {
			parts = len(c.periods)
		} else if t.roller.dropping.Load() > 0 {
			return c.runLeft(ctx)
		}
	}
	c.must, c.found = make([]engine.Sum, parts), make([]engine.Sum, parts)
	c.acked, c.doubt = t.sent()
	c.suspect = map[uint64]place{}
	risk := t.recent.risk()
	if err := errors.Join(c.suspects(ctx, c.doubt, doubtful{}), c.suspects(ctx, risk, doubtful{atRisk: true})); err != nil {
		return err
	}
	if err := c.suspects(ctx, t.leaving(), doubtful{leaving: true}); err != nil {
		return err
	}
	c.proof.DeletedRows += t.tail.removed.Load()
	c.acked = without(c.acked, risk)
	if err := c.compare(ctx); err != nil {
		return err
	}
	c.conclude()
	return nil
}

// compare makes the acknowledged rows again while it reads those in the table.
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

// expect adds up the rows that must be there.
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

// outside counts acknowledged rows that no period holds: a drop explains them
// or not.
func (c *check) outside(s span) {
	dropped := int64(0)
	if c.t.roller != nil {
		dropped = c.w.firstAt(c.t.roller.dropping.Load())
	}
	gone := c.w.distinct(c.t, c.acked, span{s.from, max(s.from, min(s.to, dropped))})
	c.dropped += gone
	c.missing += c.w.distinct(c.t, c.acked, s) - gone
}

// suspects takes down the rows of batches that may be there or not, each like
// kind.
func (c *check) suspects(ctx context.Context, batches []span, kind doubtful) error {
	var scratch engine.Sum
	for _, batch := range batches {
		d := &doubtful{atRisk: kind.atRisk, leaving: kind.leaving}
		err := c.each(ctx, batch, func(part int, s span, b *engine.Batch) {
			if part < 0 {
				if kind.atRisk {
					c.outside(s)
				}
				return
			}
			for i := range b.Rows() {
				of := d
				switch c.claim(batch, s.from+int64(i)) {
				case claimNone:
					continue
				case claimShared:
					of = &doubtful{}
					c.doubts = append(c.doubts, of)
				}
				if n := len(of.parts); n == 0 || of.parts[n-1].part != part {
					of.parts = append(of.parts, doubtfulPart{part: part})
				}
				n := len(of.parts) - 1
				of.parts[n].rows++
				of.rows++
				c.suspect[hash(&scratch, b, i, nil)] = place{of, n}
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

// each makes the rows of a span again and hands them over in chunks, each of
// one part; rows of no part, which are -1, without making them.
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

// part returns which part a row belongs to, -1 for none, and the first row
// after it that may belong to another.
func (c *check) part(seq int64) (part int, until int64) {
	if !c.sorted {
		return 0, math.MaxInt64
	}
	pos := c.w.position(seq)
	// Rolling by the sequence, parts are in the order of the rows.
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

// readAll reads the table, part by part, and hands over its rows.
func (c *check) readAll(ctx context.Context, fn func(part int, b *engine.Batch)) error {
	if !c.t.Rolling() {
		return c.readPart(ctx, nil, 0, fn)
	}
	for i, p := range c.periods {
		part := i
		if !c.sorted {
			part = 0
			if i == 0 && !c.w.db.Capabilities().Gaps {
				p.From = math.MinInt64 // it has taken over those that were dropped
			}
		}
		if err := c.readPart(ctx, &p, part, fn); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) readPart(ctx context.Context, p *rolling.Partition, part int, fn func(part int, b *engine.Batch)) error {
	// Sums of rows can't tell that a row lies in another period than its key
	// says, where keys aren't part of them.
	key := -1
	if p != nil && !c.sorted {
		key = c.t.Column(c.t.ServerKey)
	}
	return c.w.db.Scan(ctx, &c.t.Table, p, func(b *engine.Batch) error {
		if key >= 0 {
			for _, k := range b.Columns[key].Ints {
				if !p.Contains(k) {
					c.strayed++
				}
			}
		}
		fn(part, b)
		c.read += int64(b.Rows())
		c.progress(c.read)
		return ctx.Err()
	})
}

// add adds up rows that are in the table, those in doubt by themselves.
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

// conclude adds what was found to the proof.
func (c *check) conclude() {
	parts := make([]PeriodProof, len(c.must))
	for i := range c.must {
		parts[i] = PeriodProof{Expected: c.must[i].Rows, Found: c.found[i].Rows, Checksum: c.must[i].Equal(&c.found[i])}
	}
	var rows, found, torn, risk, lost, cut, leaving, left int64
	for _, d := range c.doubts {
		if d.leaving {
			leaving, left = leaving+d.rows, left+d.found
		} else if d.atRisk {
			risk, lost = risk+d.rows, lost+d.rows-d.found
		} else {
			rows, found = rows+d.rows, found+d.found
		}
		whole := d.found == d.rows
		switch {
		case whole || d.found == 0:
		case d.atRisk:
			cut++
		default:
			torn++
		}
		for _, p := range d.parts {
			part := &parts[p.part]
			part.Found += p.found
			if whole || d.atRisk {
				part.Expected += p.rows
			}
			if d.atRisk {
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
		if c.sorted {
			at := c.periods[i]
			p.Name, p.From, p.To = c.t.Name+"."+at.Name, c.t.Grid.Format(at.From), c.t.Grid.Format(at.To)
			c.proof.Periods = append(c.proof.Periods, p)
		}
	}
	c.proof.Expected += c.missing
	c.setDropped(c.dropped)
	if rows > 0 {
		c.warn("%s sent and not acknowledged; %s in the table", figure.Plural(rows, "row was", "rows were"), figure.Plural(found, "of them is", "of them are"))
	}
	if lost > 0 {
		c.warn("%s acknowledged and lost: of the %s acknowledged in the %v before each of %s of the server, which its settings allow it to lose; all others are there",
			figure.Plural(lost, "row was", "rows were"), figure.Count(risk), c.w.lossWindow(), figure.Plural(c.w.crashes, "kill", "kills"))
	}
	if leaving > 0 {
		c.warn("a delete of %s was not acknowledged; %s in the table", figure.Plural(leaving, "row", "rows"), figure.Plural(left, "of them is", "of them are"))
	}
	c.wrong(torn, "unacknowledged batch is", "unacknowledged batches are", "in the table in part")
	c.wrong(cut, "batch acknowledged shortly before a crash is", "batches acknowledged shortly before a crash are", "in the table in part")
	c.wrong(c.missing, "acknowledged row lies", "acknowledged rows lie", "in no period, though theirs was never dropped")
	c.wrong(c.strayed, "row lies", "rows lie", "in another period than by key")
}

func (c *check) warn(format string, args ...any) {
	c.proof.Warnings = append(c.proof.Warnings, fmt.Sprintf("table %s: "+format, append([]any{c.t.Name}, args...)...))
}

// wrong says of a number of rows or batches how they differ from what was sent.
func (c *check) wrong(n int64, one, many, how string) {
	if n > 0 {
		c.proof.Checksum = false
		c.warn("%s %s", figure.Plural(n, one, many), how)
	}
}

func (c *check) setDropped(n int64) {
	c.proof.DroppedRows += n
	if c.t.roller != nil {
		c.t.mu.Lock()
		c.t.dropped = n
		c.t.mu.Unlock()
	}
}

// runLeft checks a table whose keys the server assigned and that lost periods.
// Which rows those held can't be computed, so each row that is left is looked
// up among those that were sent, and those that are not found must be no more
// than the keys of the periods dropped.
func (c *check) runLeft(ctx context.Context) error {
	left := map[uint64]struct{}{}
	var sum engine.Sum
	var twice int64
	err := c.readAll(ctx, func(_ int, b *engine.Batch) {
		for i := range b.Rows() {
			h := hash(&sum, b, i, c.skip)
			if _, known := left[h]; known {
				twice++
			}
			left[h] = struct{}{}
		}
	})
	if err != nil {
		return err
	}
	// match takes the rows of spans out of those that are left.
	match := func(spans []span) (rows, found int64, err error) {
		for _, s := range spans {
			err := c.each(ctx, s, func(_ int, s span, b *engine.Batch) {
				rows += s.rows()
				for i := range b.Rows() {
					h := hash(&sum, b, i, nil)
					if _, ok := left[h]; ok {
						delete(left, h)
						found++
					}
				}
			})
			if err != nil {
				return rows, found, err
			}
		}
		return rows, found, nil
	}
	acked, doubt := c.t.sent()
	sent, found, err := match(acked)
	if err != nil {
		return err
	}
	doubted, doubtFound, err := match(doubt)
	if err != nil {
		return err
	}
	// Keys begin at 1, so that the keys below the first period are as many as
	// it begins at, less one.
	keys := int64(0)
	if len(c.periods) > 0 && c.t.roller.dropping.Load() > 0 {
		keys = max(0, min(c.periods[0].From, c.t.roller.dropping.Load())-1)
	}
	gone := sent - found
	lost := max(0, gone-keys)
	c.proof.Found += c.read
	c.proof.Expected += found + doubtFound + lost
	c.setDropped(gone - lost)
	if doubted > 0 {
		c.warn("%s sent and not acknowledged; %s in the table", figure.Plural(doubted, "row was", "rows were"), figure.Plural(doubtFound, "of them is", "of them are"))
	}
	c.wrong(lost, "acknowledged row is", "acknowledged rows are", "missing")
	c.wrong(twice, "row is", "rows are", "in the table twice")
	c.wrong(int64(len(left)), "row in the table was", "rows in the table were", "never sent")
	c.wrong(c.strayed, "row lies", "rows lie", "in another period than by key")
	if spare := keys - gone; spare > 0 {
		c.warn("the server left keys out, so that of the rows in dropped periods only the largest number is known: up to %s could be missing unnoticed", figure.Plural(spare, "row", "rows"))
	}
	return nil
}
