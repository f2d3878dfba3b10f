package workload

import (
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// daily is a table of traffic figures with a natural key, as in field reports of 2009: loaded in
// time order, with some rows sent twice, which INSERT IGNORE skips. The reports state that a row
// has 104 bytes. The columns (4 + 4 + 5 + 4 * 8 + 1 + 58 bytes) and the number of repeated rows are
// rowmill's choice.
func daily() preset {
	return preset{
		name: "daily",
		help: "traffic of 2009: key (customer, device, ts), rows of 104 bytes in time order; 1% come twice, and the second one is skipped",
		table: engine.Table{
			Name: "traffic",
			Columns: []engine.Column{
				{Name: "customer", Type: engine.Int32},
				{Name: "device", Type: engine.Int32},
				{Name: "ts", Type: engine.Time},
				{Name: "bytes_in", Type: engine.Int64},
				{Name: "bytes_out", Type: engine.Int64},
				{Name: "packets_in", Type: engine.Int64},
				{Name: "packets_out", Type: engine.Int64},
				{Name: "path", Type: engine.Varchar, Size: pathLength},
			},
			PrimaryKey: []string{"customer", "device", "ts"},
			Ignore:     true,
		},
		by: "ts", axis: rolling.Time, clock: readingsClock,
		batch: 10000,
		fill:  fillDaily,
		twin:  twinDaily,
		deviations: []string{
			"the columns are rowmill's, of 104 bytes together as published; the publication doesn't name its own",
			fmt.Sprintf("ts is a simulated clock, %d rows to the second from 2026-01-01; the last %d of each second are others of that second once more",
				readingsPerSecond, repeatsPerSecond),
		},
	}
}

const (
	// repeatsPerSecond is the number of rows in a simulated second that are sent twice.
	repeatsPerSecond = readingsPerSecond / 100
	freshPerSecond   = readingsPerSecond - repeatsPerSecond
	// pathLength is the length of the varchar, without its length byte.
	pathLength = 58
	// devicesPerCustomer divides the sensors' numbers into the key's two columns.
	devicesPerCustomer = 1000
)

// Some rows of each simulated second are sent twice. repeatPlan returns the first of them, by its
// number within the second; each further one is freshStep rows later.
func repeatPlan(s draw.Stream, second int64) (first int64) {
	_, _, d := permutation(s, second)
	return d.Below(freshStep)
}

// freshStep spreads the repeated rows evenly over the second.
const freshStep = freshPerSecond / repeatsPerSecond

func twinDaily(s draw.Stream, seq int64) (other int64, repeat, ok bool) {
	second, at := seq/readingsPerSecond, seq%readingsPerSecond
	first := repeatPlan(s, second)
	if at >= freshPerSecond {
		return second*readingsPerSecond + first + (at-freshPerSecond)*freshStep, true, true
	}
	if n := at - first; n >= 0 && n%freshStep == 0 {
		return second*readingsPerSecond + freshPerSecond + n/freshStep, false, true
	}
	return 0, false, false
}

func fillDaily(b *engine.Batch, s draw.Stream, first int64, n int) {
	c := b.Columns
	var scale, shift, repeated, second int64 = 0, 0, 0, -1
	for seq := first; seq < first+int64(n); seq++ {
		if seq/readingsPerSecond != second {
			second = seq / readingsPerSecond
			var rest draw.Values
			scale, shift, rest = permutation(s, second)
			repeated = rest.Below(freshStep)
		}
		at, source := seq%readingsPerSecond, seq
		if at >= freshPerSecond {
			at = repeated + (at-freshPerSecond)*freshStep
			source = second*readingsPerSecond + at
		}
		d := s.Row(source)
		id := (scale*at + shift) % sensors
		c[0].Ints = append(c[0].Ints, id/devicesPerCustomer)
		c[1].Ints = append(c[1].Ints, id%devicesPerCustomer)
		c[2].Ints = append(c[2].Ints, readingsClock.At(seq))
		in, out := d.Below(1<<30), d.Below(1<<30)
		c[3].Ints = append(c[3].Ints, in)
		c[4].Ints = append(c[4].Ints, out)
		c[5].Ints = append(c[5].Ints, 1+in/1000)
		c[6].Ints = append(c[6].Ints, 1+out/1000)
		c[7].Bytes = draw.AppendLetters(c[7].Bytes, &d, pathLength)
		c[7].EndBytes()
	}
	b.EndRows(n)
}

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

// twice reports whether a row is the later of two equal rows, both of which were acknowledged.
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

// mustHold adds the acknowledged rows in b to sum, but only one of two equal rows.
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
