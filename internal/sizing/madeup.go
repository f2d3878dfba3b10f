package sizing

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// makeUp fills the scratch table with generated rows in the order of time.
func (s *Sample) makeUp(ctx context.Context, into string) error {
	s.source = "made-up rows"
	g := &rowMaker{s: s, table: s.gridded(), random: rand.New(rand.NewPCG(1, 2)), step: 1000}
	if s.Rate > 0 {
		g.step = int64(min(max(1, 1e6/s.Rate), 1e15))
	}
	columns, err := g.prepare()
	if err != nil {
		return engine.Hinted(err, "put some %d rows into the table first, or --row-bytes N", fewestLive)
	}
	var batch [][]any
	for i := range s.Rows {
		row := make([]any, len(g.makers))
		for j, m := range g.makers {
			row[j] = m(int64(i))
		}
		if batch = append(batch, row); len(batch) == s.perStatement() || i == s.Rows-1 {
			if err := s.insert(ctx, into, columns, batch); err != nil {
				return engine.Hinted(fmt.Errorf("insert made-up rows: %w", err), "put some %d rows into the table first, or --row-bytes N", fewestLive)
			}
			batch = batch[:0]
		}
	}
	return nil
}

type rowMaker struct {
	s      *Sample
	table  *engine.Table
	random *rand.Rand
	makers []maker
	// start is the position of the first row, step the distance between rows.
	start, step int64
}

// A maker returns the value of a column in row i.
type maker func(i int64) any

func (g *rowMaker) prepare() (columns []string, err error) {
	schema := g.s.schema
	keys := append([][]string{schema.PrimaryKey}, schema.Unique...)
	keyed := map[string]bool{}
	for _, k := range keys {
		for _, c := range k {
			keyed[c] = true
		}
	}
	distinct := map[string]int64{}
	for _, name := range schema.Names() {
		c := *schema.Column(name)
		if strings.EqualFold(name, g.table.By) {
			columns, g.makers = append(columns, name), append(g.makers, func(i int64) any {
				return literal(g.s.DB.Words().Literal(g.table, g.start+i*g.step))
			})
			continue
		}
		m, n := g.maker(c, keyed[name])
		if m == nil {
			if c.Null || c.Default != "" || c.Auto {
				continue // the server fills in the column
			}
			return nil, fmt.Errorf("column %s of type %s: rowmill can't generate values of it", name, c.Native)
		}
		distinct[name] = n
		columns, g.makers = append(columns, name), append(g.makers, m)
	}
	g.spread(keys, distinct)
	return columns, nil
}

// The range of times that every type can hold: TIMESTAMP and 32-bit integers end in January 2038.
var (
	earliest = rolling.Position(time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC))
	latest   = rolling.Position(time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC))
)

// spread sets the distance between rows so that no two rows have the same key.
func (g *rowMaker) spread(keys [][]string, distinct map[string]int64) {
	if g.table.Grid.Axis() == rolling.Sequence {
		g.start, g.step = 1, 1
		return
	}
	unit := int64(1e6) // a time column may be limited to whole seconds
	if by := g.s.schema.Column(g.table.By); by != nil && by.Logical == value.Date {
		unit = 86400e6
	}
	least := int64(1)
	for _, k := range keys {
		if len(k) == 0 {
			continue
		}
		most := int64(1)
		for _, c := range k {
			most = max(most, distinct[c])
		}
		least = max(least, (unit+most-1)/most)
	}
	g.step = max(g.step, least)
	// Sparse rows come closer together, and are fewer, rather than leave the range.
	if n := latest - earliest; g.step > n/int64(g.s.Rows) {
		g.step = max(least, n/int64(g.s.Rows))
		g.s.Rows = int(min(int64(g.s.Rows), n/g.step))
	}
	g.start = max(min(rolling.Position(time.Now()), latest)-g.step*int64(g.s.Rows), earliest)
	g.start -= g.start % unit
}

