package workload

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// A preset defines a published table, the generation of its rows, and its partitioning.
type preset struct {
	name  string
	help  string
	table engine.Table // with all of its secondary indexes
	// by is the partitioning column; axis is its type of position.
	by   string
	axis rolling.Axis
	// indexes and batch are the defaults of the same InsertOptions.
	indexes, batch int
	tablePerWriter bool
	// clock is the clock of a time axis; declared counts the secondary indexes in table.Definition.
	clock    draw.Clock
	declared int
	// fill appends rows [first, first+n) of a writer's stream to an empty batch
	// with the inserted columns.
	fill func(b *engine.Batch, s draw.Stream, first int64, n int)
	// twin returns the other row with the same values, and whether the given row is the later of
	// the two. Both are in one period. ok is false if there is no other row. If twin is nil, no
	// rows are equal.
	twin func(s draw.Stream, seq int64) (other int64, repeat, ok bool)
	// sequence returns the sequence number, in a writer's stream, of a row that was read from the
	// table; -1 if the row has none. It is nil if rows don't contain their sequence number.
	sequence func(b *engine.Batch, row int, s draw.Stream) int64
	// queries returns the readers' queries on a table; nil if the publication
	// defines none. Readers execute them in turn if turns is set, otherwise at random.
	queries func(*engine.Table) []query
	turns   bool
	// deviations describe the differences from the published definition.
	deviations []string
}

// Simulated clocks: rows per simulated second.
const (
	purchasesPerSecond = 10000
	readingsPerSecond  = 1000
)

// The clocks of presets. Presets that roll by time have readingsClock.
var (
	purchasesClock = draw.Clock{Seconds: 1, Rows: purchasesPerSecond}
	readingsClock  = draw.Clock{Seconds: 1, Rows: readingsPerSecond}
)

const clockDeviation = "dateandtime is a simulated clock, %d rows to the second from 2026-01-01, so that every row can be made again; published: the time of insertion"
const keyDeviation = "transactionid is sent by the client, ascending, so that a batch repeated after a lost connection isn't inserted twice; published: left to the server's auto-increment"

func presets() []preset {
	return []preset{classic(), ibench(), timeseries(), daily(), sbtest()}
}

// Presets returns the names of the presets, each with a line of help.
func Presets() [][2]string {
	var out [][2]string
	for _, p := range presets() {
		out = append(out, [2]string{p.name, p.help})
	}
	return out
}

// SkipsKnownKeys reports whether a preset's inserts skip rows whose keys exist.
func SkipsKnownKeys(name string) bool {
	p, err := findPreset(name)
	return err == nil && p.table.Ignore
}

func findPreset(name string) (preset, error) {
	var names []string
	for _, p := range presets() {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}
	return preset{}, fmt.Errorf("unknown preset %q; there are %s", name, strings.Join(names, ", "))
}

// purchases returns the table of the classic and of the modern insert benchmark. These differ in
// the types of the key and of the price, and in the columns of the first two indexes: segment and
// register.
func purchases(key, price engine.Type, segment, register []string, more ...engine.Column) engine.Table {
	return engine.Table{
		Name: "purchases",
		Columns: append([]engine.Column{
			{Name: "transactionid", Type: key, Auto: true},
			{Name: "dateandtime", Type: engine.Time},
			{Name: "cashregisterid", Type: engine.Int32},
			{Name: "customerid", Type: engine.Int32},
			{Name: "productid", Type: engine.Int32},
			{Name: "price", Type: price},
		}, more...),
		PrimaryKey: []string{"transactionid"},
		Indexes: []engine.Index{
			{Name: "marketsegment", Columns: segment},
			{Name: "registersegment", Columns: register},
			{Name: "pdc", Columns: []string{"price", "dateandtime", "customerid"}},
		},
	}
}

