package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/column"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// wide is a table with 30 columns of the types that applications use, by kind of server.
var wide = map[string]string{
	"mysql": `id BIGINT UNSIGNED NOT NULL, at DATETIME(3) NOT NULL, tiny TINYINT NOT NULL, small SMALLINT UNSIGNED NOT NULL,
  medium MEDIUMINT NOT NULL, customer INT NOT NULL, big BIGINT, counter INT NOT NULL, paid BOOLEAN NOT NULL, ratio FLOAT NOT NULL, score DOUBLE,
  price DECIMAL(10,2) NOT NULL, tax DECIMAL(5,4), born DATE, noon TIME, exactly TIME(3) NOT NULL, since YEAR NOT NULL, seen TIMESTAMP NULL,
  updated DATETIME(6) NOT NULL, code CHAR(8) NOT NULL, name VARCHAR(40) NOT NULL, mail VARCHAR(80), note TEXT, body LONGTEXT,
  state ENUM('new','paid','sent') NOT NULL, tags SET('a','b','c') NOT NULL, hash BINARY(16) NOT NULL, raw VARBINARY(40), doc JSON, session CHAR(32) NOT NULL,
  total DECIMAL(12,2) GENERATED ALWAYS AS (price * 2) STORED, PRIMARY KEY (customer, at), KEY (session), KEY (mail), UNIQUE KEY (counter, at)`,
	"postgres": `id bigint NOT NULL, at timestamptz NOT NULL, tiny smallint NOT NULL, small int2 NOT NULL, medium integer NOT NULL, customer int NOT NULL,
  big bigint, counter integer NOT NULL, paid boolean NOT NULL, ratio real NOT NULL, score double precision, price numeric(10,2) NOT NULL, tax numeric(5,4), born date,
  noon time, exactly time(3) NOT NULL, since smallint NOT NULL, seen timestamp, updated timestamptz NOT NULL, code char(8) NOT NULL, name varchar(40) NOT NULL,
  mail text, note text, body text, state text NOT NULL, tags text[], hash uuid NOT NULL, raw bytea, doc jsonb, session uuid NOT NULL, plain json,
  PRIMARY KEY (customer, at), UNIQUE (counter, at)`,
	"sqlite": `id INTEGER NOT NULL, at DATETIME NOT NULL, tiny TINYINT NOT NULL, small SMALLINT NOT NULL, medium INT NOT NULL, customer INTEGER NOT NULL,
  big BIGINT, counter INTEGER NOT NULL, paid BOOLEAN NOT NULL, ratio REAL NOT NULL, score DOUBLE, price DECIMAL(10,2) NOT NULL, tax NUMERIC(5,4), born DATE, noon TIME,
  exactly TIME NOT NULL, since INT NOT NULL, seen TIMESTAMP, updated DATETIME NOT NULL, code CHAR(8) NOT NULL, name VARCHAR(40) NOT NULL, mail TEXT, note TEXT, body CLOB,
  state TEXT NOT NULL, tags TEXT, hash BLOB NOT NULL, raw BLOB, doc JSON, session UUID NOT NULL, PRIMARY KEY (customer, at)`,
}

const wideValues = `
[values]
rows-per-second = 5000
[values.customer]
distinct = 50000
[values.big]
null = 0.3
skew = 0.9
[values.counter]
order = "ascending"
[values.id]
order = "ascending"
new = 0.25
window = 1000
[values.mail]
order = "recent"
new = 0.1
window = 2000
length = [20, 40]
[values.note]
length = [0, 200]
null = 0.5
[values.price]
from = 0
to = 999.99
[values.state]
words = ["new", "paid"]
heavy = [0.9]
`

func own(t testing.TB, scheme, columns, period, values string) *Own {
	t.Helper()
	text := fmt.Sprintf("[table]\nname = 'mine'\ntarget = '%s'\ntime = 'at'\ncreate = '''\nCREATE TABLE mine (%s)'''\n[period]\n%s\n%s",
		map[string]string{"sqlite": "sqlite:x"}[scheme]+map[bool]string{true: scheme + "://db/x"}[scheme != "sqlite"], columns, period, values)
	d, err := rolling.ParseDeclaration("mine.toml", []byte(text))
	ok(t, err)
	return &Own{Declaration: d}
}

func openOwn(t testing.TB, kind string) (engine.Keeper, string) {
	scheme := kind
	if kind == "mariadb" {
		scheme = "mysql"
	}
	return testdb.Open(t, kind).(engine.Keeper), scheme
}