// maker returns the generator of a column, nil if its type is not supported, and the number of
// consecutive values that differ. Key columns get values from their whole range.
func (g *rowMaker) maker(c engine.SchemaColumn, keyed bool) (maker, int64) {
	r, name := g.random, value.ParseName(c.Native)
	if m, n := g.special(c.Type, name); m != nil {
		return m, n
	}
	switch c.Kind {
	case value.Int:
		bits := 30
		if c.Bits > 0 {
			bits = min(c.Bits-2, 30)
		}
		if keyed {
			return func(i int64) any { return permuted(i, uint(bits)) }, 1 << bits
		}
		return func(int64) any { return r.Int64N(1 << min(bits, 20)) }, 1
	case value.Float:
		return func(int64) any { return float64(r.IntN(1_000_000)) / 100 }, 1
	case value.Decimal:
		digits, scale := min(c.Whole(), 9), c.Scale
		if c.Precision == 0 {
			digits, scale = 7, 2
		}
		whole := int64(1)
		for range digits {
			whole *= 10
		}
		return func(i int64) any {
			text := strconv.FormatInt(r.Int64N(whole), 10)
			if keyed {
				text = strconv.FormatInt(i%whole, 10)
			}
			if scale > 0 {
				text += fmt.Sprintf(".%0*d", scale, r.IntN(10))
			}
			return text
		}, whole
	case value.Time:
		layout := time.DateTime
		if c.Logical == value.Date {
			layout = time.DateOnly
		}
		return func(i int64) any { return rolling.Instant(g.start + i*g.step).Truncate(time.Second).Format(layout) }, 1
	case value.Text:
		return g.words(c.Length, strings.HasPrefix(name.First, "char") || name.First == "bpchar", keyed)
	case value.Bytes:
		if c.Logical == value.Bit {
			return func(i int64) any { return []byte{byte(i & 1)} }, 2
		}
		n := 32
		if c.Length > 0 {
			n = max(1, min(n, c.Length/2))
		}
		if name.First == "binary" {
			n = max(1, c.Length)
		}
		return func(int64) any { return g.bytes(n) }, 1 << min(8*n, 40)
	}
	return nil, 0
}

func (g *rowMaker) bytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(g.random.Uint32())
	}
	return p
}

// special generates values of types with a syntax of their own.
func (g *rowMaker) special(t value.Type, name value.Name) (maker, int64) {
	r := g.random
	switch {
	case t.Array:
		return func(int64) any { return "{}" }, 1
	case strings.HasPrefix(name.First, "inet"):
		return func(int64) any { return fmt.Sprintf("10.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256)) }, 1
	}
	switch t.Logical {
	case value.Bool:
		return func(i int64) any { return i%2 == 0 }, 2
	case value.UUID:
		return func(int64) any {
			h := hex.EncodeToString(g.bytes(16))
			return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		}, 1 << 40
	case value.JSON:
		return func(int64) any { return fmt.Sprintf(`{"id": %d, "note": "%s"}`, r.IntN(1_000_000), text(r, 24)) }, 1
	case value.Enum, value.Set:
		if len(t.Members) > 0 {
			return func(int64) any { return t.Members[0] }, 1
		}
	case value.Year:
		return func(int64) any { return 2026 }, 1
	case value.Clock:
		return func(i int64) any { return fmt.Sprintf("%02d:%02d:%02d", i/3600%24, i/60%60, i%60) }, 1
	}
	return nil, 0
}

// words generates texts of half the column's maximum length, up to 40 characters; fixed-length
// columns are filled.
func (g *rowMaker) words(size int, fixed, keyed bool) (maker, int64) {
	n := 40
	if size > 0 {
		n = max(1, min(n, size/2))
	}
	if fixed {
		n = max(1, size)
	}
	if !keyed {
		return func(int64) any { return text(g.random, n) }, 1
	}
	// In a key, the text begins with a permuted number of up to 8 characters.
	letters := min(max(n, size/2, 1), 8)
	if size > 0 {
		letters = min(letters, size)
	}
	bits := uint(letters * 5) // base 32 encodes five bits per character
	return func(i int64) any {
		t := strconv.FormatInt(permuted(i, bits), 32)
		t = strings.Repeat("0", letters-len(t)) + t
		return t + text(g.random, n)[:max(0, n-letters)]
	}, 1 << bits
}

// permuted maps the numbers below 2^bits to a permutation in which neighbours are far apart: an
// odd factor has an inverse modulo a power of two.
func permuted(i int64, bits uint) int64 {
	return int64(uint64(i) * 0x9E3779B1 & (1<<bits - 1))
}

var vocabulary = strings.Fields("alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu")

func text(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}