// classic is the purchases table of iiBench (2008).
func classic() preset {
	return preset{
		name:  "classic",
		help:  "purchases of iiBench (2008): up to 3 secondary indexes on random columns",
		table: purchases(engine.Int32, engine.Float32, []string{"price", "customerid"}, []string{"cashregisterid", "price", "customerid"}),
		by:    "transactionid", axis: rolling.Sequence,
		indexes: 3, batch: 1000,
		fill: fillClassic, sequence: keySequence, queries: classicQueries, turns: true,
		deviations: []string{
			fmt.Sprintf(clockDeviation, purchasesPerSecond), keyDeviation,
		},
	}
}

func fillClassic(b *engine.Batch, s draw.Stream, first int64, n int) {
	c := b.Columns
	for seq := first; seq < first+int64(n); seq++ {
		d := s.Row(seq)
		customer := d.Below(100000)
		c[0].Ints = append(c[0].Ints, seq+1)
		c[1].Ints = append(c[1].Ints, purchasesClock.At(seq))
		c[2].Ints = append(c[2].Ints, d.Below(1000))
		c[3].Ints = append(c[3].Ints, customer)
		c[4].Ints = append(c[4].Ints, d.Below(10000))
		c[5].Floats = append(c[5].Floats, float64(float32(classicPrice(&d, customer))))
	}
	b.EndRows(n)
}

func classicPrice(d *draw.Values, customer int64) float64 {
	return (d.Float()*500 + float64(customer)) / 100
}

// ibench is the table of the modern insert benchmark.
func ibench() preset {
	return preset{
		name: "ibench",
		help: "the modern insert benchmark's table, one for each writer, 3 secondary indexes on integers, a text",
		table: purchases(engine.Int64, engine.Int32, []string{"productid", "customerid", "price"}, []string{"cashregisterid", "customerid", "price"},
			engine.Column{Name: "data", Type: engine.Varchar, Size: 4000}),
		by: "transactionid", axis: rolling.Sequence,
		indexes: 3, batch: 100, tablePerWriter: true,
		fill: fillIbench, sequence: keySequence, queries: ibenchRanges,
		deviations: []string{
			fmt.Sprintf(clockDeviation, purchasesPerSecond), keyDeviation,
			"one step of it, the inserts: all indexes exist before the load; `rowmill bench ibench` runs the whole",
		},
	}
}

// The length of ibench's text is uniform in [minText, maxText].
const minText, maxText = 10, 20

const textFill = "aaaaaaaaaaaaaaaaaaaa" // maxText long

func fillIbench(b *engine.Batch, s draw.Stream, first int64, n int) {
	c := b.Columns
	for seq := first; seq < first+int64(n); seq++ {
		d := s.Row(seq)
		c[0].Ints = append(c[0].Ints, seq+1)
		c[1].Ints = append(c[1].Ints, purchasesClock.At(seq))
		c[2].Ints = append(c[2].Ints, d.Below(1000))
		c[3].Ints = append(c[3].Ints, d.Below(100000))
		c[4].Ints = append(c[4].Ints, d.Below(10000))
		c[5].Ints = append(c[5].Ints, d.Below(500))
		// The last int(length * 0.75 * 0.5) characters of a text are random, all before
		// are 'a': compressible, like real text.
		length := int(d.Between(minText, maxText))
		random := length * 3 / 8
		text := c[6].Bytes
		text = append(text, textFill[:length-random]...)
		c[6].Bytes = draw.AppendLetters(text, &d, random)
		c[6].EndBytes()
	}
	b.EndRows(n)
}