// A table of 30 columns is filled, plain and rolling, and verified.
func TestOwnTable(t *testing.T) {
	t.Parallel()
	kinds := stores
	if testdb.Nightly() {
		kinds = []string{"sqlite", "mariadb", "mysql", "postgres"}
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			db, scheme := openOwn(t, kind)
			o := own(t, scheme, wide[scheme], "every = 'auto'", wideValues)
			ok(t, o.Describe(t.Context(), db, false, false))
			if n := len(o.schema.Columns); n < 30 {
				t.Errorf("%d columns", n)
			}
			for _, layout := range Layouts() {
				const rows = 3210
				w := newTestInsert(t, db, InsertOptions{Own: o, Layout: layout, Rows: rows, Writers: 2, Batch: 100, PeriodRows: 1300})
				setUp(t, w)
				run(t, w, config(w))
				p := mustHold(t, w, rows)
				if layout == Rolling && len(p.Periods) < 3 {
					t.Errorf("%d periods", len(p.Periods))
				}
				if err := w.Drop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A load of a table that rolls by a counter goes on where it ended.
func TestOwnResume(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	open := func(resumed bool, rows int64) *Insert {
		o := own(t, "sqlite", "name VARCHAR(20) NOT NULL, at INTEGER NOT NULL PRIMARY KEY", "rows = 300", "")
		ok(t, o.Describe(t.Context(), db, false, resumed))
		return newTestInsert(t, db, InsertOptions{Own: o, Layout: Rolling, Rows: rows, Batch: 50, PeriodRows: o.PeriodRows()})
	}
	w := open(false, 500)
	setUp(t, w)
	run(t, w, config(w))
	w = open(true, 1000)
	got, err := w.Resume(t.Context(), 1000, unseen)
	ok(t, err)
	if got.Rows != 500 {
		t.Errorf("%+v", got)
	}
	cfg := config(w)
	cfg.Rows = 500
	run(t, w, cfg)
	if p := mustHold(t, w, 1000); len(p.Periods) < 4 {
		t.Errorf("%d periods", len(p.Periods))
	}
}

func TestOwnNumbers(t *testing.T) {
	s := draw.NewStream(1, 0)
	drawn := func(src draw.Source, seq int64) uint64 {
		return src.Number(s, seq, draw.Mix(uint64(s.Row(seq))+draw.Golden))
	}
	t.Run("heavy", func(t *testing.T) {
		r := ranked(1000, []float64{0.5, 0.2}, 0, 0)
		got := map[uint64]int{}
		const rows = 100_000
		for seq := range int64(rows) {
			got[drawn(r, seq)]++
		}
		counts := slices.Sorted(func(yield func(int) bool) {
			for _, n := range got {
				if !yield(n) {
					return
				}
			}
		})
		n := len(counts)
		if n != 1000 || math.Abs(float64(counts[n-1])/rows-0.5) > 0.01 || math.Abs(float64(counts[n-2])/rows-0.2) > 0.01 || counts[0] < 10 {
			t.Errorf("%d values, the most frequent %v", n, counts[max(n-3, 0):])
		}
	})
	t.Run("recent", func(t *testing.T) {
		k := draw.Source{Share: 0.1, Last: 200} // keys of the last 2,000 rows
		last := map[uint64]int64{}
		for seq := range int64(50_000) {
			n := drawn(k, seq)
			if first, seen := last[n]; seen && seq-first > 2010 {
				t.Fatalf("key %d came again after %d rows", n, seq-first)
			} else if !seen {
				last[n] = seq
			}
		}
		if n := len(last); n < 5000 || n > 5300 {
			t.Errorf("%d keys in 50,000 rows", n)
		}
	})
	// Rows of one tick differ, whatever the frequencies, and the frequencies stay.
	for name, of := range map[string]draw.Source{
		"tick, even":   ranked(1100, nil, 0, 1000),
		"tick, heavy":  ranked(1100, []float64{0.5, 0.0001}, 0, 1000),
		"tick, skewed": ranked(100_000, nil, 1.2, 1000),
		"tick, recent": {Share: 0.5, Last: 1001},
	} {
		t.Run(name, func(t *testing.T) {
			c := of.Apart(1000)
			for tick := range int64(200) {
				seen := map[uint64]bool{}
				for seq := tick * 1000; seq < (tick+1)*1000; seq++ {
					n := drawn(c, seq)
					if seen[n] {
						t.Fatalf("%d twice in tick %d", n, tick)
					}
					seen[n] = true
				}
			}
		})
	}
	// Otherwise they are as if drawn: of 1000 parts of the values, 1000 rows are in 1000 (1 - 1/e) =
	// 632.
	t.Run("tick, in no order", func(t *testing.T) {
		c, parts := ranked(1_000_000, nil, 0, 1000).Apart(1000), 0
		for tick := range int64(200) {
			seen := map[uint64]bool{}
			for seq := tick * 1000; seq < (tick+1)*1000; seq++ {
				seen[drawn(c, seq)/1000] = true
			}
			parts += len(seen)
		}
		if mean := float64(parts) / 200; math.Abs(mean-632) > 5 {
			t.Errorf("%.1f parts", mean)
		}
	})
	if draw.NewRanks(900, nil, 0, 1000) != nil {
		t.Error("900 values for 1000 rows of a tick")
	}
}

func ranked(distinct int64, heavy []float64, skew float64, tick int64) draw.Source {
	return draw.Source{Ranks: draw.NewRanks(distinct, heavy, skew, tick)}
}

// What a server's types rule out is refused with its place in the file.
func TestOwnRefused(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	const columns = "sensor INTEGER NOT NULL, at DATETIME NOT NULL, note VARCHAR(10), PRIMARY KEY (sensor, at)"
	for _, x := range []struct{ name, columns, values, want string }{
		{"range of a text", columns, "[values.note]\nfrom = 1\nto = 2", `mine.toml:9:9: column note: from and to are for numbers, and its type is VARCHAR(10)`},
		{"words of a number", columns, "[values.sensor]\nwords = ['a']", `mine.toml:9:9: column sensor: words are for texts, and its type is INTEGER`},
		{"length", columns, "[values.note]\nlength = [1, 20]", `mine.toml:9:9: column note: texts of up to 20, and its type is VARCHAR(10)`},
		{"null", columns, "[values.sensor]\nnull = 0.5", `mine.toml:9:9: column sensor: null = 0.5, and the column is NOT NULL`},
		{"key", "a INTEGER NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (at, a)", "[values]\nrows-per-second = 2000000\n[values.a]\ndistinct = 10", "mine.toml:11:9: column a: the key (at, a) has room for 10 rows of one time, and 2000000 have it"},
		{"key of time", "at DATETIME NOT NULL, PRIMARY KEY (at)", "[values]\nrows-per-second = 2000000", "column at: the key (at) has room for 0 rows of one time, and 2000000 have it"},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := own(t, "sqlite", x.columns, "every = 'auto'", x.values)
			ok(t, o.Describe(t.Context(), db, true, false))
			_, err := NewInsert(db, InsertOptions{Own: o, Layout: Plain})
			if err == nil || !strings.Contains(err.Error(), x.want) || engine.HintOf(err) == "" {
				t.Errorf("%v\nwant %s", err, x.want)
			}
		})
	}
}

// The generator isn't the bottleneck: ns per row of 30 columns, without allocations.
func BenchmarkOwnFill(b *testing.B) {
	db, scheme := openOwn(b, "sqlite")
	o := own(b, scheme, wide[scheme], "every = 'auto'", wideValues)
	ok(b, o.Describe(b.Context(), db, false, false))
	p, err := o.preset()
	ok(b, err)
	const rows = 1000
	batch, s := engine.NewBatch(p.table.Columns), draw.NewStream(1, 0)
	p.fill(batch, s, 0, rows)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		batch.Reset()
		p.fill(batch, s, int64(i)*rows, rows)
	}
	perRow(b, b.N*rows)
}

// Keys that come with time differ, whatever their type.
func TestOwnKeysDiffer(t *testing.T) {
	for _, c := range []engine.SchemaColumn{
		{Native: "int", Type: value.Type{Kind: value.Int, Bits: 32}},
		{Native: "decimal(8,2)", Type: value.Type{Kind: value.Decimal, Precision: 8, Scale: 2}},
		{Native: "char(5)", Type: value.Type{Kind: value.Text, Length: 5}},
		{Native: "uuid", Type: value.Type{Logical: value.UUID}},
	} {
		for _, order := range []rolling.ValueOrder{rolling.OrderAscending, rolling.OrderRecent} {
			f := column.Column{SchemaColumn: &c, Values: rolling.ColumnValues{Order: order}, Clock: readingsClock, Counted: true}
			col, _, err := f.Generator()
			ok(t, err)
			seen := map[string]bool{}
			for n := range uint64(30_000) {
				var v engine.Vector
				col.Put(&v, n)
				key := fmt.Sprintf("%v %s", v.Ints, v.Bytes)
				if seen[key] {
					t.Fatalf("%s %s: %s is there twice", c.Native, order, key)
				}
				seen[key] = true
			}
		}
	}
}