// timeseries is the table of field reports on metrics.
func timeseries() preset {
	return preset{
		name: "timeseries",
		help: "readings (id, ts, value) in time order, ids uniform, keyed by (id, ts)",
		table: engine.Table{
			Name: "readings",
			Columns: []engine.Column{
				{Name: "id", Type: engine.Int32},
				{Name: "ts", Type: engine.Time},
				{Name: "value", Type: engine.Float64},
			},
			PrimaryKey: []string{"id", "ts"},
			Indexes:    []engine.Index{{Name: "ts", Columns: []string{"ts"}}},
		},
		by: "ts", axis: rolling.Time, clock: readingsClock,
		indexes: 1, batch: 1000,
		fill: fillTimeseries, sequence: readingsSequence,
		deviations: []string{
			fmt.Sprintf("ts is a simulated clock, %d rows to the second from 2026-01-01; within a second no id comes twice, or the key would", readingsPerSecond),
		},
	}
}

// sensors is the number of ids: a prime, so that a*i+b visits each id.
const sensors = 1000003

// permutation returns the coefficients for the ids of a second, and the draws that follow.
func permutation(s draw.Stream, second int64) (scale, shift int64, rest draw.Values) {
	d := s.Row(-1 - second)
	scale, shift = 1+d.Below(sensors-1), d.Below(sensors)
	return scale, shift, d
}

func fillTimeseries(b *engine.Batch, s draw.Stream, first int64, n int) {
	c := b.Columns
	var scale, shift, second int64 = 0, 0, -1
	for seq := first; seq < first+int64(n); seq++ {
		// Within a second, ids are an affine permutation of the sensors, with
		// coefficients specific to that second: uniform and unique.
		if seq/readingsPerSecond != second {
			second = seq / readingsPerSecond
			scale, shift, _ = permutation(s, second)
		}
		d := s.Row(seq)
		c[0].Ints = append(c[0].Ints, (scale*(seq%readingsPerSecond)+shift)%sensors)
		c[1].Ints = append(c[1].Ints, readingsClock.At(seq))
		c[2].Floats = append(c[2].Floats, d.Float()*1000)
	}
	b.EndRows(n)
}

// sbtest is the table and the statement of sysbench's oltp_insert.
func sbtest() preset {
	return preset{
		name: "sbtest",
		help: "table and statement of sysbench's oltp_insert, to compare generators on the same work",
		table: engine.Table{
			Name: "sbtest1",
			Columns: []engine.Column{
				{Name: "id", Type: engine.Int32, Auto: true},
				{Name: "k", Type: engine.Int32, Default: "'0'"},
				{Name: "c", Type: engine.Char, Size: 120, Default: "''"},
				{Name: "pad", Type: engine.Char, Size: 60, Default: "''"},
			},
			PrimaryKey: []string{"id"},
			Indexes:    []engine.Index{{Name: "k_1", Columns: []string{"k"}}},
			ServerKey:  "id",
		},
		by: "id", axis: rolling.Sequence,
		indexes: 1, batch: 1,
		fill: func(b *engine.Batch, s draw.Stream, first int64, n int) { fillSbtestKeys(b, s, first, n, sbtestKeys) },
		deviations: []string{
			"k is uniform in 1..10000, as sysbench has it with --rand-type=uniform and its default table size",
			"the table begins empty; sysbench prepares it with rows",
			"on an engine where id 0 would be a value, the statement leaves it out",
		},
	}
}

const (
	sbtestKeys = 10000 // sysbench's default --table-size
	cGroups    = 10    // groups of 11 digits in c
	padGroups  = 5     // groups of 11 digits in pad
)

// fillSbtestKeys appends rows whose k is uniform in 1..keys.
func fillSbtestKeys(b *engine.Batch, s draw.Stream, first int64, n int, keys uint64) {
	c := b.Columns
	for seq := first; seq < first+int64(n); seq++ {
		d := s.Row(seq)
		c[0].Ints = append(c[0].Ints, 1+d.Below(keys))
		c[1].Bytes = draw.AppendGroups(c[1].Bytes, &d, cGroups)
		c[1].EndBytes()
		c[2].Bytes = draw.AppendGroups(c[2].Bytes, &d, padGroups)
		c[2].EndBytes()
	}
	b.EndRows(n)
}
